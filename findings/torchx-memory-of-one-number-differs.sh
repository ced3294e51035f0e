#!/bin/sh
# torchx 0.7.0 with docker 7.2.0 and kubernetes 30.1.0.
#
# A role of TorchX has one number for its memory (memMB). TorchX's Docker scheduler writes it with the suffix "m", which Docker
# reads as 2**20 bytes; its Kubernetes scheduler writes it with the suffix "M", which Kubernetes reads as 10**6. A role of 16384
# may use 17.18 GB on a workstation and 16.38 GB in a cluster, 4.6 % less. A job that just fits there is killed here.
set -eu

version=0.7.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "torchx==$version" "docker==7.2.0" "kubernetes==30.1.0"
cd "$folder"
cat > program.py <<'PROGRAM'
from docker.utils import parse_bytes
from kubernetes.utils.quantity import parse_quantity
from torchx.schedulers.docker_scheduler import DockerScheduler
from torchx.schedulers.kubernetes_scheduler import role_to_pod
from torchx.specs import AppDef, Resource, Role

role = Role(name="train", image="train:1", entrypoint="train", resource=Resource(cpu=4, gpu=1, memMB=16384))
container = DockerScheduler("session").submit_dryrun(AppDef(name="train", roles=[role]), {"copy_env": None}).request.containers[0]
limit = container.kwargs["mem_limit"]
print("Docker:", limit, "is", parse_bytes(limit), "bytes")
limit = role_to_pod("train", role, service_account=None).spec.containers[0].resources.limits["memory"]
print("Kubernetes:", limit, "is", int(parse_quantity(limit)), "bytes")
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
Docker: 16384m is 17179869184 bytes
Kubernetes: 16384M is 16384000000 bytes
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "torchx $version: as described"
