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
"""The same, as AMD's device plugin names it."""
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
"""The extended resources that are counted as whole GPUs, by their makers' device plugins: NVIDIA's, AMD's, Intel's with
either of its drivers and for Gaudi, AWS' Trainium and Inferentia, Google's TPUs, Huawei's Ascend, Qualcomm's AI 100."""
SHARED_GPU = "nvidia.com/gpu.shared"
"""The same of GPUs that several jobs use at once, as NVIDIA's device plugin renames them."""
MIG_PREFIX = "nvidia.com/mig-"
"""The beginning of the names of slices' resources; the MIG profile follows."""

MOST_PODS = 4_000
"""Most pods of a run, to bound the size of its record: 32,000 GPUs on nodes of eight."""


@dataclass(frozen=True, slots=True)
class Interruptions:
    """The effect of nodes that the cloud takes back on an option.

    ``rate``: deaths per node-hour over the job's length; ``joint``: the fraction of them that take all nodes;
    ``per_hour``: interruptions of the job an hour. ``interval``: seconds of training between checkpoints, each written
    in ``checkpoint_seconds``. ``kept``: the fraction of the speed that is left. ``measured``: whether deaths were seen.
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
    """One way to run a job: a pool, and ``gpus`` GPUs of it, which its nodes name ``resource``.

    ``slice``: the MIG profile of the one slice that it is; ``shared-2`` or ``mps-2`` of a GPU that two jobs use at
    once; empty for whole GPUs.

    ``speed`` is units of work per second (the class's reference option has speed 1); ``price`` is the marginal
    bill while it runs (its part of its nodes' price). ``entry_seconds`` and ``entry_cost`` are paid once when the
    option is entered: node start-up, restart, billing minimum. Plan and act use these same two numbers.
    ``trial``: its speed was never measured, and is as hoped (``policy.options.speeds``). ``interruptions``: what is
    in ``speed`` for them; None where none is expected. It is not recorded. ``variant``: of the job's; empty for its
    template as it stands. ``paid``: the price of its nodes where they are paid for whether they are used or not: then
    ``price`` is next to nothing. An option that a job was given has what is paid as its ``price``. ``empty``: GPUs of
    its nodes that nobody else can have, because its pods do not fill them, or take other resources of theirs
    (``domain.offered_node``); they are in the price.
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
        """The GPUs of its nodes that nobody else can have: its own, and those that stay empty."""
        return self.gpus + self.empty

    @property
    def paid_price(self) -> Price:
        """The price of its part of its nodes, whoever else could use them."""
        return self.price if self.paid is None else self.paid

    @property
    def as_paid(self) -> Option:
        """The option as a job is given it, and as its cost is counted."""
        if self.paid is None:
            return self
        return replace(self, price=self.paid, entry_cost=self.paid.cost(round(self.entry_seconds)), paid=None)

    @property
    def shares_gpu(self) -> bool:
        """Whether other jobs may be on the same GPU."""
        return is_shared(self.slice)

    @property
    def device(self) -> str:
        """The extended resource of the whole GPUs that its GPUs are, or are parts of: parts are NVIDIA's."""
        return self.resource if self.resource in GPU_RESOURCES else GPU

    @property
    def resources(self) -> Mapping[str, int]:
        """The requests of its pods together, by the names of extended resources."""
        return {self.resource: self.gpus}
