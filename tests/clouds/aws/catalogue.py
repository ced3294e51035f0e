"""Instance types as the vendor describes them, and what they cost in this world.

GPUs, memory and vCPUs: as DescribeInstanceTypes answers them (recorded in moto's ``instance_types.json``, which its
project generates from that call). Prices: on-demand list prices of us-east-1 of July 2026 for p4d, p5 and p6, as in
Karpenter's ``zz_generated.pricing_aws.go``; the other prices are of this world only.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class GpuModel:
    """A GPU: manufacturer, name and MiB of memory, as the API tells them."""

    manufacturer: str
    name: str
    memory: int


@dataclass(frozen=True)
class TypeFacts:
    """An instance type: its GPUs, vCPUs and MiB, its on-demand price in dollars an hour, how it is sold."""

    gpu: GpuModel | None
    gpus: int
    vcpus: int
    memory: int
    price: Decimal
    sold: tuple[str, ...] = ("on-demand", "spot", "capacity-block")


A100 = GpuModel("NVIDIA", "A100", 40960)
TYPES = {
    "p4d.24xlarge": TypeFacts(A100, 8, 96, 1179648, Decimal("21.957642")),
    "p4de.24xlarge": TypeFacts(GpuModel("NVIDIA", "A100", 81920), 8, 96, 1179648, Decimal("27.447053")),
    "p5.48xlarge": TypeFacts(GpuModel("NVIDIA", "H100", 81920), 8, 192, 2097152, Decimal("55.04")),
    "p5.4xlarge": TypeFacts(GpuModel("NVIDIA", "H100", 81920), 1, 16, 262144, Decimal("6.88")),
    "p5e.48xlarge": TypeFacts(GpuModel("NVIDIA", "H200", 144384), 8, 192, 2097152, Decimal("62.4")),
    "p5en.48xlarge": TypeFacts(GpuModel("NVIDIA", "H200", 144384), 8, 192, 2097152, Decimal("63.296")),
    "p6-b200.48xlarge": TypeFacts(GpuModel("NVIDIA", "B200", 183359), 8, 192, 2097152, Decimal("113.9328")),
    "g5.12xlarge": TypeFacts(GpuModel("NVIDIA", "A10G", 22888), 4, 48, 196608, Decimal("5.672")),
    "g5.24xlarge": TypeFacts(GpuModel("NVIDIA", "A10G", 22888), 4, 96, 393216, Decimal("8.144")),
    "g6f.large": TypeFacts(GpuModel("NVIDIA", "L4", 2861), 0, 2, 8192, Decimal("0.2"), ("on-demand", "spot")),
    "m7i.large": TypeFacts(None, 0, 2, 8192, Decimal("0.1008"), ("on-demand", "spot")),
}
