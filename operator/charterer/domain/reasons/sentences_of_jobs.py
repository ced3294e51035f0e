"""Sentences of jobs that want no GPUs, whose runs do not go well, that may not stay, or that may not move."""

from __future__ import annotations

from charterer.domain.money import ZERO, Money
from charterer.domain.reasons import facts_of_jobs as of
from charterer.domain.reasons.phrases import after_colon, format_duration, name
from charterer.domain.reasons.room import tell
from charterer.domain.time import format_minute, format_second, moment
from charterer.gpu_types import is_shared
from charterer.sentences import count

_WORDS_OF_OTHERS = 200
"""Characters of what a run's end was, within another sentence."""


@tell.register
def _(_: of.JobDeleted) -> str:
    return "the job is being deleted"


@tell.register
def _(job: of.JobEnded) -> str:
    return f"the job has ended: {job.kind}"


@tell.register
def _(job: of.JobSuspended) -> str:
    waits = "Kueue has not reserved its quota yet, or another AdmissionCheck of its queue is not Ready"
    return waits if job.queued else "spec.suspend is true"


@tell.register
def _(job: of.NoGpuWanted) -> str:
    if job.price is None:
        return f"it asks for no GPU: spec.interactive.asks is {job.ask}, and it costs nothing until that is raised"
    answered = f"ask {job.ask} was answered" + ("" if job.at is None else f" at {format_second(job.at)}")
    takes = "" if job.seconds is None else f" and takes about {format_duration(job.seconds)} on a new node"
    return f"it asks for no GPU: {answered}; a GPU costs about {Money(job.price.micros_per_hour)} an hour{takes}"


@tell.register
def _(job: of.GivenBack) -> str:
    return (
        f"no cell has run for {format_duration(job.seconds)}, and to hold its GPUs for more than "
        f"{format_duration(job.most)} costs more than to start again: they are given back"
    )


@tell.register
def _(_: of.NodeGoesIdle) -> str:
    return "its node goes away and no cell runs: the next ask gets another one"


@tell.register
def _(job: of.NoCellRuns) -> str:
    return (
        f"no cell has run since {format_second(job.since)}: its GPUs are given back at {format_second(job.until)}, "
        "unless one does"
    )


@tell.register
def _(job: of.JobInvalid) -> str:
    return job.words


@tell.register
def _(_: of.TemplateChecked) -> str:
    return "the API server is being asked whether the template is right"


@tell.register
def _(job: of.TargetRefused) -> str:
    return f"{job.target} can begin no run: {job.why}"


@tell.register
def _(job: of.TargetWithdrawn) -> str:
    return f"{job.target}, which it stands for, is gone, or has not the label charterer.dev/adopt any more"


@tell.register
def _(job: of.NoBudgetSelects) -> str:
    return f"no GPUBudget selects namespace {job.namespace}"


@tell.register
def _(job: of.BacksOffForRecord) -> str:
    return f"run {job.run} never started; the next run waits until its pods have ended"


@tell.register
def _(job: of.BacksOff) -> str:
    ended = "failed" if job.started else "never started"
    why = f" ({job.why:.{_WORDS_OF_OTHERS}})" if job.why else ""
    return f"run {job.run} {ended}{why}; the next run begins at {format_second(job.until)} at the earliest"


@tell.register
def _(job: of.MaxCostSpent) -> str:
    return (
        f"{job.spent} are spent, and spec.maxCost is {job.max_cost}, of which an orderly stop needs the rest: raise "
        "spec.maxCost to go on"
    )


@tell.register
def _(job: of.TooDear) -> str:
    what = "the cheapest way to finish" if job.seconds is None else f"training for {job.seconds} s"
    least = Money.of(job.spent.dollars + job.needed)
    spent, then = (f", {job.spent} are spent", "go on") if job.spent > ZERO else ("", "start it")
    return (
        f"spec.maxCost is {job.max_cost}{spent}, and {what} ({name(job.option)}) needs ${job.needed:.2f}, an "
        f"orderly stop included: set spec.maxCost to {least} or more to {then}"
    )


@tell.register
def _(job: of.Stalls) -> str:
    return (
        f"run {job.run} has not advanced for {format_duration(job.seconds)} while its pods live: it starts again from "
        "its checkpoint"
    )


@tell.register
def _(job: of.PredecessorLives) -> str:
    return f"run {job.run} could not begin: the run before it has not ended"


@tell.register
def _(job: of.NotRunning) -> str:
    return f"run {job.run} was not fully running within {job.seconds:.0f} s{after_colon(job.trouble)}"


@tell.register
def _(job: of.NeverStarts) -> str:
    return f"run {job.run} can never start{after_colon(job.trouble)}"


@tell.register
def _(job: of.NotJoined) -> str:
    return f"the pods that were added to {job.run} did not join it in time{after_colon(job.trouble)}"


@tell.register
def _(job: of.NotRegrouped) -> str:
    return f"the pods of {job.run} did not train as generation {job.generation} in time: it starts again"


@tell.register
def _(job: of.NotBelieved) -> str:
    return job.words


@tell.register
def _(job: of.WidthNotAllowed) -> str:
    return f"the job has {count(job.gpus, 'GPU')}, and spec.gpus allows {job.least} to {job.most}"


@tell.register
def _(job: of.VariantNotAllowed) -> str:
    return f"spec.variants no longer names {job.variant}"


@tell.register
def _(job: of.VariantNotMeasured) -> str:
    return f"nothing was learned of variant {job.variant}: its trainer reports no batch size and step time, or failed"


@tell.register
def _(job: of.GpuTypeNotAllowed) -> str:
    return f"spec.gpuTypes no longer names {job.gpu_type}"


@tell.register
def _(job: of.SliceNotAllowed) -> str:
    if is_shared(job.profile):
        return "spec.gpus.shared no longer allows its GPU: it is absent, or asks for more memory than a job has there"
    return f"spec.gpus.slices no longer names {job.profile}"


@tell.register
def _(_: of.SpotNotAllowed) -> str:
    return "spec.spotPolicy no longer allows spot capacity"


@tell.register
def _(job: of.Forced) -> str:
    return f"{tell(job.why)}: it moves to {name(job.to)}"


@tell.register
def _(hold: of.InQuietHours) -> str:
    return f"no job is moved in the quiet hours, which last until {format_minute(hold.until)}"


@tell.register
def _(hold: of.MovedOften) -> str:
    return f"the job was moved {count(hold.times, 'time')} in 24 h, and moves.maxPerJobPerDay is {hold.most}"


@tell.register
def _(_: of.DidNotJoin) -> str:
    return "pods that were added to the run did not join it"


@tell.register
def _(hold: of.AboveMaxCost) -> str:
    return f"the job would then cost more than its spec.maxCost ({hold.max_cost})"


@tell.register
def _(hold: of.LateForTarget) -> str:
    return f"the job would then miss its target {format_minute(hold.target)}"


@tell.register
def _(hold: of.BeingMeasured) -> str:
    until = f"{moment(hold.until):%H:%MZ}"
    return f"the job's speed on {count(hold.gpus, 'GPU')} is being measured, until {until} at the latest"


@tell.register
def _(_: of.HoldsSession) -> str:
    return "it is interactive, and its session would be lost"


@tell.register
def _(_: of.NeverSaved) -> str:
    return (
        "the job has never reported how far it is, and checkpointSeconds of its class is neither reported nor "
        "declared: it is not restarted for money before something shows that it goes on from a checkpoint "
        "(docs/progress.md)"
    )


@tell.register
def _(hold: of.MovedLately) -> str:
    return (
        f"it was moved {format_minute(hold.at)}, and another move takes {format_duration(hold.seconds)} of its time: "
        f"it stays until {format_minute(hold.until)}"
    )


@tell.register
def _(hold: of.CameFrom) -> str:
    return f"the job came from {name(hold.option)}, and a move back pays only from {format_minute(hold.until)} on"


@tell.register
def _(job: of.WouldPay) -> str:
    return f"a move to {name(job.to)} would pay, but {tell(job.held)}"
