"""Facts about jobs that want no GPUs, whose runs have trouble, that may not stay, or that may not move."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.job import CostLimit, FinishKind
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import after_colon, format_duration, name
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant, format_minute, format_second, moment
from charterer.gpu_types import is_shared
from charterer.sentences import count

_WORDS_OF_OTHERS = 200
"""Maximum length of a run's message within another sentence."""

# --- the job wants no GPUs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobDeleted(Fact):
    """The job is being deleted."""

    def sentence(self) -> str:
        return "the job is being deleted"


@dataclass(frozen=True, slots=True)
class JobEnded(Fact):
    """The job has ended for good."""

    kind: FinishKind

    def sentence(self) -> str:
        return f"the job has ended: {self.kind}"


@dataclass(frozen=True, slots=True)
class JobSuspended(Fact):
    """The job's owner suspended the job, or the job waits for quota in a queue of Kueue (``queued``)."""

    queued: bool = False

    def sentence(self) -> str:
        waits = "Kueue has not reserved its quota yet, or another AdmissionCheck of its queue is not Ready"
        return waits if self.queued else "spec.suspend is true"


@dataclass(frozen=True, slots=True)
class NoGpuWanted(Fact):
    """The job is interactive, and no GPU was requested since request ``ask`` was answered at ``at``; 0: never.

    ``price``: the hourly price of its last GPUs. ``seconds``: the start-up time of its next GPUs on a new node. Both
    fields are None before the job's first run.
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
    """No cell ran on the job's GPUs for ``seconds``, so they are given back. ``most``: idle seconds from which that
    pays."""

    seconds: float
    most: float

    def sentence(self) -> str:
        return (
            f"no cell has run for {format_duration(self.seconds)}, and to hold its GPUs for more than "
            f"{format_duration(self.most)} costs more than to start again: they are given back"
        )


@dataclass(frozen=True, slots=True)
class NodeGoesIdle(Fact):
    """The job's node goes away while no cell runs, so that nothing is interrupted."""

    def sentence(self) -> str:
        return "its node goes away and no cell runs: the next ask gets another one"


@dataclass(frozen=True, slots=True)
class NoCellRuns(Fact):
    """No cell has run on the job's GPUs since ``since``. Unless a cell runs, the GPUs are given back at ``until``."""

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
    """The job is refused. ``words``: the message of whoever refused it."""

    words: str

    def sentence(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class TemplateChecked(Fact):
    """The API server is checking the job's template."""

    def sentence(self) -> str:
        return "the API server is being asked whether the template is right"


@dataclass(frozen=True, slots=True)
class TargetWithdrawn(Fact):
    """The job's adopted object no longer exists, or no longer has the label."""

    target: TargetRef

    def sentence(self) -> str:
        return f"{self.target}, which it stands for, is gone, or has not the label charterer.dev/adopt any more"


@dataclass(frozen=True, slots=True)
class TargetRefused(Fact):
    """The job's adopted object can begin no run. ``why``: the obstacle in the object or its queue."""

    target: TargetRef
    why: str

    def sentence(self) -> str:
        return f"{self.target} can begin no run: {self.why}"


@dataclass(frozen=True, slots=True)
class NoBudgetSelects(Fact):
    """No budget pays for the job's namespace."""

    namespace: str

    def sentence(self) -> str:
        return f"no GPUBudget selects namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class BacksOffForRecord(Fact):
    """The end of the job's last run, which was withdrawn before it started, is not recorded yet."""

    run: int

    def sentence(self) -> str:
        return f"run {self.run} never started; the next run waits until its pods have ended"


@dataclass(frozen=True, slots=True)
class BacksOff(Fact):
    """The job backs off until ``until`` after a run that failed or never started. ``why``: how that run ended."""

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
    """The job is stopped, because the rest of its maxCost only pays for the stop."""

    spent: Money
    limit: CostLimit

    def sentence(self) -> str:
        return (
            f"{self.spent} are spent, and {self.limit.field} is {self.limit.amount}, of which an orderly stop needs "
            f"the rest: {self.limit.raised_by} to go on"
        )


@dataclass(frozen=True, slots=True)
class TooDear(Fact):
    """No option of the job stays within its maxCost. ``option`` is the cheapest and needs ``needed`` dollars.

    ``seconds``: the training time that ``needed`` is for; None if it is for all remaining work.
    """

    limit: CostLimit
    spent: Money
    option: Option
    needed: float
    seconds: int | None

    def sentence(self) -> str:
        what = "the cheapest way to finish" if self.seconds is None else f"training for {self.seconds} s"
        least = Money.of(self.spent.dollars + self.needed)
        spent, then = (f", {self.spent} are spent", "go on") if self.spent > ZERO else ("", "start it")
        whose = "" if self.limit.budget is None else "the job's own "
        return (
            f"{self.limit.field} is {self.limit.amount}{spent}, and {what} ({name(self.option)}) needs "
            f"${self.needed:.2f}, an orderly stop included: set {whose}spec.maxCost to {least} or more to {then}"
        )


# --- the job's run has trouble ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stalls(Fact):
    """The job's run has not advanced for ``seconds``."""

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
    """The job's run could not begin, because the previous run has not ended."""

    run: int

    def sentence(self) -> str:
        return f"run {self.run} could not begin: the run before it has not ended"


@dataclass(frozen=True, slots=True)
class NotRunning(Fact):
    """The job's run was not fully running within ``seconds``. ``trouble``: the cluster's own words, or empty."""

    run: int
    seconds: float
    trouble: str

    def sentence(self) -> str:
        return f"run {self.run} was not fully running within {self.seconds:.0f} s{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NeverStarts(Fact):
    """The job's run cannot start in its present form. ``trouble``: the cluster's own words, or empty."""

    run: int
    trouble: str

    def sentence(self) -> str:
        return f"run {self.run} can never start{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NotJoined(Fact):
    """Pods that were added to the job's run do not train with its other pods. ``run``: the run's name for people."""

    run: str
    trouble: str

    def sentence(self) -> str:
        return f"the pods that were added to {self.run} did not join it in time{after_colon(self.trouble)}"


@dataclass(frozen=True, slots=True)
class NotRegrouped(Fact):
    """The pods of the job's run do not train together as requested. ``run``: the run's name for people."""

    run: str
    generation: int

    def sentence(self) -> str:
        return f"the pods of {self.run} did not train as generation {self.generation} in time: it starts again"


@dataclass(frozen=True, slots=True)
class NotBelieved(Fact):
    """The job's status names a rental that is not believed to be its own. ``words``: why."""

    words: str

    def sentence(self) -> str:
        return self.words


# --- the job may not stay where it is ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WidthNotAllowed(Fact):
    """The job has ``gpus`` GPUs, but its owner now allows ``least`` to ``most``."""

    gpus: int
    least: int
    most: int

    def sentence(self) -> str:
        return f"the job has {count(self.gpus, 'GPU')}, and spec.gpus allows {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class GpuTypeNotAllowed(Fact):
    """The owner no longer names the GPU type that the job has."""

    gpu_type: str

    def sentence(self) -> str:
        return f"spec.gpuTypes no longer names {self.gpu_type}"


@dataclass(frozen=True, slots=True)
class SliceNotAllowed(Fact):
    """The owner no longer names the MIG profile of the job's slice, or no longer lets the job share a GPU."""

    profile: str

    def sentence(self) -> str:
        if is_shared(self.profile):
            return (
                "spec.gpus.shared no longer allows its GPU: it is absent, or asks for more memory than a job has there"
            )
        return f"spec.gpus.slices no longer names {self.profile}"


@dataclass(frozen=True, slots=True)
class SpotNotAllowed(Fact):
    """The owner no longer allows nodes that the cloud may take back."""

    def sentence(self) -> str:
        return "spec.spotPolicy no longer allows spot capacity"


@dataclass(frozen=True, slots=True)
class VariantNotAllowed(Fact):
    """The owner no longer names the variant that the job runs."""

    variant: str

    def sentence(self) -> str:
        return f"spec.variants no longer names {self.variant}"


@dataclass(frozen=True, slots=True)
class VariantNotMeasured(Fact):
    """The job tried a variant, but nothing was learned from the trial."""

    variant: str

    def sentence(self) -> str:
        return (
            f"nothing was learned of variant {self.variant}: its trainer reports no batch size and step time, or failed"
        )


Forbidden = (
    WidthNotAllowed | GpuTypeNotAllowed | SliceNotAllowed | SpotNotAllowed | VariantNotAllowed | VariantNotMeasured
)
"""Why a job's owner no longer allows the job's present placement."""


@dataclass(frozen=True, slots=True)
class Forced(Fact):
    """The job moves to ``to``, because it may not stay."""

    why: Forbidden
    to: Option

    def sentence(self) -> str:
        return f"{self.why.sentence()}: it moves to {name(self.to)}"


# --- the job may not move ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InQuietHours(Fact):
    """The budget is in quiet hours, in which it moves no job, until ``until``."""

    until: Instant

    def sentence(self) -> str:
        return f"no job is moved in the quiet hours, which last until {format_minute(self.until)}"


@dataclass(frozen=True, slots=True)
class MovedOften(Fact):
    """The job was moved as often within a day as the budget allows."""

    times: int
    most: int

    def sentence(self) -> str:
        return f"the job was moved {count(self.times, 'time')} in 24 h, and moves.maxPerJobPerDay is {self.most}"


@dataclass(frozen=True, slots=True)
class DidNotJoin(Fact):
    """Pods that should have joined the job's run a while ago did not join it."""

    def sentence(self) -> str:
        return "pods that were added to the run did not join it"


@dataclass(frozen=True, slots=True)
class AboveMaxCost(Fact):
    """After the move, the job would cost more than its maxCost."""

    limit: CostLimit

    def sentence(self) -> str:
        if self.limit.budget is None:
            return f"the job would then cost more than its spec.maxCost ({self.limit.amount})"
        return f"the job would then cost more than {self.limit.amount} ({self.limit.field})"


@dataclass(frozen=True, slots=True)
class LateForTarget(Fact):
    """After the move, the job would miss its target."""

    target: Instant

    def sentence(self) -> str:
        return f"the job would then miss its target {format_minute(self.target)}"


@dataclass(frozen=True, slots=True)
class BeingMeasured(Fact):
    """The job's speed at its present width is being measured."""

    gpus: int
    until: Instant

    def sentence(self) -> str:
        until = f"{moment(self.until):%H:%MZ}"
        return f"the job's speed on {count(self.gpus, 'GPU')} is being measured, until {until} at the latest"


@dataclass(frozen=True, slots=True)
class HoldsSession(Fact):
    """The job is interactive, and its owner's results are in the memory of its GPUs."""

    def sentence(self) -> str:
        return "it is interactive, and its session would be lost"


@dataclass(frozen=True, slots=True)
class NeverSaved(Fact):
    """The job reports no progress, and nothing is known about the time of a checkpoint of its class."""

    def sentence(self) -> str:
        return (
            "the job has never reported how far it is, and checkpointSeconds of its class is neither reported nor "
            "declared: it is not restarted for money before something shows that it goes on from a checkpoint "
            "(docs/progress.md)"
        )


@dataclass(frozen=True, slots=True)
class MovedLately(Fact):
    """The job was moved at ``at``, and a further move takes ``seconds``. The job stays until ``until``, a multiple of
    that time."""

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
    """The move would undo the job's last move."""

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
"""Reasons that keep a job where it is."""


@dataclass(frozen=True, slots=True)
class WouldPay(Fact):
    """A move to ``to`` would pay, but is not made because of ``held``."""

    to: Option
    held: Holding

    def sentence(self) -> str:
        return f"a move to {name(self.to)} would pay, but {self.held.sentence()}"
