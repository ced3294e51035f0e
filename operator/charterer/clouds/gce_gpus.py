"""The GPUs of Compute Engine: which machine types have them, and by which quota they are counted.

Sources: the pages "GPU machine types" (https://cloud.google.com/compute/docs/gpus) and "Allocation quotas"
(https://cloud.google.com/compute/resource-usage), and the enum ``Quota.Metric`` of google-cloud-compute 1.57.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

METRICS: Final[Mapping[str, str]] = {
    "nvidia-tesla-k80": "NVIDIA_K80_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
}
"""The quota that counts each accelerator type on demand; spot's has ``PREEMPTIBLE_`` before it. The quotas of newer
GPUs on demand are one metric with a dimension for each family, which the Compute Engine API does not tell."""

_FAMILIES: Final = (
    ("a2-highgpu-", "nvidia-tesla-a100"),
    ("a2-megagpu-", "nvidia-tesla-a100"),
    ("a2-ultragpu-", "nvidia-a100-80gb"),
    ("a3-highgpu-", "nvidia-h100-80gb"),
    ("a3-edgegpu-", "nvidia-h100-80gb"),
    ("a3-megagpu-", "nvidia-h100-mega-80gb"),
    ("a3-ultragpu-", "nvidia-h200-141gb"),
    ("a4-highgpu-", "nvidia-b200"),
    ("a4x-highgpu-", "nvidia-gb200"),
    ("g2-standard-", "nvidia-l4"),
    ("g4-standard-", "nvidia-rtx-pro-6000"),
)
"""The accelerator type of machine types that always have it, by the beginning of their names."""


def quota_family(instance_type: str) -> str:
    """The accelerator type, by which quotas count: such as nvidia-l4 of g2-standard-4 and of n1-standard-8+nvidia-l4.

    Where it is not known, the machine family.
    """
    _, attached, accelerator = instance_type.partition("+")
    if attached:
        return accelerator
    known = (gpu for begin, gpu in _FAMILIES if instance_type.startswith(begin))
    return next(known, instance_type.split("-")[0])


def quota_metric(accelerator: str, *, spot: bool) -> str:
    """The quota that counts an accelerator type; empty where the API does not tell it."""
    metric = METRICS.get(accelerator, "")
    return f"PREEMPTIBLE_{metric}" if metric and spot else metric
