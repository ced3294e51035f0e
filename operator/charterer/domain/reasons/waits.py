"""Facts about jobs that wait, and about budgets whose ancestors are not all known."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.budget import Selector
from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.order import CoolDown
from charterer.domain.pool import ExpectedWait
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import all_nodes, format_duration, in_hours, name, of_parent
from charterer.domain.time import Calendar, Grant, Instant, format_minute, format_second
from charterer.sentences import count, is_or_are, names

# Facts about budgets whose ancestors are not all known.


@dataclass(frozen=True, slots=True)
class ParentMissing(Fact):
    """``budget`` names a parent that does not exist or is unreadable, so the parent's limits are unknown."""

    budget: BudgetId
    parent: BudgetId

    def sentence(self) -> str:
        return (
            f"spec.parent of GPUBudget {self.budget} is {self.parent}, which does not exist or "
            "cannot be read, so that its "
            "limits are not known: nothing new is rented"
        )


@dataclass(frozen=True, slots=True)
class PeriodsDiffer(Fact):
    """``budget`` has another period than its ``parent``, so its spending cannot be counted there."""

    budget: BudgetId
    own: Calendar
    parent: BudgetId
    above: Calendar

    def sentence(self) -> str:
        return (
            f"spec.period of GPUBudget {self.budget} is {_period(self.own)}, and that of its parent {self.parent} is "
            f"{_period(self.above)}, so that what it spends cannot be counted against the parent's limits: nothing "
            "new is rented; name a parent of the same period in spec.parent, or create the budget anew with that period"
        )


def _period(calendar: Calendar) -> str:
    return calendar.period if calendar.grant is None else f"{calendar.period} ({_days(calendar.grant)})"


def _days(grant: Grant) -> str:
    return f"{grant.first.isoformat()} to {grant.last.isoformat()}"


@dataclass(frozen=True, slots=True)
class ParentsInCircle(Fact):
    """The chain of parents is a cycle: each budget is the parent of the previous one, and the first of the last."""

    budgets: tuple[BudgetId, ...]

    def sentence(self) -> str:
        return (
            f"spec.parent of GPUBudgets goes in a circle ({' below '.join([*self.budgets, self.budgets[0]])}), so that "
            "nothing new is rented: correct one of them"
        )


@dataclass(frozen=True, slots=True)
class RelativeUnreadable(Fact):
    """A budget is unreadable. The budget may have the same ancestors, and its spending is unknown."""

    budget: BudgetId

    def sentence(self) -> str:
        return (
            f"GPUBudget {self.budget} cannot be read, and may count against the same limits of a "
            "parent: nothing new is "
            "rented until it is corrected"
        )


# Facts about jobs that wait: what they wait for, and why no pool or budget gives it.


_NAMED = 5
"""Maximum number of pools, and of labels of one pool, in a sentence."""
_OR_WAIT = "raise it, or wait until others are given back"

# --- the job's nodes are coming ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitsForNodes(Fact):
    """The job waits until these nodes can take it."""

    nodes: tuple[RentalId, ...]

    def sentence(self) -> str:
        return f"it waits until {names(self.nodes)} can take it"


@dataclass(frozen=True, slots=True)
class WouldBeRented(Fact):
    """The job's budget only observes, and would rent ``nodes`` nodes for the job."""

    nodes: int

    def sentence(self) -> str:
        return f"{count(self.nodes, 'node')} would be rented for it"


@dataclass(frozen=True, slots=True)
class WaitsForOldNode(Fact):
    """A node in use is expected to become free in ``seconds``, so the job waits for it.

    A new node would take ``start`` seconds to start and cost ``bill`` meanwhile. A new node is rented at ``until`` at
    the latest.
    """

    option: Option
    seconds: float
    bill: Money
    start: float
    until: Instant

    def sentence(self) -> str:
        return (
            f"{name(self.option)} wanted: a node in use is expected to be free in "
            f"{format_duration(self.seconds)}, and a "
            f"new one would cost {self.bill} in the {format_duration(self.start)} that it "
            f"starts{_at_the_latest(self.until)}"
        )


@dataclass(frozen=True, slots=True)
class WaitsForFragment(Fact):
    """GPUs of a node in use should become free in ``seconds``. ``others``: the number of these GPUs if they are for
    another job.

    The unused GPUs of a new node would cost ``idle``. A new node is rented at ``until`` at the latest.
    """

    option: Option
    others: int | None
    seconds: float
    idle: Money
    until: Instant

    def sentence(self) -> str:
        free = "it is" if self.option.gpus == 1 else "they are"
        if self.others is not None:
            free = f"{count(self.others, 'GPU')} for another waiting job {is_or_are(self.others)}"
        return (
            f"{name(self.option)} wanted: {free} expected to be free in "
            f"{format_duration(self.seconds)} on a node in use, "
            f"and the unused GPUs of a new node would cost {self.idle} until other jobs "
            f"come{_at_the_latest(self.until)}"
        )


@dataclass(frozen=True, slots=True)
class StartsAbout(Fact):
    """GPUs for the option are expected to become free at ``at``, when the jobs that hold them end."""

    option: Option
    at: Instant

    def sentence(self) -> str:
        return f"it starts about {format_minute(self.at)} on {self.option.pool}, when jobs that have GPUs there end"


@dataclass(frozen=True, slots=True)
class LateNodes(Fact):
    """A pool is expected to give a node only after ``wait``. ``probation``: the refusal that makes this doubtful."""

    pool: PoolId
    wait: ExpectedWait
    probation: CoolDown | None

    def sentence(self) -> str:
        told, probation, wait = [], self.probation, self.wait
        if probation is not None:
            whose = "" if probation.by is None else f"GPUPool {probation.by} was "
            times = "" if probation.times == 1 else f" {probation.times} times in a row, last"
            told.append(f"{whose}refused{times} at {format_minute(probation.since)}: {probation.code}")
        if wait.measured:
            between = f"{format_duration(wait.low)} to {format_duration(wait.high)}"
            told.append(f"{between}, measured in {wait.hours:.0f} hours like this one")
        reason = f" ({'; '.join(told)})" if told else ""
        return f"{self.pool} is expected to give a node only after {format_duration(wait.seconds)}{reason}"


# --- the job's budget does not pay ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OthersWaitForMoney(Fact):
    """Jobs before this job in the queue wait for money too."""

    def sentence(self) -> str:
        return "jobs before it in the queue wait for money too"


@dataclass(frozen=True, slots=True)
class CostsTooMuch(Fact):
    """The job costs ``cost``, but only ``left`` may be committed. ``share``: its share of the money, empty for none."""

    cost: Money
    left: Money
    share: str = ""

    def sentence(self) -> str:
        return f"it costs about {self.cost}, and {_purse(self.share)} may commit only {self.left} to jobs now"


@dataclass(frozen=True, slots=True)
class SpendsTooMuch(Fact):
    """The job costs ``price`` and other jobs cost ``used``, more than the budget may spend (``allowed``).

    ``share``: as in CostsTooMuch.
    """

    price: Price
    used: Price
    allowed: Price
    share: str = ""

    def sentence(self) -> str:
        others = "other jobs" if not self.share else "other jobs of it"
        return f"it costs {self.price}, {others} {self.used}, and {_purse(self.share)} may spend {self.allowed} now"


def _purse(share: str) -> str:
    return f"share {share} of the budget" if share else "the budget"


@dataclass(frozen=True, slots=True)
class AboveHourlyLimit(Fact):
    """One node costs more per hour than all nodes may. ``parent``: the ancestor with that limit; None for its own
    limit."""

    node: Price
    limit: Price
    parent: BudgetId | None = None

    def sentence(self) -> str:
        return (
            f"a node costs {self.node}, more than spec.maxHourlyRate{of_parent(self.parent)} ({self.limit}): raise it"
        )


@dataclass(frozen=True, slots=True)
class HourlyLimitUsed(Fact):
    """The rented nodes cost ``hourly``, so one more would exceed the limit. ``parent``: see ``AboveHourlyLimit``."""

    node: Price
    hourly: Price
    limit: Price
    parent: BudgetId | None = None

    def sentence(self) -> str:
        return (
            f"a node costs {self.node}, and the nodes that are rented cost {self.hourly} of the {self.limit} that "
            f"spec.maxHourlyRate{of_parent(self.parent)} allows"
        )


@dataclass(frozen=True, slots=True)
class HardLimitUsed(Fact):
    """One more node may cost ``needed``, but only ``left`` of the hard limit is free. ``parent``: see
    ``AboveHourlyLimit``."""

    needed: Money
    left: Money
    limit: Money | None
    parent: BudgetId | None = None

    def sentence(self) -> str:
        return (
            f"a node may cost {self.needed} until it can be given back, and only {self.left} of "
            f"spec.hardLimit{of_parent(self.parent)} ({self.limit}) is not committed yet"
        )


@dataclass(frozen=True, slots=True)
class GpuHoursUsed(Fact):
    """What is left of an amount of GPU-hours is too little for a run. Numbers are GPU-microseconds.

    ``used``: for which runs held GPUs in the period. ``committed``: that, and what they can still hold until an orderly
    end. ``until``: the period's end.
    """

    gpu_type: str
    used: int
    committed: int
    amount: int
    budget: BudgetId
    until: Instant

    def sentence(self) -> str:
        held = self.committed - self.used
        ends = f", and what runs hold until they have ended is {in_hours(held)}" if held else ""
        return (
            f"{in_hours(self.used)} of the {in_hours(self.amount)} GPU-hours of {self.gpu_type} in spec.gpuHours of "
            f"GPUBudget {self.budget} are used{ends}: the rest is too little for a run. Raise the amount, or wait for "
            f"the next period ({format_minute(self.until)})"
        )


@dataclass(frozen=True, slots=True)
class GpuHoursAhead(Fact):
    """More GPU-hours are used than are for the time so far and the next ten days. Numbers are GPU-microseconds.

    ``at``: when more are released.
    """

    gpu_type: str
    used: int
    released: int
    amount: int
    budget: BudgetId
    at: Instant

    def sentence(self) -> str:
        return (
            f"{in_hours(self.used)} of the {in_hours(self.amount)} GPU-hours of {self.gpu_type} in spec.gpuHours of "
            f"GPUBudget {self.budget} are used, and {in_hours(self.released)} of them are for the time so far and the "
            f"next ten days: no job begins before {format_minute(self.at)}. Raise the amount, or wait"
        )


_ANOTHER = "create another GPUBudget for the same namespaces"


@dataclass(frozen=True, slots=True)
class GrantAhead(Fact):
    """The grant of the job's budget begins at ``begins``, in the future."""

    grant: Grant
    begins: Instant

    def sentence(self) -> str:
        return (
            f"the grant of its budget (spec.grant: {_days(self.grant)}) begins at {format_minute(self.begins)}: "
            f"nothing is rented or started before; if it begins too late, {_ANOTHER}"
        )


@dataclass(frozen=True, slots=True)
class GrantOver(Fact):
    """The grant of the job's budget ended at ``ended``."""

    grant: Grant
    ended: Instant

    def sentence(self) -> str:
        return (
            f"the grant of its budget (spec.grant: {_days(self.grant)}) ended at {format_minute(self.ended)}: nothing "
            f"more is spent; {_ANOTHER}, or let another one pay for them"
        )


@dataclass(frozen=True, slots=True)
class GrantEndsSoon(Fact):
    """The grant of the job's budget ends at ``ends``, too soon for one more node or for an orderly end of the job."""

    grant: Grant
    ends: Instant

    def sentence(self) -> str:
        return (
            f"the grant of its budget (spec.grant: {_days(self.grant)}) ends at {format_minute(self.ends)}, and all "
            f"nodes are ended before: {_ANOTHER}, to go on afterwards"
        )


@dataclass(frozen=True, slots=True)
class OperatorNodesUsed(Fact):
    """The operator has as many nodes as its limit allows."""

    limit: int
    nodes: int

    def sentence(self) -> str:
        return (
            f"the operator may have {count(self.limit, 'node')} in all (--max-nodes, chart value "
            "limits.nodes), and has "
            f"{self.nodes}: {_OR_WAIT}"
        )


@dataclass(frozen=True, slots=True)
class OperatorHourlyUsed(Fact):
    """The operator's nodes cost as much per hour as its limit allows."""

    node: Price
    limit: Price
    hourly: Price

    def sentence(self) -> str:
        return (
            f"a node costs up to {self.node}, and the operator's nodes cost {self.hourly} of the "
            f"{self.limit} that they "
            f"may cost in all (--max-dollars-per-hour, chart value limits.dollarsPerHour): {_OR_WAIT}"
        )


OperatorFact = OperatorNodesUsed | OperatorHourlyUsed
"""The limit of the operator that is reached."""

# --- the job's pool gives no node -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RentsNothing(Fact):
    """A person stopped the operator."""

    def sentence(self) -> str:
        return "the operator was stopped and rents nothing: see the condition Stopped of the GPUBudgets"


@dataclass(frozen=True, slots=True)
class PoolCools(Fact):
    """The cloud refused a node in the job's pool a while ago."""

    def sentence(self) -> str:
        return "its pool had no node to give, and is asked again later"


@dataclass(frozen=True, slots=True)
class RentalUnreadable(Fact):
    """A rental in the job's pool is unreadable, so the pool's machines are not all known."""

    def sentence(self) -> str:
        return "a GPURental of its pool cannot be read"


@dataclass(frozen=True, slots=True)
class BudgetEnds(Fact):
    """The job's budget is being deleted."""

    def sentence(self) -> str:
        return "its budget is being deleted"


@dataclass(frozen=True, slots=True)
class ClockBehind(Fact):
    """The period of the job's budget has not begun by the operator's clock."""

    def sentence(self) -> str:
        return "its budget's period has not begun by the operator's clock"


@dataclass(frozen=True, slots=True)
class PoolEnds(Fact):
    """The job's pool is being deleted."""

    def sentence(self) -> str:
        return "its pool is being deleted"


@dataclass(frozen=True, slots=True)
class CloudSilent(Fact):
    """The cloud of the job's pool has not answered yet."""

    def sentence(self) -> str:
        return "the cloud of its pool has not answered yet"


@dataclass(frozen=True, slots=True)
class NoNodeNow(Fact):
    """No node is available now."""

    def sentence(self) -> str:
        return "no node can be had now"


@dataclass(frozen=True, slots=True)
class PoolFull(Fact):
    """A pool has all ``nodes`` nodes that it may have. ``because``: the cause, which is its group's size or its spec.

    ``apart``: free GPUs of the pool, on too many nodes to be used together; None if too few are free.
    """

    pool: PoolId
    nodes: int
    because: str
    apart: int | None

    def sentence(self) -> str:
        apart = ""
        if self.apart is not None:
            apart = f", and its {count(self.apart, 'free GPU')} {is_or_are(self.apart)} spread over too many nodes"
        return f"{self.pool} has {all_nodes(self.nodes, self.because)}{apart}"


@dataclass(frozen=True, slots=True)
class BetterAlone(Fact):
    """The option would be better for this job if no other jobs wanted it."""

    option: Option

    def sentence(self) -> str:
        return f"{name(self.option)} would be better for this job alone"


@dataclass(frozen=True, slots=True)
class RoomAllotted(Fact):
    """Why an option is unavailable, and how the room of its pool is allotted to ``waiting`` jobs.

    ``gap``: the fraction by which another allotment could be better; None if negligible. ``any_price``: whether a job
    is late whatever it gets. ``node``: the value of an hour of one more node beyond its price. ``payable``: what the
    budget may spend per hour.
    """

    why: Fact
    pool: PoolId
    waiting: int
    gap: float | None
    any_price: bool
    node: Price
    payable: Price

    def sentence(self) -> str:
        text, whom, one = self.why.sentence(), "it", "it"
        if self.waiting > 1:
            text += f"; {self.waiting} jobs wait for {self.pool}, and those get its room that lose most by waiting"
            whom, one = "them", "one of them"
        if self.gap is not None:
            text += f" (to within {self.gap:.0%})"
        if self.any_price:
            return f"{text}; {one} is late for its targetCompletionTime whatever it gets, so it pays any price"
        worth = f"{self.node} more to {whom} than it costs"
        if self.node > self.payable:
            worth = f"more to {whom} than the {self.payable} that the budget may spend"
        return f"{text}; one more node would be worth {worth}"


@dataclass(frozen=True, slots=True)
class RoomIsMade(Fact):
    """Running jobs make room in the full pool. ``near``: names of such jobs in this namespace. ``far``: the number of
    such jobs in other namespaces."""

    full: PoolFull
    near: tuple[str, ...]
    far: int

    def sentence(self) -> str:
        others = f"{count(self.far, 'job')} of {'another namespace' if self.far == 1 else 'other namespaces'}"
        who = " and ".join(filter(None, [names(self.near), others if self.far else ""]))
        text = f"go on with fewer GPUs to make room for it ({who})" if who else "are leaving GPUs that it gets"
        return f"{self.full.sentence()}, and running jobs {text}"


# --- no pool fits the job's request -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoPoolSelected(Fact):
    """A budget's selector matches no pool. ``there``: the existing pools, each with its labels as ``key=value``."""

    budget: BudgetId
    selector: Selector
    there: tuple[tuple[PoolId, tuple[str, ...]], ...]

    def sentence(self) -> str:
        there = [f"{pool} ({names(labels, _NAMED) or 'no labels'})" for pool, labels in self.there]
        what = f"the GPUPools are {names(there, _NAMED)}" if there else "there is no GPUPool"
        return f"spec.poolSelector of GPUBudget {self.budget} selects no GPUPool: it asks for {self.selector}; {what}"


@dataclass(frozen=True, slots=True)
class PoolsLeftOut(Fact):
    """Pools that a budget's selector does not match."""

    budget: BudgetId
    selector: Selector
    pools: tuple[PoolId, ...]

    def sentence(self) -> str:
        return (
            f"GPUBudget {self.budget} rents only in GPUPools with {self.selector} (spec.poolSelector), which leaves "
            f"out {names(self.pools, _NAMED)}"
        )


SelectorFact = NoPoolSelected | PoolsLeftOut
"""The pools that a budget's selector excludes."""


@dataclass(frozen=True, slots=True)
class NotAskedYet(Fact):
    """The clouds of these pools have not answered yet, and no other pool fits."""

    pools: tuple[PoolId, ...]

    def sentence(self) -> str:
        return f"the cloud has not answered yet what it offers in GPUPool {names(self.pools)}, and no other pool fits"


@dataclass(frozen=True, slots=True)
class NoPlan(Fact):
    """Planning failed. ``words``: the message of the problem reported for the object."""

    words: str

    def sentence(self) -> str:
        return self.words


def _at_the_latest(until: Instant) -> str:
    return f"; a new node is rented at {format_second(until)} at the latest"
