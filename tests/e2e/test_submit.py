"""``charterer run`` on a real node: its code runs there, is heard from here, and reports in Kubeflow's protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.commands import charterer_run
from tests.e2e.support import REAL_NODES
from tests.testbed.images import TRAIN
from tests.testbed.real_bed import RealBed
from tests.unit.cli.run.repository import repository

pytestmark = REAL_NODES
TRAIN_PY = """
import json, os, ssl, sys, time
from pathlib import Path
from urllib.request import Request, urlopen
from sft import word

print("it runs:", word, os.environ["GREETING"], sys.argv[1:], os.getcwd(), flush=True)
trusted = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
report = json.dumps({"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": "2026-11-26T20:00:00Z"}})
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
request = Request(url, report.encode(), {"Authorization": f"Bearer {token}"}, method="POST")
while True:
    try:
        with urlopen(request, timeout=5, context=trusted) as answer:
            print("reported:", answer.status, url.rpartition("/v1")[2], flush=True)
            break
    except OSError as error:
        print(error, file=sys.stderr, flush=True)  # a pod is not known to the operator in its first moment
        time.sleep(0.5)
Path("written-where-it-runs").touch()
"""
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: usr}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          [JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "usr",
          hostPath: Object.spec.volumes.hostPath{path: "/usr"}}},
          JSONPatch{op: "add", path: "/spec/initContainers/0/volumeMounts/-",
          value: Object.spec.initContainers.volumeMounts{name: "usr", mountPath: "/usr", readOnly: true}},
          JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-",
          value: Object.spec.containers.volumeMounts{name: "usr", mountPath: "/usr", readOnly: true}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: usr}
spec: {policyName: usr}
"""
"""The image to train in has an empty root: this machine's /usr, and Python in it, come by this."""


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="/usr/bin has no python3 for containers")
async def test_the_code_of_a_directory_runs_on_a_node_is_heard_and_reports(real_bed: RealBed, tmp_path: Path) -> None:
    real_bed.operator()
    await real_bed.pool()
    await real_bed.budget()
    await real_bed.apply_yaml(POLICY.replace("NAMESPACE", real_bed.namespace))
    here = repository(tmp_path / "code", {"train.py": TRAIN_PY, "sft/__init__.py": "word = 'imported'"})
    follow = ("--follow", "--gpus", "1", "--image", TRAIN, "--name", "sft", "--env", "GREETING=hello")
    asked = ("-n", real_bed.namespace, *follow, "--", "python3", "train.py", "--lr", "1e-3")
    ran = await charterer_run(real_bed.plane.kubeconfig, here, *asked)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "it runs: imported hello ['--lr', '1e-3'] /workspace",
        "reported: 200 /trainer-status/0",
    ]
    assert real_bed.tj("sft")["progress"]["fraction"] == 0.42
    real_bed.plane.kubectl("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", "usr")
