"""Machine types and GPUs of this world.

vCPUs, memory and GPUs: https://cloud.google.com/compute/docs/gpus and .../docs/accelerator-optimized-machines. Quota
metrics: the SDK's enum ``Quota.Metric``; on demand, an H100 has none there (its quota is ``GPUS_PER_GPU_FAMILY``, which
regions.get does not tell). Prices, in dollars an hour, are of this world only.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class TypeFacts:
    """A machine type: vCPUs, MiB of memory, its GPUs (accelerator type and number), prices on demand and spot."""

    vcpus: int
    memory: int
    gpu: str
    gpus: int
    price: Decimal
    spot: Decimal


METRICS = {
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
}
"""The quota metric of each accelerator type on demand; ``PREEMPTIBLE_`` before it for spot."""


def _type(vcpus: int, memory: int, gpu: str, gpus: int, price: str, spot: str) -> TypeFacts:
    return TypeFacts(vcpus, memory, gpu, gpus, Decimal(price), Decimal(spot))


TYPES = {
    "a2-highgpu-1g": _type(12, 87040, "nvidia-tesla-a100", 1, "3.673385", "1.2"),
    "a2-highgpu-2g": _type(24, 174080, "nvidia-tesla-a100", 2, "7.34677", "2.4"),
    "a2-highgpu-4g": _type(48, 348160, "nvidia-tesla-a100", 4, "14.69354", "4.8"),
    "a2-highgpu-8g": _type(96, 696320, "nvidia-tesla-a100", 8, "29.38708", "9.6"),
    "a2-ultragpu-8g": _type(96, 1392640, "nvidia-a100-80gb", 8, "40.55", "16.2"),
    "a3-highgpu-8g": _type(208, 1916928, "nvidia-h100-80gb", 8, "88.49", "28.6"),
    "g2-standard-4": _type(4, 16384, "nvidia-l4", 1, "0.71", "0.28"),
    "g2-standard-8": _type(8, 32768, "nvidia-l4", 1, "0.85", "0.34"),
    "g2-standard-24": _type(24, 98304, "nvidia-l4", 2, "2", "0.8"),
    "g2-standard-48": _type(48, 196608, "nvidia-l4", 4, "4", "1.6"),
    "g2-standard-96": _type(96, 393216, "nvidia-l4", 8, "8", "3.2"),
    "n1-standard-8": _type(8, 30720, "", 0, "0.38", "0.08"),
    "e2-standard-4": _type(4, 16384, "", 0, "0.134", "0.05"),
}

PRICES = {(name, spot): facts.spot if spot else facts.price for name, facts in TYPES.items() for spot in (False, True)}
"""By machine type, and whether it is spot."""
