#!/bin/sh
# moto 5.2.5 (the usual stand-in for AWS in Python tests) with boto3 1.44.8, Python 3.10 or newer.
#
# EC2's page "Ensuring idempotency" promises of RunInstances: the same ClientToken again gives the instance that is there, and the same
# token with other parameters is refused (IdempotentParameterMismatch). moto takes the token, and answers with it in each instance,
# but rents anew every time:
#
#     RunInstances twice with one ClientToken: 2 instances, each answered with that token
#     the same ClientToken with another InstanceType: a third instance, no IdempotentParameterMismatch
#
# So a test on moto fails code that repeats a request rightly, and passes code that uses one token for two machines, which on EC2 gets one
# machine or an error. Since the token comes back in the answer, a test that looks for it sees nothing missing. Whether nothing is
# rented twice must be tested on something stricter.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "moto[ec2]==5.2.5" boto3==1.44.8 botocore==1.44.8
cd "$folder"
AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none venv/bin/python - <<'PYTHON'
import boto3
import moto


def rent(ec2, **other: str) -> dict:
    """The instance that one request rents, always with the same token."""
    asked = dict(ImageId="ami-12c6146b", InstanceType="p5.48xlarge", MinCount=1, MaxCount=1, ClientToken="run-1") | other
    [instance] = ec2.run_instances(**asked)["Instances"]
    return instance


with moto.mock_aws():
    ec2 = boto3.client("ec2", region_name="us-east-1")
    first, second = rent(ec2), rent(ec2)
    ids = {first["InstanceId"], second["InstanceId"]}
    print(f"RunInstances twice with one ClientToken: {len(ids)} instances, tokens {first['ClientToken']}, {second['ClientToken']}")
    assert len(ids) == 2, "changed: the token is kept to"
    assert first["ClientToken"] == second["ClientToken"] == "run-1", "changed: the token is not answered"
    try:
        third = rent(ec2, InstanceType="g6.xlarge")
    except ec2.exceptions.ClientError as refused:
        raise AssertionError(f"changed: {refused}")
    print(f"the same ClientToken with another InstanceType: {third['InstanceType']}, new: {third['InstanceId'] not in ids}")
    assert third["InstanceId"] not in ids, "changed: the first instance is answered"
print("moto 5.2.5: a client token is answered and not kept to")
PYTHON
