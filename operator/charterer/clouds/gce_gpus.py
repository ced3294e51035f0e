"""The GPUs of Compute Engine: by which quota they are counted.

The quotas of newer GPUs on demand are one metric with a dimension for each family, which the Compute Engine API does
not tell ("Allocation quotas", https://cloud.google.com/compute/resource-usage).
"""

from __future__ import annotations

from charterer.gpu_types.accelerators import ON_SPOT_ONLY, QUOTAS, accelerator_of


def quota_family(instance_type: str) -> str:
    """The accelerator type, by which quotas count: such as nvidia-l4 of g2-standard-4 and of n1-standard-8+nvidia-l4.

    Where it is not known, the machine family.
    """
    _, attached, accelerator = instance_type.partition("+")
    if attached:
        return accelerator
    return accelerator_of(instance_type) or instance_type.split("-")[0]


def quota_metric(accelerator: str, *, spot: bool) -> str:
    """The quota that counts an accelerator type; empty where the API does not tell it."""
    metric = QUOTAS.get(accelerator, "")
    if spot:
        return f"PREEMPTIBLE_{metric}" if metric else ""
    return "" if accelerator in ON_SPOT_ONLY else metric
