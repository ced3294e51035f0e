#!/bin/sh
# skypilot 0.14.1, Python 3.10 or newer. Its installation is large (some 80 packages).
#
# SkyPilot learns the GPUs of a Kubernetes node from the label nvidia.com/gpu.product of NVIDIA's GPU Feature Discovery, and
# searches that text for names it knows. If a GPU is cut into slices and the device plugin offers them as nvidia.com/gpu (MIG strategy
# single), NVIDIA's label ends with the slice: ...-MIG-1g.10gb. The text before it still has the name, so a slice of 10 GB is the
# whole card to SkyPilot, and a node with one card has seven of them:
#
#     NVIDIA-H100-80GB-HBM3: H100-80GB
#     NVIDIA-H100-80GB-HBM3-MIG-1g.10gb: H100-80GB
#     NVIDIA-A100-SXM4-80GB-MIG-3g.40gb: A100-80GB
#     Tesla-V100-SXM2-32GB: V100
#
# The class that reads the label names GPU Feature Discovery as its source and says nothing of slices. `--gpus H100-80GB:7` is then
# placed on seven sevenths of one card. The last line is the reverse: the list of names has V100-32GB, and NVIDIA's label never matches
# it. Nodes with slices need SkyPilot's own label, skypilot.co/accelerator, which is asked first.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check skypilot==0.14.1
cd "$folder"
HOME=$folder SKYPILOT_DISABLE_USAGE_COLLECTION=1 venv/bin/python - <<'PYTHON'
import sky
from sky.provision.kubernetes.utils import GFDLabelFormatter
from sky.utils.gpu_names import CANONICAL_GPU_NAMES

EXPECTED = {
    "NVIDIA-H100-80GB-HBM3": "H100-80GB",
    "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb": "H100-80GB",
    "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb": "A100-80GB",
    "Tesla-V100-SXM2-32GB": "V100",
}
found = {label: GFDLabelFormatter.get_accelerator_from_label_value(label) for label in EXPECTED}
for label, accelerator in found.items():
    print(f"{label}: {accelerator}")
assert found == EXPECTED, "changed: a slice or a card has another name"
assert "V100-32GB" in CANONICAL_GPU_NAMES, "changed: V100-32GB is not in the list"
print(f"skypilot {sky.__version__}: a slice of a GPU is the whole GPU")
PYTHON
