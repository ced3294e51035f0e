"""Sentences of jobs that wait: what they wait for, and what no pool or no budget gives them."""

from __future__ import annotations

from charterer.domain.reasons import facts_of_parents as parents
from charterer.domain.reasons import facts_of_waits as of
from charterer.domain.reasons.phrases import all_nodes, format_duration, name, of_parent
from charterer.domain.reasons.room import tell
from charterer.domain.time import Instant, format_minute, format_second
from charterer.sentences import count, is_or_are, names

_NAMED = 5
"""Pools, and labels of one pool, that are named at most."""
_OR_WAIT = "raise it, or wait until others are given back"

# --- its nodes come ---------------------------------------------------------------------------------------------------


@tell.register
def _(job: of.WaitsForNodes) -> str:
    return f"it waits until {names(job.nodes)} can take it"


@tell.register
def _(job: of.WouldBeRented) -> str:
    return f"{count(job.nodes, 'node')} would be rented for it"


@tell.register
def _(job: of.WaitsForOldNode) -> str:
    return (
        f"{name(job.option)} wanted: a node in use is expected to be free in {format_duration(job.seconds)}, and a "
        f"new one would cost {job.bill} in the {format_duration(job.start)} that it starts{_at_the_latest(job.until)}"
    )


@tell.register
def _(job: of.WaitsForFragment) -> str:
    free = "it is" if job.option.gpus == 1 else "they are"
    if job.others is not None:
        free = f"{count(job.others, 'GPU')} for another waiting job {is_or_are(job.others)}"
    return (
        f"{name(job.option)} wanted: {free} expected to be free in {format_duration(job.seconds)} on a node in use, "
        f"and the unused GPUs of a new node would cost {job.idle} until other jobs come{_at_the_latest(job.until)}"
    )


def _at_the_latest(until: Instant) -> str:
    return f"; a new node is rented at {format_second(until)} at the latest"


@tell.register
def _(job: of.StartsAbout) -> str:
    return f"it starts about {format_minute(job.at)} on {job.option.pool}, when jobs that have GPUs there end"


@tell.register
def _(late: of.LateNodes) -> str:
    told, probation, wait = [], late.probation, late.wait
    if probation is not None:
        whose = "" if probation.by is None else f"GPUPool {probation.by} was "
        times = "" if probation.times == 1 else f" {probation.times} times in a row, last"
        told.append(f"{whose}refused{times} at {format_minute(probation.since)}: {probation.code}")
    if wait.measured:
        between = f"{format_duration(wait.low)} to {format_duration(wait.high)}"
        told.append(f"{between}, measured in {wait.hours:.0f} hours like this one")
    reason = f" ({'; '.join(told)})" if told else ""
    return f"{late.pool} is expected to give a node only after {format_duration(wait.seconds)}{reason}"


# --- its budget does not pay ------------------------------------------------------------------------------------------


@tell.register
def _(_: of.OthersWaitForMoney) -> str:
    return "jobs before it in the queue wait for money too"


@tell.register
def _(job: of.CostsTooMuch) -> str:
    return f"it costs about {job.cost}, and the budget may commit only {job.left} to jobs now"


@tell.register
def _(job: of.SpendsTooMuch) -> str:
    return f"it costs {job.price}, other jobs {job.used}, and the budget may spend {job.allowed} now"


@tell.register
def _(limit: of.AboveHourlyLimit) -> str:
    return f"a node costs {limit.node}, more than spec.maxHourlyRate{of_parent(limit.parent)} ({limit.limit}): raise it"


@tell.register
def _(limit: of.HourlyLimitUsed) -> str:
    return (
        f"a node costs {limit.node}, and the nodes that are rented cost {limit.hourly} of the {limit.limit} that "
        f"spec.maxHourlyRate{of_parent(limit.parent)} allows"
    )


@tell.register
def _(limit: of.HardLimitUsed) -> str:
    return (
        f"a node may cost {limit.needed} until it can be given back, and only {limit.left} of "
        f"spec.hardLimit{of_parent(limit.parent)} ({limit.limit}) is not committed yet"
    )


@tell.register
def _(limit: of.OperatorNodesUsed) -> str:
    return (
        f"the operator may have {count(limit.limit, 'node')} in all (--max-nodes, chart value limits.nodes), and has "
        f"{limit.nodes}: {_OR_WAIT}"
    )


@tell.register
def _(limit: of.OperatorHourlyUsed) -> str:
    return (
        f"a node costs up to {limit.node}, and the operator's nodes cost {limit.hourly} of the {limit.limit} that they "
        f"may cost in all (--max-dollars-per-hour, chart value limits.dollarsPerHour): {_OR_WAIT}"
    )


# --- its pool gives none ----------------------------------------------------------------------------------------------


@tell.register
def _(_: of.RentsNothing) -> str:
    return "the operator was stopped and rents nothing: see the condition Stopped of the GPUBudgets"


@tell.register
def _(_: of.PoolCools) -> str:
    return "its pool had no node to give, and is asked again later"


@tell.register
def _(_: of.RentalUnreadable) -> str:
    return "a GPURental of its pool cannot be read"


@tell.register
def _(_: of.BudgetEnds) -> str:
    return "its budget is being deleted"


@tell.register
def _(_: of.ClockBehind) -> str:
    return "its budget's period has not begun by the operator's clock"


@tell.register
def _(lost: parents.ParentMissing) -> str:
    return (
        f"spec.parent of GPUBudget {lost.budget} is {lost.parent}, which does not exist or cannot be read, so that its "
        "limits are not known: nothing new is rented"
    )


@tell.register
def _(circle: parents.ParentsInCircle) -> str:
    return (
        f"spec.parent of GPUBudgets goes in a circle ({' below '.join([*circle.budgets, circle.budgets[0]])}), so that "
        "nothing new is rented: correct one of them"
    )


@tell.register
def _(unread: parents.RelativeUnreadable) -> str:
    return (
        f"GPUBudget {unread.budget} cannot be read, and may count against the same limits of a parent: nothing new is "
        "rented until it is corrected"
    )


@tell.register
def _(_: of.PoolEnds) -> str:
    return "its pool is being deleted"


@tell.register
def _(_: of.CloudSilent) -> str:
    return "the cloud of its pool has not answered yet"


@tell.register
def _(_: of.NoNodeNow) -> str:
    return "no node can be had now"


@tell.register
def _(full: of.PoolFull) -> str:
    apart = ""
    if full.apart is not None:
        apart = f", and its {count(full.apart, 'free GPU')} {is_or_are(full.apart)} spread over too many nodes"
    return f"{full.pool} has {all_nodes(full.nodes, full.by_group)}{apart}"


@tell.register
def _(job: of.BetterAlone) -> str:
    return f"{name(job.option)} would be better for this job alone"


@tell.register
def _(room: of.RoomAllotted) -> str:
    text, whom, one = tell(room.why), "it", "it"
    if room.waiting > 1:
        text += f"; {room.waiting} jobs wait for {room.pool}, and those get its room that lose most by waiting"
        whom, one = "them", "one of them"
    if room.gap is not None:
        text += f" (to within {room.gap:.0%})"
    if room.any_price:
        return f"{text}; {one} is late for its targetCompletionTime whatever it gets, so it pays any price"
    worth = f"{room.node} more to {whom} than it costs"
    if room.node > room.payable:
        worth = f"more to {whom} than the {room.payable} that the budget may spend"
    return f"{text}; one more node would be worth {worth}"


@tell.register
def _(room: of.RoomIsMade) -> str:
    others = f"{count(room.far, 'job')} of {'another namespace' if room.far == 1 else 'other namespaces'}"
    who = " and ".join(filter(None, [names(room.near), others if room.far else ""]))
    text = f"go on with fewer GPUs to make room for it ({who})" if who else "are leaving GPUs that it gets"
    return f"{tell(room.full)}, and running jobs {text}"


# --- no pool has what it asks for -------------------------------------------------------------------------------------


@tell.register
def _(none: of.NoPoolSelected) -> str:
    there = [f"{pool} ({names(labels, _NAMED) or 'no labels'})" for pool, labels in none.there]
    what = f"the GPUPools are {names(there, _NAMED)}" if there else "there is no GPUPool"
    return f"spec.poolSelector of GPUBudget {none.budget} selects no GPUPool: it asks for {none.selector}; {what}"


@tell.register
def _(others: of.PoolsLeftOut) -> str:
    return (
        f"GPUBudget {others.budget} rents only in GPUPools with {others.selector} (spec.poolSelector), which leaves "
        f"out {names(others.pools, _NAMED)}"
    )


@tell.register
def _(asked: of.NotAskedYet) -> str:
    return f"the cloud has not answered yet what it offers in GPUPool {names(asked.pools)}, and no other pool fits"


@tell.register
def _(none: of.NoPlan) -> str:
    return none.words
