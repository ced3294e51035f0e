#!/bin/sh
# kubeflow 0.5.0 (the Kubeflow project's SDK), TrainJobs of Kubeflow Trainer 2.3, Python 3.10 or newer.
#
# TrainerClient.get_job says Running once all pods of a TrainJob run. It looks at the pods only if the TrainJob has no condition at all. A
# TrainJob that was ever suspended keeps a condition Suspended for its whole life: True first, then False with reason
# Resumed. A queue starts every job in this way (Kueue suspends at creation, resumes at admission). So a queued TrainJob is Created
# until it is Complete, and the SDK's own wait times out while the GPUs work:
#
#     pods running, no condition: Running
#     pods running, Suspended=False (Resumed): Created
#     wait_for_job_status({'Running'}): TimeoutError
#
# The docstring of wait_for_job_status offers Running without such a limit. The tool's tracker knows it: kubeflow/sdk issue 803 (open),
# and for the printed column kubeflow/trainer issue 3666. Scripts that give up a job because it "did not start" end paid work: look at
# the pods, or at status.jobsStatus.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kubeflow==0.5.0 kubeflow-trainer-api==2.3.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
from kubernetes import client

API = "trainer.kubeflow.org"
CONTAINER = {"name": "node", "image": "pytorch"}
JOB = {
    "apiVersion": f"{API}/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "tune", "namespace": "team", "creationTimestamp": "2026-11-01T00:00:00Z"},
    "spec": {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime", "apiGroup": API}, "trainer": {"numNodes": 1}},
}
RUNTIME = {
    "apiVersion": f"{API}/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "torch", "labels": {f"{API}/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"replicatedJobs": [{
            "name": "node",
            "template": {
                "metadata": {"labels": {f"{API}/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": {"spec": {"containers": [CONTAINER]}}},
            },
        }]}},
    },
}  # fmt: skip
PODS = {
    "apiVersion": "v1",
    "kind": "PodList",
    "metadata": {},
    "items": [{
        "metadata": {
            "name": "tune-node-0-0",
            "creationTimestamp": "2026-11-01T00:01:00Z",
            "labels": {"jobset.sigs.k8s.io/replicatedjob-name": "node", "batch.kubernetes.io/job-completion-index": "0"},
        },
        "spec": {"containers": [CONTAINER]},
        "status": {"phase": "Running"},
    }],
}  # fmt: skip
ANSWERS = {"trainjobs/tune": JOB, "trainingruntimes/torch": RUNTIME, "namespaces/team/pods": PODS}


class ApiServer(BaseHTTPRequestHandler):
    """Serves one TrainJob, its runtime and its pod."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = next((value for end, value in ANSWERS.items() if path.endswith(end)), None)
        body = json.dumps(found or {"kind": "Status", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
threading.Thread(target=server.serve_forever, daemon=True).start()
logging.disable(logging.CRITICAL)  # of the ConfigMap with the controller's version, which is not served here
access = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
trainer = TrainerClient(KubernetesBackendConfig(namespace="team", client_configuration=access))

before = trainer.get_job("tune").status
print(f"pods running, no condition: {before}")
JOB["status"] = {"conditions": [{
    "type": "Suspended", "status": "False", "reason": "Resumed", "message": "TrainJob is resumed",
    "lastTransitionTime": "2026-11-01T00:00:30Z",
}]}  # fmt: skip
after = trainer.get_job("tune").status
print(f"pods running, Suspended=False (Resumed): {after}")
try:
    waited = trainer.wait_for_job_status("tune", {"Running"}, timeout=3, polling_interval=1).status
except TimeoutError:
    waited = "TimeoutError"
print(f"wait_for_job_status({{'Running'}}): {waited}")
assert before == "Running", "changed: not Running without a condition"
assert after == "Created" and waited == "TimeoutError", "changed: Running after it was resumed"
print("kubeflow 0.5.0: a TrainJob that was resumed is never Running")
PYTHON
