"""A budget: what may be spent on which namespaces, and what has been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp2

from charterer.domain.ids import BudgetId, ClassId, Rate
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.period import QuietHours
from charterer.domain.time import Instant, seconds_between


class Mode(StrEnum):
    """Enforce rents and runs; Observe only decides and reports what it would do."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector over namespaces; empty selects all. Each expression is (key, operator, values)."""

    match_labels: tuple[tuple[str, str], ...]
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...]


HISTORY_HALF_LIFE_SECONDS = 30 * 86_400.0
"""A month, so that the last month's jobs say as much as all before: what jobs cost drifts with their code."""
WEEK_SECONDS = 7 * 86_400.0
"""Half life of the arrivals that are counted to follow the load: it holds a whole cycle of work days and week ends."""


def decay(seconds: float, half_life: float) -> float:
    """The weight of what is so many seconds old; what is still to come has a whole one."""
    return exp2(-max(seconds, 0.0) / half_life)


@dataclass(frozen=True, slots=True)
class ClassHistory:
    """What the finished jobs of one class have cost against what had been predicted; a job's weight halves in a month.

    Sums over jobs as they were at ``at``: ``jobs`` (their number), ``predicted`` and ``actual`` dollars of their GPUs,
    and ``squares``, actual² / predicted. Floats: statistics that forget, not accounts. ``came`` counts the same jobs by
    when they were created, ``came_lately`` with a weight that halves in a week; ``since``: the first's creation.
    """

    jobs: float
    predicted: float
    actual: float
    squares: float
    since: Instant
    at: Instant
    came: float = 0.0
    came_lately: float = 0.0

    def aged(self, at: Instant) -> ClassHistory:
        """The same sums, counting for less at a later instant; unchanged at an earlier one."""
        passed = seconds_between(self.at, at)
        weight = decay(passed, HISTORY_HALF_LIFE_SECONDS)
        return ClassHistory(
            self.jobs * weight,
            self.predicted * weight,
            self.actual * weight,
            self.squares * weight,
            self.since,
            max(self.at, at),
            self.came * weight,
            self.came_lately * decay(passed, WEEK_SECONDS),
        )


@dataclass(frozen=True, slots=True)
class PastPeriod:
    """A period that is over: its begin, what was spent in it, and what it aimed at (None: recorded before that was)."""

    start: Instant
    spent: Money
    aim: Money | None = None

    @property
    def part(self) -> float | None:
        """Spent ÷ aim; None where nothing is known to have been aimed at."""
        return self.spent.micros / self.aim.micros if self.aim is not None and self.aim.micros > 0 else None


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """When running jobs may be resized: so often a day at most (None: no bound), and not in the quiet hours."""

    per_job_and_day: int | None = None
    quiet_hours: tuple[QuietHours, ...] = ()


@dataclass(frozen=True, slots=True)
class Balance:
    """What the ledger has recorded for one budget, read back from its status.

    ``settled``: cost of folded rentals that fell into the period that began at ``period_start``. ``lifetime``: the
    whole cost of every folded rental ever. ``folded``: uids of rentals that are in both sums and whose objects may
    still exist (each is counted once, however often its step is repeated). ``history``: past periods, oldest first.
    ``carried``: dollars that the period before this one left over (negative: overspent) and handed on.

    Of finished jobs: ``experience`` by class (the empty one for jobs that follow no profile), ``jobs_cost`` their whole
    cost, and which of them are in both: those that finished up to ``counted_through``, and those in ``counted`` (by
    uid: when).
    """

    period_start: Instant
    settled: Money
    lifetime: Money
    folded: frozenset[str]
    history: tuple[PastPeriod, ...]
    carried: Money = ZERO
    experience: Mapping[ClassId, ClassHistory] = field(default_factory=dict)
    jobs_cost: Money = ZERO
    counted: Mapping[str, Instant] = field(default_factory=dict)
    counted_through: Instant | None = None

    def counts(self, job_uid: str, finished: Instant) -> bool:
        """Whether a finished job is in the sums."""
        through = self.counted_through
        return job_uid in self.counted or (through is not None and finished <= through)


@dataclass(frozen=True, slots=True)
class Budget:
    """A GPUBudget with its balance. ``balance`` is None until the first period has been opened in status.

    ``opening_spend``: spent in the period of creation before Charterer came (joining mid-month).
    ``weights``: weight by priorityClassName; 1 where none is named. ``fixed_rate``: the exchange rate that is used
    whatever is spent, for what-ifs and simulations. ``guarded``: it has the finalizer
    ``charterer.dev/in-use``, which keeps it while rentals name it. ``carry_over_percent``: the part of what a period
    leaves over or overspends that goes into the next. ``exploration_percent``: the part of the amount that may be spent
    on measuring curves. ``moves``: limits on resizing running jobs. ``unreadable``: what is wrong with the statistics
    in its status, if anything; they are learned anew then.
    """

    id: BudgetId
    uid: str
    resource_version: str
    generation: int
    created: Instant
    amount: Money
    time_zone: str
    selector: Selector
    mode: Mode
    hard_limit: Money | None
    max_hourly_rate: Price | None
    opening_spend: Money
    weights: tuple[tuple[str, float], ...]
    balance: Balance | None
    deleting: bool
    guarded: bool = False
    fixed_rate: Rate | None = None
    carry_over_percent: int = 0
    exploration_percent: int = 2
    moves: MoveLimits = MoveLimits()
    unreadable: str = ""

    @property
    def aim(self) -> Money:
        """What is to be spent in the current period: the amount with what was carried over.

        Nothing carried over lifts it above the hard limit, which holds for every period alike.
        """
        carried = ZERO if self.balance is None else self.balance.carried
        wanted = max(self.amount + carried, ZERO)
        return wanted if self.hard_limit is None else min(wanted, max(self.hard_limit, self.amount))

    def carries(self, used: Money) -> Money:
        """The part of a period's surplus, or deficit, that goes into the next, if so much was spent in all."""
        left = self.aim.micros - used.micros
        part = abs(left) * self.carry_over_percent // 100
        return Money(part if left > 0 else -part)
