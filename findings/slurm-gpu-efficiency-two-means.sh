#!/bin/sh
# reportseff 2.10.3 and jobscope 0.1.1 (both report the efficiency of Slurm jobs), Python 3.10 or newer.
#
# Both read the same text: what Princeton's jobstats stores in a job's AdminComment, with the use of each GPU of each node. jobscope takes
# the mean over the job's GPUs. reportseff takes the mean of each node, and then the mean of the nodes, so that a node with one
# GPU counts as much as a node with eight. `sbatch --gpus=9` gives such jobs. Eight busy GPUs on one node, an idle one on the other:
#
#     reportseff: GPU 50.0 %, GPU memory 40.0 %
#     jobscope: GPU 89 %, GPU memory 71 %
#
# reportseff's README does not say which mean GPUEff is; jobscope's source says that its own is the one jobstats prints. Reports by the two
# cannot be compared, and a limit on GPUEff ("below 60 % loses its share") hits jobs by how Slurm spread them. For jobs whose nodes
# have the same number of GPUs both agree.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check reportseff==2.10.3 jobscope==0.1.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import base64
import gzip
import json

from jobscope.blob import blob_metrics, decode_admin_comment
from reportseff.job import Job


def node(busy: dict[str, float]) -> dict:
    used = {gpu: 8 if percent else 0 for gpu, percent in busy.items()}
    cpu = {"total_time": 3600, "cpus": 8, "used_memory": 1, "total_memory": 2}
    return cpu | {"gpu_utilization": busy, "gpu_used_memory": used, "gpu_total_memory": dict.fromkeys(busy, 10)}


def comment(nodes: dict) -> str:
    text = json.dumps({"nodes": nodes, "total_time": 3600, "gpus": 1})
    return "JS1:" + base64.b64encode(gzip.compress(text.encode())).decode()


def reportseff(text: str) -> tuple[float, float]:
    job = Job("77", "77", None)
    job.update({"JobID": "77", "State": "COMPLETED", "Elapsed": "01:00:00", "AdminComment": text})
    return job.gpu, job.gpu_mem


def jobscope(text: str) -> tuple[int, int]:
    return blob_metrics(decode_admin_comment(text))[2:]


eight, idle = {str(gpu): 100.0 for gpu in range(8)}, {"0": 0.0}
spread = comment({"node-1": node(eight), "node-2": node(idle)})
even = comment({"node-1": node(eight), "node-2": node(eight)})
print("reportseff: GPU {} %, GPU memory {} %".format(*reportseff(spread)))
print("jobscope: GPU {} %, GPU memory {} %".format(*jobscope(spread)))
assert reportseff(spread) == (50.0, 40.0), "changed: reportseff does not take the mean of the nodes' means"
assert jobscope(spread) == (89, 71), "changed: jobscope does not take the mean of the GPUs"
assert reportseff(even) == jobscope(even) == (100, 80), "changed: they disagree on nodes with the same number of GPUs"
print("reportseff 2.10.3, jobscope 0.1.1: two efficiencies of one job")
PYTHON
