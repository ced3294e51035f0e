#!/bin/sh
# google-cloud-compute 1.57.0 (Google's own client of Compute Engine), Python 3.10 or newer.
#
# The docstring of Instance.status ends "Check the Status enum for the list of possible values", and Scheduling.provisioning_model
# says the same of the ProvisioningModel enum; both enums are classes inside the message. But both fields are strings, and the enums are
# numbers: `instance.status == Instance.Status.RUNNING` is False for a machine that runs, without an error, and
# `!= Status.TERMINATED` is True for one that is gone. A loop that waits for RUNNING waits for ever and the machine is paid; a list
# of what still runs holds everything or nothing. Setting provisioning_model to the enum is refused. A few fields are true enums
# (Operation.status), so that the same line is right there. Seen:
#
#     Instance.status 'RUNNING': == Status.RUNNING False, != Status.TERMINATED True, == Status.RUNNING.name True
#     Operation.status: == Status.DONE True
#
# Compare with `.name`. The numbers are not Compute Engine's either: they are made from the names.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check google-cloud-compute==1.57.0
cd "$folder"
venv/bin/python - <<'PYTHON'
from google.cloud import compute_v1 as compute

Status = compute.Instance.Status
instance = compute.Instance.from_json('{"name": "a3-1", "status": "RUNNING", "scheduling": {"provisioningModel": "SPOT"}}')
running, gone, name = instance.status == Status.RUNNING, instance.status != Status.TERMINATED, Status.RUNNING.name
print(
    f"Instance.status {instance.status!r}: == Status.RUNNING {running}, != Status.TERMINATED {gone}, "
    f"== Status.RUNNING.name {instance.status == name}"
)
assert type(instance.status) is str and not running and gone, "changed: the status can be compared with its enum"
assert instance.status == name, "changed: the status is not the enum's name"
assert "Check the Status enum" in compute.Instance.__doc__, "changed: the docstring does not name the enum any more"

Model = compute.Scheduling.ProvisioningModel
spot = instance.scheduling.provisioning_model == Model.SPOT
print(f"Scheduling.provisioning_model {instance.scheduling.provisioning_model!r}: == ProvisioningModel.SPOT {spot}")
assert not spot, "changed: the provisioning model can be compared with its enum"
try:
    compute.Scheduling(provisioning_model=Model.SPOT)
except TypeError as refused:
    print(f"Scheduling(provisioning_model=ProvisioningModel.SPOT): {type(refused).__name__}")
else:
    raise AssertionError("changed: the enum is taken as the provisioning model")

operation = compute.Operation.from_json('{"status": "DONE"}')
done = operation.status == compute.Operation.Status.DONE
print(f"Operation.status: == Status.DONE {done}")
assert done, "changed: the status of an operation cannot be compared with its enum"
print("google-cloud-compute 1.57.0: an instance's status is never equal to its enum")
PYTHON
