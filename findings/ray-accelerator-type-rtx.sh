#!/bin/sh
# ray 2.56.0, Python 3.10 or newer.
#
# Ray names each node's GPU type by itself, from the driver's name for the GPU, and `@ray.remote(accelerator_type=...)` places
# tasks by that name (Ray's page "Accelerator support": V100, A100, H100 ...). The name is the driver's second word as far as it is in
# capitals. For NVIDIA's workstation and server cards that word is "RTX", so these all are one type:
#
#     RTX: NVIDIA RTX PRO 6000 Blackwell Server Edition (96 GB), NVIDIA RTX PRO 4500 Blackwell Server Edition (32 GB),
#          NVIDIA RTX 6000 Ada Generation (48 GB), NVIDIA RTX A6000 (48 GB)
#
# EC2 rents the first two as g7e and g7. In a cluster of both, a task that asks for accelerator_type="RTX" lands on either, and one that
# asks for anything more exact waits for ever. Cards of the GeForce line were the same ("G") and now have whole names, by a comment
# in the code; the RTX line was left. Give such nodes a resource or label of their own (ray start --labels) and ask for that.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray==2.56.0
cd "$folder"
venv/bin/python - <<'PYTHON'
from collections import defaultdict
from unittest import mock

import ray
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager
from ray._private.thirdparty import pynvml

NAMES = (
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 4500 Blackwell Server Edition",
    "NVIDIA RTX 6000 Ada Generation",
    "NVIDIA RTX A6000",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA GeForce RTX 5090",
)


def seen(name: str) -> str:
    """The type that Ray gives a node whose driver tells this name."""
    told = dict(
        nvmlInit=None, nvmlShutdown=None, nvmlDeviceGetCount=1, nvmlDeviceGetHandleByIndex=0, nvmlDeviceGetName=name
    )
    with mock.patch.multiple(pynvml, **{call: mock.Mock(return_value=value) for call, value in told.items()}):
        return NvidiaGPUAcceleratorManager.get_current_node_accelerator_type()


types = defaultdict(list)
for name in NAMES:
    types[seen(name)].append(name)
for kind, names in types.items():
    print(f"{kind}: {', '.join(names)}")
assert types["RTX"] == list(NAMES[:4]), "changed: these cards no longer share one type"
assert len(types) == 3, "changed: other cards share a type"
print(f"ray {ray.__version__}: four cards, from 32 to 96 GB, are one accelerator type")
PYTHON
