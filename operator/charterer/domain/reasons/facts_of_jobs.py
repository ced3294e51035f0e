"""What is known of a job that wants no GPUs, whose run does not go well, that may not stay, or that may not move."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.jobs.finish import FinishKind
from charterer.domain.jobs.target import TargetRef
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.time import Instant

# --- it wants no GPUs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """It is being deleted."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """It has ended for good."""

    kind: FinishKind


@dataclass(frozen=True, slots=True)
class JobSuspended:
    """Its owner suspends it, or it waits for quota in a queue of Kueue (``queued``)."""

    queued: bool = False


@dataclass(frozen=True, slots=True)
class NoGpuWanted:
    """It is interactive, and nobody asked for a GPU after ask ``ask`` was answered at ``at``; at 0 nobody ever did.

    ``price``: of its last GPUs an hour; ``seconds``: that the next take on a new node. Both None before its first run.
    """

    ask: int
    at: Instant | None
    price: Price | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """No cell ran on its GPUs for ``seconds``: they are given back. ``most``: after how many seconds that pays."""

    seconds: float
    most: float


@dataclass(frozen=True, slots=True)
class NodeGoesIdle:
    """Its node goes away while no cell runs, so that nobody misses it."""


@dataclass(frozen=True, slots=True)
class NoCellRuns:
    """No cell runs on its GPUs since ``since``; they are given back at ``until``, if none does before."""

    since: Instant
    until: Instant


@dataclass(frozen=True, slots=True)
class JobInvalid:
    """It is refused. ``words``: of who refuses it."""

    words: str


@dataclass(frozen=True, slots=True)
class TemplateChecked:
    """Its template is being tried at the API server."""


@dataclass(frozen=True, slots=True)
class TargetWithdrawn:
    """The object that it stands for is gone, or has not the label any more."""

    target: TargetRef


@dataclass(frozen=True, slots=True)
class TargetRefused:
    """The object that it stands for can begin no run. ``why``: as its author or its queue has it now."""

    target: TargetRef
    why: str


@dataclass(frozen=True, slots=True)
class NoBudgetSelects:
    """No budget pays for its namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class BacksOffForRecord:
    """Its last run, which was withdrawn before it started, is not on record yet."""

    run: int


@dataclass(frozen=True, slots=True)
class BacksOff:
    """It backs off until ``until`` after a run that failed, or that never started. ``why``: how that run ended."""

    run: int
    until: Instant
    started: bool
    why: str


@dataclass(frozen=True, slots=True)
class MaxCostSpent:
    """It is stopped, because what is left of its maxCost pays for the stop only."""

    spent: Money
    max_cost: Money


@dataclass(frozen=True, slots=True)
class TooDear:
    """None of its options stays within its maxCost. ``option`` is the cheapest, and needs ``needed``.

    ``seconds``: of training that ``needed`` is for; None: it is for all the work that is left.
    """

    max_cost: Money
    spent: Money
    option: Option
    needed: float
    seconds: int | None


# --- its run does not go well -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stalls:
    """Its run has not advanced for ``seconds``."""

    run: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PredecessorLives:
    """Its run could not begin beside the one before."""

    run: int


@dataclass(frozen=True, slots=True)
class NotRunning:
    """Its run was not fully running within ``seconds``. ``trouble``: in words of the cluster, or empty."""

    run: int
    seconds: float
    trouble: str


@dataclass(frozen=True, slots=True)
class NeverStarts:
    """Its run cannot start as it is. ``trouble``: in words of the cluster, or empty."""

    run: int
    trouble: str


@dataclass(frozen=True, slots=True)
class NotJoined:
    """Pods that were added to its run, titled so, do not train with the others."""

    run: str
    trouble: str


@dataclass(frozen=True, slots=True)
class NotRegrouped:
    """The pods of its run, titled so, do not train together as they should."""

    run: str
    generation: int


@dataclass(frozen=True, slots=True)
class NotBelieved:
    """Its status names a rental that is not its own. ``words``: why that is not believed."""

    words: str


# --- it may not stay where it is --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WidthNotAllowed:
    """It has ``gpus`` GPUs, and its owner now allows ``least`` to ``most``."""

    gpus: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class GpuTypeNotAllowed:
    """Its owner no longer names the GPU type that it has."""

    gpu_type: str


@dataclass(frozen=True, slots=True)
class SliceNotAllowed:
    """Its owner no longer names the MIG profile of the slice that it has, or no longer lets it share a GPU."""

    profile: str


@dataclass(frozen=True, slots=True)
class SpotNotAllowed:
    """Its owner no longer allows nodes that the cloud may take back."""


@dataclass(frozen=True, slots=True)
class VariantNotAllowed:
    """Its owner no longer names the variant that it runs."""

    variant: str


@dataclass(frozen=True, slots=True)
class VariantNotMeasured:
    """It tried a variant, and nothing was learned of that."""

    variant: str


Forbidden = (
    WidthNotAllowed | GpuTypeNotAllowed | SliceNotAllowed | SpotNotAllowed | VariantNotAllowed | VariantNotMeasured
)
"""Why a job's owner no longer allows where it runs."""


@dataclass(frozen=True, slots=True)
class Forced:
    """It goes to ``to``, because it may not stay."""

    why: Forbidden
    to: Option


# --- it may not move --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InQuietHours:
    """The budget moves no job until then."""

    until: Instant


@dataclass(frozen=True, slots=True)
class MovedOften:
    """It was moved as often in a day as the budget allows."""

    times: int
    most: int


@dataclass(frozen=True, slots=True)
class DidNotJoin:
    """Pods that were to join its run did not, a while ago."""


@dataclass(frozen=True, slots=True)
class AboveMaxCost:
    """It would cost more than it may."""

    max_cost: Money


@dataclass(frozen=True, slots=True)
class LateForTarget:
    """It would be late."""

    target: Instant


@dataclass(frozen=True, slots=True)
class BeingMeasured:
    """Its width is being measured."""

    gpus: int
    until: Instant


@dataclass(frozen=True, slots=True)
class HoldsSession:
    """It is interactive: what its owner computed is in the memory of its GPUs."""


@dataclass(frozen=True, slots=True)
class NeverSaved:
    """It reports no progress, and nobody said how long a checkpoint of its class takes."""


@dataclass(frozen=True, slots=True)
class MovedLately:
    """It was moved at ``at``, and another move takes ``seconds`` of its time: it stays ``until`` many times those."""

    at: Instant
    seconds: float
    until: Instant


@dataclass(frozen=True, slots=True)
class CameFrom:
    """It would take back its last move."""

    option: Option
    until: Instant


Holding = (
    InQuietHours
    | MovedOften
    | DidNotJoin
    | AboveMaxCost
    | LateForTarget
    | BeingMeasured
    | HoldsSession
    | NeverSaved
    | MovedLately
    | CameFrom
)
"""What holds a job where it is."""


@dataclass(frozen=True, slots=True)
class WouldPay:
    """A move to ``to`` would pay, and is not made."""

    to: Option
    held: Holding


JobFact = (
    JobDeleted
    | JobEnded
    | JobSuspended
    | NoGpuWanted
    | GivenBack
    | NodeGoesIdle
    | NoCellRuns
    | JobInvalid
    | TemplateChecked
    | NoBudgetSelects
    | TargetRefused
    | TargetWithdrawn
    | BacksOffForRecord
    | BacksOff
    | MaxCostSpent
    | TooDear
    | Stalls
    | PredecessorLives
    | NotRunning
    | NeverStarts
    | NotJoined
    | NotRegrouped
    | NotBelieved
    | Forbidden
    | Forced
    | Holding
    | WouldPay
)
"""Facts of jobs."""
