#!/bin/sh
# botocore 1.44.8 (the core of boto3 and of the AWS command line), Python 3.10 or newer.
#
# EC2's page "Ensuring idempotency" recommends a client token for what may be repeated, and botocore makes one for RunInstances and
# CreateFleet by itself: its own repeats carry it. PurchaseCapacityBlock, the call that pays for GPUs weeks in advance, has no
# parameter for a token at all, and CreateCapacityReservation has one that botocore leaves empty. botocore repeats both none
# the less, as it repeats every call: with its defaults it tries three times if the connection ends before the answer came.
# Seen here, by a server that takes each call and hangs up without an answer (what a lost answer looks like):
#
#     RunInstances: 3 calls, 1 token
#     CreateFleet: 3 calls, 1 token
#     CreateCapacityReservation: 3 calls, no token
#     PurchaseCapacityBlock: 3 calls, no token
#
# Whoever buys through boto3 gives a token where there is a parameter, and else sets retries={"total_max_attempts": 1} and looks at what
# was bought before the next try.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check botocore==1.44.8
cd "$folder"
AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null venv/bin/python - <<'PYTHON'
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import botocore
import botocore.exceptions
import botocore.session

calls = defaultdict(list)


class HangsUp(BaseHTTPRequestHandler):
    """Takes a call and answers nothing."""

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        calls[body["Action"][0]].append(body.get("ClientToken", [None])[0])
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), HangsUp)
threading.Thread(target=server.serve_forever, daemon=True).start()
ec2 = botocore.session.get_session().create_client(
    "ec2",
    region_name="us-east-1",
    endpoint_url=f"http://127.0.0.1:{server.server_port}",
    aws_access_key_id="none",
    aws_secret_access_key="none",
)
SPENDS = {
    "RunInstances": dict(MinCount=1, MaxCount=1, InstanceType="p5.48xlarge"),
    "CreateFleet": dict(
        LaunchTemplateConfigs=[], TargetCapacitySpecification=dict(TotalTargetCapacity=1), Type="instant"
    ),
    "CreateCapacityReservation": dict(
        InstanceType="p5.48xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1
    ),
    "PurchaseCapacityBlock": dict(CapacityBlockOfferingId="cbo-1", InstancePlatform="Linux/UNIX"),
}
for name, parameters in SPENDS.items():
    try:
        ec2._make_api_call(name, parameters)
    except botocore.exceptions.ConnectionClosedError:
        pass
    tokens = set(calls[name])
    print(f"{name}: {len(calls[name])} calls, {'no token' if tokens == {None} else f'{len(tokens)} token'}")
for name in SPENDS:
    assert len(calls[name]) == 3, f"changed: {name} is called {len(calls[name])} times"
for name in ("RunInstances", "CreateFleet"):
    assert len(set(calls[name])) == 1 and calls[name][0], f"changed: the calls of {name} do not carry one token"
for name in ("CreateCapacityReservation", "PurchaseCapacityBlock"):
    assert set(calls[name]) == {None}, f"changed: {name} carries a token"
print(f"botocore {botocore.__version__}: purchases are repeated without a token")
PYTHON
