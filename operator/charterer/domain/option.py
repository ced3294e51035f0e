"""An option: one way to run a job, with its speed, its price and the one-time cost of entering it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.gpu_types import is_shared

GPU = "nvidia.com/gpu"
"""The extended resource of whole GPUs, as NVIDIA's device plugin names it."""
AMD_GPU = "amd.com/gpu"
"""The extended resource of whole GPUs, as AMD's device plugin names it."""
GPU_RESOURCES = (
    GPU,
    AMD_GPU,
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "google.com/tpu",
    "huawei.com/Ascend910",
    "qualcomm.com/qaic",
)
"""The extended resources that count as whole GPUs wherever they are named, by the device plugins of their makers:
NVIDIA; AMD; Intel with either of its drivers and Gaudi; AWS Trainium and Inferentia; Google TPUs; Huawei Ascend;
Qualcomm AI 100. Any other extended resource counts as GPUs on the nodes of a pool with this resource, and in a template
that names it.
"""
SHARED_GPU = "nvidia.com/gpu.shared"
"""The extended resource of GPUs that several jobs use at once, as NVIDIA's device plugin renames them."""
MIG_PREFIX = "nvidia.com/mig-"
"""The prefix of the resource names of MIG slices. The MIG profile follows."""
PARTS_OF_GPUS = (MIG_PREFIX, SHARED_GPU)
"""Prefixes of the resources of parts of NVIDIA's GPUs."""

MOST_PODS = 4_000
"""Maximum number of pods of a run, which bounds the size of its record: 32,000 GPUs on nodes of eight."""


@dataclass(frozen=True, slots=True)
class Interruptions:
    """The effect of interruptions (the cloud takes back nodes) on an option.

    ``rate``: deaths per node-hour, averaged over the job's length. ``joint``: the fraction of deaths that take all
    nodes. ``per_hour``: interruptions of the job per hour. ``interval``: seconds of training between checkpoints.
    ``checkpoint_seconds``: seconds to write a checkpoint. ``kept``: the remaining fraction of the speed. ``measured``:
    whether deaths were observed.
    """

    rate: float
    joint: float
    per_hour: float
    interval: float
    checkpoint_seconds: float
    kept: float
    measured: bool


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a job: on ``gpus`` GPUs of a pool. ``resource``: the extended resource of these GPUs.

    ``slice``: the MIG profile if the GPU is a slice, ``shared-2`` or ``mps-2`` if two jobs use the GPU at once, empty
    for whole GPUs.

    ``speed``: units of work per second; the class's reference option has speed 1. ``price``: the marginal bill while
    the option runs, which is its part of its nodes' price. ``entry_seconds``, ``entry_cost``: paid once when the
    option is entered, for node start-up, restart and billing minimum; planning and acting use the same numbers.
    ``trial``: the speed was never measured and is an optimistic estimate (``policy.options.speeds``).
    ``interruptions``: the effect of interruptions, which ``speed`` includes; None if no interruptions are expected.
    ``interruptions`` is never recorded.
    ``variant``: the job's variant; empty for the plain template. ``paid``: the price of its nodes if they are paid
    for whether used or not; ``price`` is then almost zero. If such an option is allocated, its ``price`` is set to
    ``paid``. ``empty``: GPUs of its nodes that no other job can use, because the pods do not fill the nodes or use up
    other resources (``domain.offered_node``). The price includes the empty GPUs.
    """

    pool: PoolId
    gpus: int
    speed: float
    price: Price
    entry_seconds: float = 0.0
    entry_cost: Money = ZERO
    trial: bool = False
    resource: str = GPU
    slice: str = ""
    interruptions: Interruptions | None = None
    variant: str = ""
    paid: Price | None = None
    empty: int = 0

    @property
    def takes(self) -> int:
        """The number of GPUs that no other job can use: the option's own GPUs and the empty GPUs."""
        return self.gpus + self.empty

    @property
    def paid_price(self) -> Price:
        """The price of the option's part of its nodes, even if these nodes are paid for whether used or not."""
        return self.price if self.paid is None else self.paid

    @property
    def as_paid(self) -> Option:
        """The option as recorded in an allocation, with the price by which its cost is counted."""
        if self.paid is None:
            return self
        return replace(self, price=self.paid, entry_cost=self.paid.cost(round(self.entry_seconds)), paid=None)

    @property
    def shares_gpu(self) -> bool:
        """Whether other jobs may use the same GPU."""
        return is_shared(self.slice)

    @property
    def device(self) -> str:
        """The extended resource of its whole GPUs. GPUs that are cut or shared are NVIDIA's."""
        return GPU if self.resource.startswith(PARTS_OF_GPUS) else self.resource

    @property
    def resources(self) -> Mapping[str, int]:
        """The sum of its pods' requests by extended resource."""
        return {self.resource: self.gpus}
