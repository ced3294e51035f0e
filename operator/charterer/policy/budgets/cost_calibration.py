"""κ, the cost factor: dollars that a class's jobs really cost for each dollar that was predicted.

    κ = (Σ actual + 3·m) / (Σ predicted + 3·m)

over finished jobs, which fade, and those under way at their committed cost. m is the mean prediction: the prior is
three jobs that cost what was predicted. κ contains everything that makes a class dearer than its curves say (wrong
exponents, restarts, sizes), and Σ λ·κ·m(θ) is what will really be spent. Jobs under way count with all that they will
cost, also while they wait for other GPUs: otherwise short jobs would be counted first, and a move would change κ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt

from charterer.domain.budget import Budget, Cause, ClassHistory
from charterer.domain.ids import ClassId, PoolId, RentalId
from charterer.domain.money import Money, Price, total
from charterer.domain.time import Instant
from charterer.policy.jobs.committed_cost import NOTHING, CommittedCost
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.nodes.rental_index import PoolRentals

PSEUDO_JOBS = 3.0
"""Jobs that cost what was predicted, as the prior of κ."""
PRIOR_SQUARED_CV = 4.0
"""Squared coefficient of variation of dollars per job, before a class shows its own. In the Philly trace the GPU-time
of a virtual cluster's jobs has a coefficient of variation of 1.3 to 3.3 in the even ones (7 of 11); a single class is
more even than a team, hence 2."""
SPREAD_JOBS = 30.0
"""Weight of that prior in jobs, and of all classes together against a single one. A sample's variance is off by the
factor √((kurtosis − 1) / n), which at such coefficients (lognormal: kurtosis 100 and more) takes a hundred jobs to
become 1; most samples of a dozen have not seen the jobs that make it."""
_OVERHEAD_PRIOR_SECONDS = 3 * 3600.0
"""Seconds for which the budget's money, or a node, are taken to have been paid without overhead, beside what was paid:
many times what a node takes to start. These dollars depend on no decision: a plan leaves the overhead as it was."""
_MOST_OVERHEAD = 2.0
"""Bound of the overhead. If more is paid for nodes that no job holds, something is broken; smaller jobs do not help."""


@dataclass(frozen=True, slots=True)
class CostFactor:
    """``value`` is κ; ``jobs``: how many it rests on, pseudo-jobs included; ``squared_cv``: of dollars per job."""

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
    """κ of one class; running jobs without a prediction do not count. ``usual_squared_cv``: of all classes."""
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
    """That of actual ÷ predicted cost, weighted by dollars, over finished jobs and ``SPREAD_JOBS`` of the ``prior``."""
    jobs, total = SPREAD_JOBS, SPREAD_JOBS * prior
    for history in classes:
        if history.actual > 0 and history.predicted > 0:
            jobs += history.jobs
            total += history.jobs * max(history.squares * history.predicted / history.actual**2 - 1.0, 0.0)
    return total / jobs


# --- of all classes of a budget ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostCalibration:
    """Cost factors of a budget's classes, and what its running jobs are still committed to.

    ``finished``: cost factors by finished jobs alone; what a silent running job still costs is predicted by them.
    ``overhead``: dollars paid for nodes ÷ dollars of GPUs that jobs held: starting and idle ones are paid too.
    ``overhead_measured``: whether more of that was paid than is assumed to have been paid without any (three hours).
    ``rate``: dollars a second that nodes with jobs cost now; ``left``: dollars that those jobs will still cost,
    ``spread`` the standard deviation of that. Nodes that boot for jobs still waiting are in neither: otherwise
    renting one would change the rate it was rented at, and the next plan, a moment later, would release it.
    """

    cost_factors: Mapping[ClassId, CostFactor]
    finished: Mapping[ClassId, CostFactor]
    overhead: float
    overhead_measured: bool
    rate: float
    left: float
    spread: float

    def of(self, class_id: ClassId) -> CostFactor:
        """κ of a class; the prior for one never seen."""
        return self.cost_factors.get(class_id, NOTHING_KNOWN)

    def of_finished(self, class_id: ClassId) -> CostFactor:
        """κ of a class by its finished jobs alone; the prior where none has finished."""
        return self.finished.get(class_id, NOTHING_KNOWN)

    def factor(self, class_id: ClassId) -> float:
        """Dollars paid for each dollar predicted."""
        return self.of(class_id).value * self.overhead


def calibrate(
    budget: Budget,
    groups: Iterable[JobGroup],
    rentals: Iterable[PoolRentals],
    paid: Money,
    steady: Price,
    now: Instant,
    prepaid: frozenset[PoolId] = frozenset(),
) -> CostCalibration:
    """From the balance's history and the jobs in sight.

    ``rentals``: those whose bill depends on jobs. ``paid``: all that was ever paid, running rentals included, but for
    what nodes that are there cost before they took pods: their jobs are to come, and have a start-up in their costs.
    ``steady``: what spends the aim evenly, or the price of the dearest node where that is more. ``prepaid``: pools
    whose nodes are or were paid for whether they are used or not: their idle hours are no overhead of jobs.
    """
    balance = budget.balance
    known: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    usual = usual_squared_cv(known.values())
    learned = {class_id: cost_factor(history, NOTHING, usual) for class_id, history in known.items()}
    running: dict[ClassId, CommittedCost] = {}
    held = 0.0 if balance is None else balance.jobs_cost.dollars
    used: set[RentalId] = set()
    for group in groups:
        used |= group.working
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
        finished=learned,
        overhead=_overhead(max(paid.dollars, 0.0), max(held, 0.0), prior),
        overhead_measured=held > 0.0 and paid.dollars > prior,
        rate=Price(
            sum([price for pool in rentals for name, price in pool.billed.items() if name in used])
        ).dollars_per_second,
        left=sum(committed.left for committed in running.values()),
        spread=sqrt(
            sum(cost_factors[class_id].squared_cv * committed.squares for class_id, committed in running.items())
        ),
    )


def _overhead(paid: float, held: float, prior: float) -> float:
    """Dollars paid per dollar held, drawn to 1 by ``prior`` dollars paid without overhead."""
    return min(max((paid + prior) / (held + prior), 1.0), _MOST_OVERHEAD) if held + prior > 0 else 1.0


def unavoidable_cost(groups: Iterable[JobGroup], seconds: float) -> float:
    """Dollars that running jobs will spend in that time whatever is planned, if no hard limit stops them."""
    lefts = [
        (facts.reported or 0.0, facts.price) for group in groups for facts in group.unchanging if not facts.prepaid
    ]
    return sum([min(left, price * seconds) for left, price in lefts])
