"""VM sizes as the vendor describes them, what they cost in this world, and the words of its errors.

GPUs, vCPUs, memory and families: the size pages under https://learn.microsoft.com/azure/virtual-machines/sizes/.
Prices are of this world only.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class SizeFacts:
    """A VM size: GPUs, vCPUs, GiB of memory, quota family, dollars an hour on demand and as spot."""

    gpus: int
    vcpus: int
    memory: int
    family: str
    price: Decimal
    spot: Decimal


def _facts(gpus: int, vcpus: int, memory: int, family: str, price: str, spot: str) -> SizeFacts:
    return SizeFacts(gpus, vcpus, memory, family, Decimal(price), Decimal(spot))


SIZES = {
    "Standard_ND96asr_v4": _facts(8, 96, 900, "standardNDASv4_A100Family", "27.197", "10.8788"),
    "Standard_ND96amsr_A100_v4": _facts(8, 96, 1900, "standardNDAMSv4_A100Family", "32.77", "13.108"),
    "Standard_ND96isr_H100_v5": _facts(8, 96, 1900, "standardNDSH100v5Family", "98.32", "39.328"),
    "Standard_ND96isr_H200_v5": _facts(8, 96, 1850, "standardNDSH200v5Family", "110.24", "44.096"),
    "Standard_NC24ads_A100_v4": _facts(1, 24, 220, "standardNCADSA100v4Family", "3.673", "1.4692"),
    "Standard_NC96ads_A100_v4": _facts(4, 96, 880, "standardNCADSA100v4Family", "14.692", "5.8768"),
    "Standard_NC40ads_H100_v5": _facts(1, 40, 320, "standardNCadsH100v5Family", "6.98", "2.792"),
    "Standard_NV6ads_A10_v5": _facts(1, 6, 55, "standardNVADSA10v5Family", "0.454", "0.1816"),
    "Standard_D2s_v5": _facts(0, 2, 8, "standardDSv5Family", "0.096", "0.0384"),
}
"""NV6ads has a sixth of a GPU, which Azure's list counts as one."""


def list_prices() -> dict[tuple[str, str], Decimal]:
    """Dollars an hour by size and priority."""
    regular = {(size, "Regular"): facts.price for size, facts in SIZES.items()}
    return regular | {(size, "Spot"): facts.spot for size, facts in SIZES.items()}


MESSAGES = {
    "AllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this "
    "region. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance",
    "ZonalAllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this "
    "zone. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance",
    "OverconstrainedAllocationRequest": "Allocation failed. VM(s) with the following constraints cannot be allocated, "
    "because the condition is too restrictive. Please remove some constraints and try again.",
    "OverconstrainedZonalAllocationRequest": "Allocation failed. VM(s) with the following constraints cannot be "
    "allocated, because the condition is too restrictive. Please remove some constraints and try again.",
    "OperationPreempted": "Operation execution has been preempted by a more recent operation.",
    "OSProvisioningTimedOut": "OS Provisioning for VM did not finish in the allotted time. The VM may still finish "
    "provisioning successfully. Please check provisioning state later.",
}
"""The texts of failures that an operation tells in the end, by code."""
