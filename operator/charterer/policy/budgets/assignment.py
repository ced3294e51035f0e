"""The paths that the jobs of a group are given at an exchange rate. If two corners of its hull tie at the rate, the
group mixes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from zlib import crc32

from charterer.domain.budget import Budget, Cause, ClassHistory
from charterer.domain.ids import ClassId, PoolId, Rate, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price, total
from charterer.domain.option import Option
from charterer.domain.time import Instant
from charterer.incremental import Remember, directly
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.forecast import JobStream
from charterer.policy.jobs.groups import NOTHING, CommittedCost, JobGroup
from charterer.policy.jobs.job_facts import GroupKey, job_position
from charterer.policy.nodes.rentals import PoolRentals
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.hull import Hull, Path, Solution
from charterer.policy.solve.phase_dp import key_of

# κ, the cost factor: dollars that a class's jobs really cost for each dollar that was predicted.
#
# κ = (Σ actual + 3·m) / (Σ predicted + 3·m)
#
# The sums are over finished jobs, whose weights decay, and over jobs under way at their committed cost. m is the mean
# prediction. So the prior is three jobs that cost what was predicted. κ contains everything that makes a class dearer
# than its curves say (wrong exponents, restarts, sizes), and Σ λ·κ·m(θ) is what will really be spent. Jobs under way
# count with their whole expected cost, even while they wait for other GPUs. Otherwise short jobs would be counted
# first, and a move would change κ.


PSEUDO_JOBS = 3.0
"""Weight of κ's prior, in jobs that cost what was predicted."""
PRIOR_SQUARED_CV = 4.0
"""Squared coefficient of variation of dollars per job, assumed before a class has shown its own. In Microsoft's
Philly trace, the GPU-time of a virtual cluster's jobs has a coefficient of variation of 1.3 to 3.3 in the 7 most even
of the 11 virtual clusters. A single class is more even than a team, so a coefficient of 2 is assumed."""
SPREAD_JOBS = 30.0
"""Weight, in jobs, of the prior spread against the spread of all classes, and of the spread of all classes against
that of one class. The relative error of a sample's variance is √((kurtosis − 1) / n). At such coefficients a
lognormal distribution has a kurtosis of 100 and more, so a hundred jobs are needed until the error falls to 1. Most
samples of a dozen jobs miss the few dear jobs that make up the variance."""
_OVERHEAD_PRIOR_SECONDS = 3 * 3600.0
"""The prior of the overhead: so many seconds of the budget's even spending are assumed to have had no overhead. If
the budget's dearest node costs more than the even spending, its price is used instead. The seconds are many times the
start-up time of a node. No decision changes the prior, so making a plan does not change the overhead."""
_MOST_OVERHEAD = 2.0
"""The highest overhead that counts. If even more is paid for nodes that no job holds, something is broken, and
narrower jobs would not help."""


@dataclass(frozen=True, slots=True)
class CostFactor:
    """κ of a class and how certain it is.

    ``value``: κ.
    ``jobs``: number of jobs behind κ, including those of the prior.
    ``squared_cv``: squared coefficient of variation of dollars per job.
    """

    value: float = 1.0
    jobs: float = PSEUDO_JOBS
    squared_cv: float = PRIOR_SQUARED_CV

    @property
    def error(self) -> float:
        """The relative standard error of ``value``."""
        return sqrt(self.squared_cv / self.jobs)


NOTHING_KNOWN = CostFactor()


def cost_factor(
    known: ClassHistory | None, running: CommittedCost = NOTHING, usual_squared_cv: float = PRIOR_SQUARED_CV
) -> CostFactor:
    """κ of one class. Running jobs without a prediction do not count.

    ``usual_squared_cv``: the prior of the class's spread, from all classes.
    """
    predicted = (0.0 if known is None else known.predicted) + running.predicted
    if predicted <= 0:
        return CostFactor(squared_cv=usual_squared_cv)
    actual = (0.0 if known is None else known.actual) + running.actual
    jobs = (0.0 if known is None else known.jobs) + running.jobs
    prior = PSEUDO_JOBS * predicted / jobs
    value = (actual + prior) / (predicted + prior)
    return CostFactor(value, jobs + PSEUDO_JOBS, _squared_cv([] if known is None else [known], usual_squared_cv))


def usual_squared_cv(classes: Iterable[ClassHistory]) -> float:
    """The squared coefficient of variation of dollars per job within a class, over all classes."""
    return _squared_cv(classes, PRIOR_SQUARED_CV)


def _squared_cv(classes: Iterable[ClassHistory], prior: float) -> float:
    """The squared coefficient of variation of a job's actual ÷ predicted cost, weighted by dollars.

    The result is a mean over the finished jobs and ``SPREAD_JOBS`` imagined jobs with the ``prior`` spread.
    """
    jobs, total = SPREAD_JOBS, SPREAD_JOBS * prior
    for history in classes:
        if history.actual > 0 and history.predicted > 0:
            jobs += history.jobs
            total += history.jobs * max(history.squares * history.predicted / history.actual**2 - 1.0, 0.0)
    return total / jobs


# --- of all classes of a budget ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostCalibration:
    """Cost factors of a budget's classes, and what its running jobs will still cost.

    ``overhead``: dollars paid for nodes ÷ dollars of GPUs that jobs held. It exceeds 1 because starting and idle
    nodes are paid for too.
    ``overhead_measured``: whether more dollars were paid than the overhead's prior has (``_OVERHEAD_PRIOR_SECONDS``).
    ``rate``: dollars a second that the nodes with jobs cost now.
    ``left``: dollars that those jobs will still cost.
    ``spread``: the standard deviation of ``left``.

    Nodes that boot for waiting jobs are included in neither ``rate`` nor ``left``. Otherwise renting a node would
    change the exchange rate at which the node was rented, and the next plan, a moment later, would release the node.
    """

    cost_factors: Mapping[ClassId, CostFactor]
    overhead: float
    overhead_measured: bool
    rate: float
    left: float
    spread: float

    def of(self, class_id: ClassId) -> CostFactor:
        """κ of a class; the prior for a class that was never seen."""
        return self.cost_factors.get(class_id, NOTHING_KNOWN)

    def factor(self, class_id: ClassId) -> float:
        """Dollars paid for each dollar predicted."""
        return self.of(class_id).value * self.overhead


def calibrate(
    budget: Budget,
    groups: Collection[JobGroup],
    rentals: Iterable[PoolRentals],
    paid: Money,
    steady: Price,
    now: Instant,
    prepaid: frozenset[PoolId] = frozenset(),
    remember: Remember = directly,
) -> CostCalibration:
    """The calibration, from the balance's history and the jobs in sight.

    ``rentals``: rentals whose bill depends on jobs.
    ``paid``: all dollars ever paid, including those of running rentals. The cost of the present nodes before they
    took pods is left out, because the jobs for which the nodes started count a start-up in their own costs.
    ``steady``: the price that spends the aim evenly, or the price of the dearest node if that is higher.
    ``prepaid``: pools whose nodes are or were paid for whether they are used or not. Their idle hours are no overhead.
    """
    balance = budget.balance
    known: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    usual = usual_squared_cv(known.values())
    learned = {class_id: cost_factor(history, NOTHING, usual) for class_id, history in known.items()}
    running: dict[ClassId, CommittedCost] = {}
    held = 0.0 if balance is None else balance.jobs_cost.dollars
    for group in groups:
        for facts, finish in group.finished:
            held += 0.0 if balance is not None and balance.counts(facts.job.id, finish.at) else facts.spent(now)
        for class_id, jobs in group.under_way.items():
            held += jobs.spent(now)
            if jobs.started:
                committed = jobs.committed(now, learned.get(class_id, NOTHING_KNOWN).value)
                running[class_id] = running[class_id] + committed if class_id in running else committed
    cost_factors = learned | {
        class_id: cost_factor(known.get(class_id), under_way, usual) for class_id, under_way in running.items()
    }
    apart = {} if balance is None else {key: each for key, each in balance.costs.by_pool.items() if key[0] in prepaid}
    held -= total(each for (_, cause), each in apart.items() if cause is Cause.JOB).dollars
    paid -= total(apart.values())
    prior = steady.dollars_per_second * _OVERHEAD_PRIOR_SECONDS
    return CostCalibration(
        cost_factors=cost_factors,
        overhead=_overhead(max(paid.dollars, 0.0), max(held, 0.0), prior),
        overhead_measured=held > 0.0 and paid.dollars > prior,
        rate=remember(_billed, tuple(rentals), tuple([group.working for group in groups])).dollars_per_second,
        left=sum(committed.left for committed in running.values()),
        spread=sqrt(
            sum(cost_factors[class_id].squared_cv * committed.squares for class_id, committed in running.items())
        ),
    )


def _billed(rentals: Sequence[PoolRentals], used: Sequence[frozenset[RentalId]]) -> Price:
    """The sum of the prices of the ``used`` rentals."""
    names = frozenset[RentalId]().union(*used)
    return Price(sum([price for pool in rentals for name, price in pool.billed.items() if name in names]))


def _overhead(paid: float, held: float, prior: float) -> float:
    """Dollars paid per dollar of held GPUs. ``prior`` dollars that count as paid without overhead draw the result
    towards 1."""
    return min(max((paid + prior) / (held + prior), 1.0), _MOST_OVERHEAD) if held + prior > 0 else 1.0


def unavoidable_cost(groups: Iterable[JobGroup], seconds: float) -> float:
    """Dollars that running jobs will spend within ``seconds`` whatever is planned, if no hard limit stops them."""
    lefts = [
        (facts.reported or 0.0, facts.price) for group in groups for facts in group.unchanging if not facts.prepaid
    ]
    return sum([min(left, price * seconds) for left, price in lefts])


_NUDGE = 1e-6
"""If two corners tie, the worth of a second is changed by this fraction, so that each job chooses the corner assigned
to it."""


@dataclass(frozen=True, slots=True)
class AssignedPath:
    """A path that some of a group's jobs take.

    ``fraction``: the fraction of the jobs that take it.
    ``seconds``, ``dollars``: the length and the cost of a new job on the path.
    ``values``: the menu's values at θ*. If θ* is a tie, it is changed a little, so that this path is the best.
    """

    path: Path
    fraction: float
    seconds: float
    dollars: float
    values: OptionValues


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The paths that a group's jobs take, the cheapest first. Each job takes one path. A group with several paths
    mixes them."""

    group: GroupDemand
    assigned_paths: tuple[AssignedPath, ...]

    @property
    def mixes(self) -> bool:
        """Whether the group's jobs are given several paths."""
        return len(self.assigned_paths) > 1

    @property
    def cheapest(self) -> AssignedPath:
        """The cheapest path of the group."""
        return self.assigned_paths[0]

    @property
    def values(self) -> OptionValues:
        """The menu's values as jobs on the cheapest path see it."""
        return self.cheapest.values

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of a new job over all its paths."""
        return sum(assigned.fraction * assigned.seconds for assigned in self.assigned_paths)

    @property
    def mean_dollars(self) -> float:
        """Mean dollars of a new job over all its paths."""
        return sum(assigned.fraction * assigned.dollars for assigned in self.assigned_paths)

    @property
    def arrivals(self) -> float:
        """Jobs a second to come."""
        return self.group.arrivals

    @property
    def spend(self) -> float:
        """Dollars a second that the group spends over the horizon, if all its jobs take the cheapest path."""
        return self.group.spend(self.cheapest.seconds, self.cheapest.dollars, kappa=1.0, overhead=1.0)

    def to_come(self, seconds: float) -> float:
        """Dollars that will be spent within ``seconds`` on jobs that arrive within these seconds. The jobs that
        arrive last end later."""
        if self.cheapest.seconds <= seconds:
            return self.arrivals * self.cheapest.dollars * (seconds - self.cheapest.seconds / 2.0)
        return self.arrivals * self.cheapest.dollars * seconds**2 / 2.0 / self.cheapest.seconds

    def in_the_long_run(self) -> GroupAssignment:
        """The same paths for the group without its jobs in sight, over an endless horizon."""
        return replace(self, group=self.group.in_the_long_run())

    def position(self, job: Job) -> JobPosition:
        """The job's position, from its reports, or from its class's mean work if it reported nothing."""
        return job_position(job, self.group.work)

    def drawn_values(self, job: Job) -> OptionValues:
        """The menu's values on the path that a hash of the job's id chooses, so that a job always gets the same
        path."""
        return draw_path(job, self.assigned_paths).values if self.mixes else self.values

    def mixes_both(self, one: Option, other: Option) -> bool:
        """Whether some jobs of the group stay on ``one`` and others on ``other``, so that both are equally good."""
        alone = {key_of(each.path[0]) for each in self.assigned_paths if len(each.path) == 1}
        return {key_of(one), key_of(other)} <= alone

    def job_stream(self, key: GroupKey, calibration: CostCalibration) -> JobStream:
        """The group's jobs to come."""
        factor, group = calibration.of(key.class_id), self.group
        return JobStream(
            arrivals=group.arrivals,
            dollars=self.cheapest.dollars * calibration.factor(key.class_id),
            seconds=self.cheapest.seconds * factor.value,
            squared_cv=factor.squared_cv,
            counted=group.counted,
            cost_factor_error=factor.error,
        )


def draw_path(job: Job, assigned_paths: Sequence[AssignedPath]) -> AssignedPath:
    """The path that a hash of the job's id chooses. Each path is chosen with the probability ``fraction``. A job
    always gets the same path."""
    draw = crc32(job.id.encode()) / 2**32 * sum(assigned.fraction for assigned in assigned_paths)
    for assigned in reversed(assigned_paths[1:]):
        if draw < assigned.fraction:
            return assigned
        draw -= assigned.fraction
    return assigned_paths[0]


def assign(group: GroupDemand, solution: Solution, number: int, remember: Remember) -> GroupAssignment:
    """The solution's paths for the group. ``number``: the group's index in the solution."""
    level, hull, worth = solution.levels[number], group.hull, group.worth(solution.rate)
    fractions = [1.0 - solution.mix, solution.mix] if number == solution.mixed else [1.0]
    return GroupAssignment(
        group,
        tuple(
            AssignedPath(
                hull.paths[corner],
                fraction,
                hull.seconds[corner],
                hull.money[corner],
                remember(OptionValues, group.menu, _off_the_tie(hull, corner, worth)),
            )
            for corner, fraction in enumerate(fractions, level)
        ),
    )


def assign_at_rate(group: GroupDemand, rate: Rate, remember: Remember) -> GroupAssignment:
    """The group's best path at an exchange rate, whatever the path costs. This needs no hull."""
    values = remember(OptionValues, group.menu, group.worth(rate))
    best, path = values.newcomer(group.work)
    return GroupAssignment(group, (AssignedPath(path, 1.0, best.seconds, best.dollars, values),))


def _off_the_tie(hull: Hull, level: int, worth: float) -> float:
    """A worth of a second, next to ``worth``, at which the corner ``level`` is better than its neighbours."""
    least = hull.slopes[level - 1] * (1.0 + _NUDGE) if level else 0.0
    most = hull.slopes[level] * (1.0 - _NUDGE) if level < len(hull.slopes) else worth
    return (least + most) / 2 if least > most else min(max(worth, least), most)
