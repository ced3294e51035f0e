#!/bin/sh
# google-cloud-compute 1.57.0.
#
# The enum Quota.Metric names a quota for each type of GPU: on demand (NVIDIA_L4_GPUS), preemptible and committed. Of the H100 it has
# the last two only, and of later GPUs none, although all are sold on demand. Whoever makes the name of a metric from that of a
# GPU finds no quota on demand for these, and not that there is another metric with dimensions, which the API does not list.
set -eu

version=1.57.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "google-cloud-compute==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
from google.cloud.compute_v1.types import Quota

metrics = {metric.name for metric in Quota.Metric}
for gpu in ("L4", "A100_80GB", "H100", "H200", "B200", "RTX_PRO_6000"):
    kinds = [kind or "on demand" for kind in ("", "PREEMPTIBLE_", "COMMITTED_") if f"{kind}NVIDIA_{gpu}_GPUS" in metrics]
    print(gpu, ", ".join(kinds) or "none")
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
L4 on demand, PREEMPTIBLE_, COMMITTED_
A100_80GB on demand, PREEMPTIBLE_, COMMITTED_
H100 PREEMPTIBLE_, COMMITTED_
H200 none
B200 none
RTX_PRO_6000 none
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "google-cloud-compute $version: as described"
