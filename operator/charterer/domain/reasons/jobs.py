"""What is known of a job that wants no GPUs, whose run does not go well, that may not stay, or that may not move."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.job import FinishKind
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import after_colon, format_duration, name
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant, format_minute, format_second, moment
from charterer.gpu_types import is_shared
from charterer.sentences import count

_WORDS_OF_OTHERS = 200
"""Characters of what a run's end was, within another sentence."""

# --- it wants no GPUs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobDeleted(Fact):
    """It is being deleted."""

    def sentence(self) -> str:
        return "the job is being deleted"


@dataclass(frozen=True, slots=True)
class JobEnded(Fact):
    """It has ended for good."""

    kind: FinishKind

    def sentence(self) -> str:
        return f"the job has ended: {self.kind}"


@dataclass(frozen=True, slots=True)
class JobSuspended(Fact):
    """Its owner suspends it, or it waits for quota in a queue of Kueue (``queued``)."""

    queued: bool = False

    def sentence(self) -> str:
        waits = "Kueue has not reserved its quota yet, or another AdmissionCheck of its queue is not Ready"
        return waits if self.queued else "spec.suspend is true"


@dataclass(frozen=True, slots=True)
class NoGpuWanted(Fact):
    """It is interactive, and nobody asked for a GPU after ask ``ask`` was answered at ``at``; at 0 nobody ever did.

    ``price``: of its last GPUs an hour; ``seconds``: that the next take on a new node. Both None before its first run.
    """

    ask: int
    at: Instant | None
    price: Price | None
    seconds: float | None

    def sentence(self) -> str:
        if self.price is None:
            return f"it asks for no GPU: spec.interactive.asks is {self.ask}, and it costs nothing until that is raised"
        answered = f"ask {self.ask} was answered" + ("" if self.at is None else f" at {format_second(self.at)}")
        takes = "" if self.seconds is None else f" and takes about {format_duration(self.seconds)} on a new node"
        return f"it asks for no GPU: {answered}; a GPU costs about {Money(self.price.micros_per_hour)} an hour{takes}"


@dataclass(frozen=True, slots=True)
class GivenBack(Fact):
    """No cell ran on its GPUs for ``seconds``: they are given back. ``most``: after how many seconds that pays."""

    seconds: float
    most: float

    def sentence(self) -> str:
        return (
            f"no cell has run for {format_duration(self.seconds)}, and to hold its GPUs for more than "
            f"{format_duration(self.most)} costs more than to start again: they are given back"
        )


@dataclass(frozen=True, slots=True)
class NodeGoesIdle(Fact):
    """Its node goes away while no cell runs, so that nobody misses it."""

    def sentence(self) -> str:
        return "its node goes away and no cell runs: the next ask gets another one"


@dataclass(frozen=True, slots=True)
class NoCellRuns(Fact):
    """No cell runs on its GPUs since ``since``; they are given back at ``until``, if none does before."""

    since: Instant
    until: Instant

    def sentence(self) -> str:
        return (
            f"no cell has run since {format_second(self.since)}: its GPUs are given back at "
            f"{format_second(self.until)}, "
            "unless one does"
        )


@dataclass(frozen=True, slots=True)
class JobInvalid(Fact):
    """It is refused. ``words``: of who refuses it."""

    words: str

    def sentence(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class TemplateChecked(Fact):
    """Its template is being tried at the API server."""

    def sentence(self) -> str:
        return "the API server is being asked whether the template is right"


@dataclass(frozen=True, slots=True)
class TargetWithdrawn(Fact):
    """The object that it stands for is gone, or has not the label any more."""

    target: TargetRef

    def sentence(self) -> str:
        return f"{self.target}, which it stands for, is gone, or has not the label charterer.dev/adopt any more"


@dataclass(frozen=True, slots=True)
class TargetRefused(Fact):
    """The object that it stands for can begin no run. ``why``: as its author or its queue has it now."""

    target: TargetRef
    why: str

    def sentence(self) -> str:
        return f"{self.target} can begin no run: {self.why}"


@dataclass(frozen=True, slots=True)
class NoBudgetSelects(Fact):
    """No budget pays for its namespace."""

    namespace: str

    def sentence(self) -> str:
        return f"no GPUBudget selects namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class BacksOffForRecord(Fact):
    """Its last run, which was withdrawn before it started, is not on record yet."""

    run: int

    def sentence(self) -> str:
        return f"run {self.run} never started; the next run waits until its pods have ended"


@dataclass(frozen=True, slots=True)
class BacksOff(Fact):
    """It backs off until ``until`` after a run that failed, or that never started. ``why``: how that run ended."""

    run: int
    until: Instant
    started: bool
    why: str

    def sentence(self) -> str:
        ended = "failed" if self.started else "never started"
        why = f" ({self.why:.{_WORDS_OF_OTHERS}})" if self.why else ""
        return f"run {self.run} {ended}{why}; the next run begins at {format_second(self.until)} at the earliest"


@dataclass(frozen=True, slots=True)
class MaxCostSpent(Fact):
    """It is stopped, because what is left of its maxCost pays for the stop only."""

    spent: Money
    max_cost: Money

    def sentence(self) -> str:
        return (
            f"{self.spent} are spent, and spec.maxCost is {self.max_cost}, of which an orderly stop "
            "needs the rest: raise "
            "spec.maxCost to go on"
        )


@dataclass(frozen=True, slots=True)
class TooDear(Fact):
    """None of its options stays within its maxCost. ``option`` is the cheapest, and needs ``needed``.

    ``seconds``: of training that ``needed`` is for; None: it is for all the work that is left.
    """

    max_cost: Money
    spent: Money
    option: Option
    needed: float
    seconds: int | None

    def sentence(self) -> str:
        what = "the cheapest way to finish" if self.seconds is None else f"training for {self.seconds} s"
        least = Money.of(self.spent.dollars + self.needed)
        spent, then = (f", {self.spent} are spent", "go on") if self.spent > ZERO else ("", "start it")
        return (
            f"spec.maxCost is {self.max_cost}{spent}, and {what} ({name(self.option)}) needs ${self.needed:.2f}, an "
            f"orderly stop included: set spec.maxCost to {least} or more to {then}"
        )


# --- its run does not go well -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stalls(Fact):
    """Its run has not advanced for ``seconds``."""

    run: int
    seconds: float

    def sentence(self) -> str:
        return (
            f"run {self.run} has not advanced for {format_duration(self.seconds)} while its pods "
            "live: it starts again from "
            "its checkpoint"
        )


@dataclass(frozen=True, slots=True)
class PredecessorLives(Fact):
    """Its run could not begin beside the one before."""

    run: int

    def sentence(self) -> str:
        return f"run {self.run} could not begin: the run before it has not ended"


@dataclass(frozen=True, slots=True)
class NotRunning(Fact):
    """Its run was not fully running within ``seconds``. ``trouble``: in words of the cluster, or empty."""

    run: int
    seconds: float
    trouble: str

    def sentence(self) -> str:
        return f"run {self.run} was not fully running within {self.seconds:.0f} s{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NeverStarts(Fact):
    """Its run cannot start as it is. ``trouble``: in words of the cluster, or empty."""

    run: int
    trouble: str

    def sentence(self) -> str:
        return f"run {self.run} can never start{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NotJoined(Fact):
    """Pods that were added to its run, titled so, do not train with the others."""

    run: str
    trouble: str

    def sentence(self) -> str:
        return f"the pods that were added to {self.run} did not join it in time{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NotRegrouped(Fact):
    """The pods of its run, titled so, do not train together as they should."""

    run: str
    generation: int

    def sentence(self) -> str:
        return f"the pods of {self.run} did not train as generation {self.generation} in time: it starts again"


@dataclass(frozen=True, slots=True)
class NotBelieved(Fact):
    """Its status names a rental that is not its own. ``words``: why that is not believed."""

    words: str

    def sentence(self) -> str:
        return self.words


# --- it may not stay where it is --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WidthNotAllowed(Fact):
    """It has ``gpus`` GPUs, and its owner now allows ``least`` to ``most``."""

    gpus: int
    least: int
    most: int

    def sentence(self) -> str:
        return f"the job has {count(self.gpus, 'GPU')}, and spec.gpus allows {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class GpuTypeNotAllowed(Fact):
    """Its owner no longer names the GPU type that it has."""

    gpu_type: str

    def sentence(self) -> str:
        return f"spec.gpuTypes no longer names {self.gpu_type}"


@dataclass(frozen=True, slots=True)
class SliceNotAllowed(Fact):
    """Its owner no longer names the MIG profile of the slice that it has, or no longer lets it share a GPU."""

    profile: str

    def sentence(self) -> str:
        if is_shared(self.profile):
            return (
                "spec.gpus.shared no longer allows its GPU: it is absent, or asks for more memory than a job has there"
            )
        return f"spec.gpus.slices no longer names {self.profile}"


@dataclass(frozen=True, slots=True)
class SpotNotAllowed(Fact):
    """Its owner no longer allows nodes that the cloud may take back."""

    def sentence(self) -> str:
        return "spec.spotPolicy no longer allows spot capacity"


@dataclass(frozen=True, slots=True)
class VariantNotAllowed(Fact):
    """Its owner no longer names the variant that it runs."""

    variant: str

    def sentence(self) -> str:
        return f"spec.variants no longer names {self.variant}"


@dataclass(frozen=True, slots=True)
class VariantNotMeasured(Fact):
    """It tried a variant, and nothing was learned of that."""

    variant: str

    def sentence(self) -> str:
        return (
            f"nothing was learned of variant {self.variant}: its trainer reports no batch size and step time, or failed"
        )


Forbidden = (
    WidthNotAllowed | GpuTypeNotAllowed | SliceNotAllowed | SpotNotAllowed | VariantNotAllowed | VariantNotMeasured
)
"""Why a job's owner no longer allows where it runs."""


@dataclass(frozen=True, slots=True)
class Forced(Fact):
    """It goes to ``to``, because it may not stay."""

    why: Forbidden
    to: Option

    def sentence(self) -> str:
        return f"{self.why.sentence()}: it moves to {name(self.to)}"


# --- it may not move --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InQuietHours(Fact):
    """The budget moves no job until then."""

    until: Instant

    def sentence(self) -> str:
        return f"no job is moved in the quiet hours, which last until {format_minute(self.until)}"


@dataclass(frozen=True, slots=True)
class MovedOften(Fact):
    """It was moved as often in a day as the budget allows."""

    times: int
    most: int

    def sentence(self) -> str:
        return f"the job was moved {count(self.times, 'time')} in 24 h, and moves.maxPerJobPerDay is {self.most}"


@dataclass(frozen=True, slots=True)
class DidNotJoin(Fact):
    """Pods that were to join its run did not, a while ago."""

    def sentence(self) -> str:
        return "pods that were added to the run did not join it"


@dataclass(frozen=True, slots=True)
class AboveMaxCost(Fact):
    """It would cost more than it may."""

    max_cost: Money

    def sentence(self) -> str:
        return f"the job would then cost more than its spec.maxCost ({self.max_cost})"


@dataclass(frozen=True, slots=True)
class LateForTarget(Fact):
    """It would be late."""

    target: Instant

    def sentence(self) -> str:
        return f"the job would then miss its target {format_minute(self.target)}"


@dataclass(frozen=True, slots=True)
class BeingMeasured(Fact):
    """Its width is being measured."""

    gpus: int
    until: Instant

    def sentence(self) -> str:
        until = f"{moment(self.until):%H:%MZ}"
        return f"the job's speed on {count(self.gpus, 'GPU')} is being measured, until {until} at the latest"


@dataclass(frozen=True, slots=True)
class HoldsSession(Fact):
    """It is interactive: what its owner computed is in the memory of its GPUs."""

    def sentence(self) -> str:
        return "it is interactive, and its session would be lost"


@dataclass(frozen=True, slots=True)
class NeverSaved(Fact):
    """It reports no progress, and nobody said how long a checkpoint of its class takes."""

    def sentence(self) -> str:
        return (
            "the job has never reported how far it is, and checkpointSeconds of its class is neither reported nor "
            "declared: it is not restarted for money before something shows that it goes on from a checkpoint "
            "(docs/progress.md)"
        )


@dataclass(frozen=True, slots=True)
class MovedLately(Fact):
    """It was moved at ``at``, and another move takes ``seconds`` of its time: it stays ``until`` many times those."""

    at: Instant
    seconds: float
    until: Instant

    def sentence(self) -> str:
        return (
            f"it was moved {format_minute(self.at)}, and another move takes "
            f"{format_duration(self.seconds)} of its time: "
            f"it stays until {format_minute(self.until)}"
        )


@dataclass(frozen=True, slots=True)
class CameFrom(Fact):
    """It would take back its last move."""

    option: Option
    until: Instant

    def sentence(self) -> str:
        return f"the job came from {name(self.option)}, and a move back pays only from {format_minute(self.until)} on"


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
class WouldPay(Fact):
    """A move to ``to`` would pay, and is not made."""

    to: Option
    held: Holding

    def sentence(self) -> str:
        return f"a move to {name(self.to)} would pay, but {self.held.sentence()}"
