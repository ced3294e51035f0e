"""The frontier: mean completion time as a function of dollars per period, if the planner spends the dollars.

In the long run a budget of A dollars per period of P seconds allows b = A / P dollars per second. ``hull.solve``
returns the corner of each group's hull at that rate. With λ_i jobs per second of a_i seconds each, the mean completion
time is Σ λ·a / Σ λ. By the definition of θ, one more dollar saves 1 / θ seconds of weighted job life. A property test
checks this.

λ_i is the arrival rate of group i. Jobs in sight do not count in the long run (docs/theory/policy.md, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import ZERO, Money
from charterer.domain.plan import BudgetVerdict
from charterer.domain.pool import CapacityType, Offering, Pool
from charterer.domain.time import after, seconds_between
from charterer.gpu_types import is_shared, slice_profile
from charterer.policy.budgets.demand import GroupDemand, budget_load
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import GroupKey
from charterer.policy.nodes.pool_room import pool_sizes
from charterer.policy.options.menu import Menus
from charterer.policy.solve.hull import BudgetFit, Demand, Path, Solution, bisect, solve, spend_rate
from charterer.policy.solve.phase_dp import key_of, work_of_phases

# GPUs that jobs hold in each pool in the long run, compared with the pool's size.


_FITS = 1.0 + 1e-9
"""Factor by which the use may exceed a pool's room. It allows for rounding errors."""


def use_of(path: Path, seconds: float, group: GroupDemand) -> Mapping[PoolId, float]:
    """Return the GPU-seconds by pool of a new job that takes ``seconds`` on a path, as ``phase_dp`` charges them.

    The GPU-seconds include entering, restarts and the start of nodes.
    """
    first = path[0]
    if len(path) == 1:
        return {first.pool: first.takes * seconds}
    table, use, here = group.menu.table, {first.pool: first.takes * first.entry_seconds}, first
    for work, there in zip(work_of_phases(group.menu.until, group.work), path, strict=True):
        took = work / there.speed
        if key_of(there) != key_of(here):
            at = table.index[key_of(there)]
            took += table.change_seconds(table.resizable_pool(here), at)
            more = max(there.takes - (here.takes if there.pool == here.pool else 0), 0)
            _add(use, there.pool, more * table.start_seconds[at])
        _add(use, there.pool, there.takes * took)
        here = there
    return use


def _add(use: dict[PoolId, float], pool: PoolId, amount: float) -> None:
    use[pool] = use.get(pool, 0.0) + amount


def sum_uses(uses: Iterable[Mapping[PoolId, float]]) -> dict[PoolId, float]:
    """Sum the GPUs of several uses by pool."""
    total: dict[PoolId, float] = {}
    for use in uses:
        for pool, amount in use.items():
            _add(total, pool, amount)
    return total


def pools_hold(uses: Mapping[PoolId, float], solution: BudgetSolution) -> bool:
    """Return whether the pools can have this many GPUs, if this budget alone gets all of them."""
    sizes = pool_sizes(solution.inputs.snapshot, solution.inputs.rentals)
    return all(amount <= sizes[pool].gpus * _FITS for pool, amount in uses.items() if pool in sizes)


def expected_use(uses: Iterable[tuple[float, Mapping[PoolId, float]]], load: float) -> dict[PoolId, float]:
    """Return the GPUs by pool that ``load`` jobs per second hold.

    ``uses`` has pairs of a fraction of jobs and their use.
    """
    total: dict[PoolId, float] = {}
    for fraction, use in uses:
        for pool, amount in use.items():
            _add(total, pool, load * fraction * amount)
    return total


# The parts of a period's dollars: spent, for jobs in sight, and for jobs expected to come.


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """The parts of a period's dollars. If there is a forecast, the parts add up to it.

    ``in_sight`` is the future cost of the nodes of running and waiting jobs, until these nodes can be released.
    ``jobs`` counts these jobs. If ``assumed`` is true, the arrival rate is unknown and ``to_come`` is an assumption.
    ``commitments`` is the future cost of nodes that are billed whether used or not.
    """

    spent: Money
    in_sight: Money
    to_come: Money
    assumed: bool
    jobs: int
    commitments: Money = ZERO

    @property
    def without_more_jobs(self) -> Money:
        """The period's dollars if no other job comes."""
        return self.spent + self.in_sight + self.commitments


def period_sums(verdict: BudgetVerdict) -> PeriodSums:
    """Return the sums of a budget."""
    arrivals = verdict.arrivals
    return PeriodSums(
        spent=verdict.spent,
        in_sight=verdict.in_sight,
        to_come=verdict.to_come,
        assumed=arrivals.assumed,
        jobs=arrivals.jobs,
        commitments=verdict.commitments,
    )


FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of the amount that are shown."""

_EPSILON = 1.0 + 1e-9
"""Factor on θ. At θ itself two corners cost the same, and slightly above θ the faster corner wins."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """What ``amount`` dollars per period buy in the long run. The amount is ``factor`` times the budget's own amount.

    ``spend`` is the part of the amount that jobs use, in dollars per period. ``mean_seconds`` is the time from
    submission to completion. It is None if even the cheapest options cost too much, so that the queue grows without
    bound. ``served`` is the fraction of the load that the amount pays for. ``room`` says whether the pools are large
    enough for the jobs' choices. ``mean_seconds`` assumes that they are.
    """

    factor: float
    amount: Money
    spend: Money
    rate: Rate
    fit: BudgetFit
    mean_seconds: float | None
    served: float
    room: bool

    @property
    def seconds_per_dollar(self) -> float | None:
        """Seconds of weighted job life that one more dollar saves. None if jobs queue, 0 if nothing is faster."""
        if self.fit is BudgetFit.INFEASIBLE:
            return None
        return 0.0 if self.fit is BudgetFit.SURPLUS or not self.rate else 1.0 / self.rate


class Frontier:
    """The frontier of one budget. ``empty`` means that no jobs are in sight or expected. An empty frontier has no
    points.

    ``told`` says whether the arrivals are measured or declared. Otherwise they are assumed. Assumed arrivals are
    derived from the amount, so a frontier from them has no information.

    The frontier follows from costs only. More money does not enlarge pools, so each point says whether the pools are
    too small. The present cost of commitments is subtracted from every amount.
    """

    def __init__(self, solution: BudgetSolution, amount: Money | None = None) -> None:
        """Factors are multiples of ``amount``. If ``amount`` is None, they are multiples of the budget's own amount."""
        solution = solution.in_the_long_run()
        self._solution = solution
        self.amount = solution.budget.amount if amount is None else amount
        self.period_seconds = period_seconds(solution)
        self.a_period = f"a {solution.budget.calendar.word}"
        self._demands = _demands(solution)
        self._most = sum(demand.load * demand.spends[-1] for demand in self._demands)
        self._arrivals = sum(assignment.arrivals for assignment in solution.assignments.values())
        self.empty = not self._arrivals
        self.told = not self.empty and not solution.arrivals_verdict().assumed
        self._committed = sum([rate for rate, _ in solution.pacing.commitments])

    def of_amount(self, amount: Money) -> Frontier:
        """Return the same frontier with another base amount."""
        return Frontier(self._solution, amount)

    @cached_property
    def cheapest(self) -> Money:
        """The smallest amount per period with which no job waits for money."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[0] for demand in self._demands))

    @cached_property
    def fastest(self) -> Money:
        """The amount per period above which money stays unspent, because every job has its fastest option."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[-1] for demand in self._demands))

    def at(self, amount: Money) -> FrontierPoint:
        """Return the point of this many dollars per period."""
        allowed = amount.dollars / self.period_seconds - self._committed
        factor = amount.dollars / self.amount.dollars if self.amount.dollars else 0.0
        solution = solve(self._demands, allowed)
        feasible = solution.fit is not BudgetFit.INFEASIBLE
        served = 1.0 if feasible else max(allowed, 0.0) / solution.spend
        return FrontierPoint(
            factor=factor,
            amount=amount,
            spend=self._a_period(self._committed + max(min(solution.spend, allowed), 0.0)),
            rate=solution.rate,
            fit=solution.fit,
            mean_seconds=self._mean_seconds(solution) if feasible else None,
            served=served,
            room=self._fits(solution, served),
        )

    def times(self, factors: Sequence[float] = FACTORS) -> tuple[FrontierPoint, ...]:
        """Return points at multiples of the amount, or for an amount of zero at multiples of ``cheapest``."""
        base = self.amount.micros or self.cheapest.micros
        return tuple(self.at(Money(round(base * factor))) for factor in factors)

    def amount_for(self, rate: Rate) -> Money:
        """Return the least amount per period at which the budget pays ``rate`` dollars for a second saved."""
        return self._a_period(self._committed + spend_rate(self._demands, Rate(rate * _EPSILON)))

    def _fits(self, solution: Solution, served: float) -> bool:
        """Return whether the pools have room for the GPUs that the served jobs hold."""
        uses = [
            use_at(
                solution,
                at,
                assignment.group,
                assignment.arrivals * self._solution.calibration.of(key[0]).value * served,
            )
            for at, (key, assignment) in enumerate(self._solution.assignments.items())
        ]
        return pools_hold(sum_uses(uses), self._solution)

    def _mean_seconds(self, solution: Solution) -> float:
        assignments = enumerate(self._solution.assignments.values())
        whole = sum(assignment.arrivals * seconds_at(solution, at, assignment.group) for at, assignment in assignments)
        return whole / self._arrivals

    def _a_period(self, dollars_a_second: float) -> Money:
        return Money.of(dollars_a_second * self.period_seconds)


def mean_seconds(solution: BudgetSolution) -> float | None:
    """Return the mean completion time of future jobs at the present rate. None without jobs, or if jobs queue."""
    assignments = solution.assignments.values()
    load = sum(assignment.arrivals for assignment in assignments)
    if not load or not solution.feasible:
        return None
    return sum(assignment.arrivals * assignment.mean_seconds for assignment in assignments) / load


def _demands(solution: BudgetSolution) -> list[Demand]:
    """Return the groups' demands with the cost factors that the planner's solver uses."""
    calibration = solution.calibration
    return [
        assignment.group.demand(calibration.factor(key[0]), calibration.overhead)
        for key, assignment in solution.assignments.items()
    ]


def period_seconds(solution: BudgetSolution) -> float:
    """Return the seconds of the budget's present period. If the budget has a grant, return the grant's seconds, even
    outside of the grant.
    """
    calendar = solution.budget.calendar
    if calendar.grant is not None:
        return calendar.usual_seconds
    return seconds_between(*calendar.bounds(after(solution.period_end, -1.0)))


def seconds_at(found: Solution, at: int, group: GroupDemand) -> float:
    """Return the expected seconds of a new job of the group. ``at`` is the group's index in the solution."""
    return sum(fraction * group.hull.seconds[corner] for fraction, corner in _corners(found, at))


def use_at(found: Solution, at: int, group: GroupDemand, load: float) -> Mapping[PoolId, float]:
    """Return the GPUs by pool that ``load`` jobs per second of the group hold."""
    hull = group.hull
    uses = (
        (fraction, use_of(hull.paths[corner], hull.seconds[corner], group)) for fraction, corner in _corners(found, at)
    )
    return expected_use(uses, load)


def _corners(found: Solution, at: int) -> list[tuple[float, int]]:
    """Return the hull corners of the class with index ``at``, each with the fraction of jobs that take it."""
    level, mix = found.levels[at], found.mix if at == found.mixed else 0.0
    return [(1.0 - mix, level), (mix, level + 1)] if mix else [(1.0, level)]


# The worth of each kind of capacity: how much more the same jobs would cost at the same speed without the kind.
#
# The jobs are those that the budget pays for now: λ_i jobs per second of each group. For each kind the solver runs
# again without the kind's pools. It searches the smallest spend with the same weighted mean completion time. The time
# falls as the spend grows, so the search is a bisection (``hull.solve``). If no spend is enough, the solver gets the
# larger of the budget's amount and its present spend. Variants are a kind too: without variants, jobs train as their
# templates say.


SPOT = "spot"
"""The kind of all pools whose machines the cloud may take back."""
SLICES, SHARED = "slices", "shared GPUs"
"""The kinds of all pools with GPUs cut into slices, and of all pools with GPUs that several jobs share."""
VARIANTS = "variants"
"""The kind of all options with a variant of the job's template. This kind has no pools."""
_HALVINGS = 40
"""Steps of the bisection over spends. 40 steps give eleven digits."""
_EQUAL = 1.0 + 1e-9
"""Factor within which two mean completion times count as equal."""


@dataclass(frozen=True, slots=True)
class WithoutKind:
    """The worth of a ``kind`` of capacity: spot, slices, shared GPUs, variants or a GPU type.

    ``pools`` are the kind's pools, empty for variants. ``others`` counts the budget's other pools. ``now`` is the
    present cost of the jobs with all kinds, in dollars per period. ``more`` is the extra cost of the same jobs at the
    same speed without the kind. ``more`` is None if the jobs could not be as fast at any cost, or if the other pools
    lack ``room``.

    ``slower`` is the factor by which the mean completion time grows at the budget's amount. It is 1 if the jobs could
    be as fast. It is None if the jobs would queue, because the cheapest options that are left cost too much.
    ``more_then`` is the extra cost in this case. ``impossible`` is the jobs per second that no other pool can run, or
    whose template has no known speed.
    """

    kind: str
    pools: tuple[PoolId, ...]
    others: int
    now: Money
    more: Money | None
    slower: float | None
    more_then: Money
    room: bool
    impossible: float


@dataclass(frozen=True, slots=True)
class _Load:
    """The load of a group: ``arrivals`` jobs per second. ``factor`` is dollars paid per dollar predicted.

    ``held`` is seconds for which jobs hold GPUs per second predicted.
    """

    arrivals: float
    factor: float
    held: float


def without_each_kind(solution: BudgetSolution) -> tuple[WithoutKind, ...]:
    """Return the worth of each kind of capacity that the budget may rent. The kind with the largest worth is first.

    A kind is omitted if no pool is left without it. The result is empty if jobs queue.
    """
    solution = solution.in_the_long_run()
    assignments = solution.assignments
    if not assignments or not solution.feasible:
        return ()
    loads = {
        key: _Load(
            assignment.arrivals,
            solution.calibration.factor(key[0]),
            solution.calibration.of(key[0]).value,
        )
        for key, assignment in assignments.items()
    }
    menus, open_pools = solution.inputs.menus[solution.budget.id], _open_pools(solution)
    found = [
        _without(kind, pools, others, menus.without(pools), solution, loads)
        for kind, pools, others in _kinds(open_pools)
    ]
    if any(option.variant for assignment in assignments.values() for option in assignment.group.menu.options):
        found.append(_without(VARIANTS, (), len(open_pools), menus.without_variants(), solution, loads))
    return tuple(sorted(found, key=lambda lost: (lost.more is not None, -(lost.more or lost.now).micros, lost.kind)))


def _open_pools(solution: BudgetSolution) -> Mapping[PoolId, tuple[Pool, Offering]]:
    pools = solution.inputs.snapshot.pools_of(solution.budget).values()
    return {
        pool.id: (pool, pool.offering)
        for pool in pools
        if pool.offering is not None and pool.quote is not None and not pool.closed_because
    }


def _kinds(pools: Mapping[PoolId, tuple[Pool, Offering]]) -> list[tuple[str, tuple[PoolId, ...], int]]:
    """Return each kind with its pools and the number of other pools. A kind without other pools is omitted."""
    of_kind: dict[str, list[PoolId]] = {}
    for pool, offering in pools.values():
        of_kind.setdefault(_kind_of_gpus(offering.gpu_type), []).append(pool.id)
        if pool.capacity_type is CapacityType.SPOT:
            of_kind.setdefault(SPOT, []).append(pool.id)
    number = len(pools)
    return [(kind, tuple(sorted(names)), number - len(names)) for kind, names in of_kind.items() if len(names) < number]


def _kind_of_gpus(gpu_type: str) -> str:
    profile = slice_profile(gpu_type)
    if not profile:
        return gpu_type
    return SHARED if is_shared(profile) else SLICES


def _without(
    kind: str,
    pools: tuple[PoolId, ...],
    others: int,
    menus: Menus,
    solution: BudgetSolution,
    loads: Mapping[GroupKey, _Load],
) -> WithoutKind:
    """Compute the worth of a kind. ``menus`` are the options without the kind."""
    snapshot, budget = solution.inputs.snapshot, solution.budget
    left = budget_load(solution.groups, snapshot.profiles, menus, budget, solution.pacing.horizon, solution.now)
    known = {key: assignment.group.menu.known for key, assignment in solution.assignments.items()}
    groups = {
        key: group.in_the_long_run()
        for key, group in left.groups.items()
        if key in loads and (kind != VARIANTS or group.menu.known or not known[key])
    }
    present = [(solution.assignments[key], loads[key]) for key in groups]
    now = sum(load.arrivals * load.factor * assignment.mean_dollars for assignment, load in present)
    life = sum(load.arrivals * assignment.group.weight * assignment.mean_seconds for assignment, load in present)
    remaining = _RemainingPools([(group, loads[key]) for key, group in groups.items()])
    period = period_seconds(solution)
    as_fast = remaining.life(remaining.most) <= life * _EQUAL
    slower: float | None = 1.0
    if as_fast:
        spend = remaining.least_spend(life * _EQUAL)
    else:
        spend = min(max(now, budget.amount.dollars / period), remaining.most)
        slower = remaining.life(spend) / life if spend >= remaining.least else None
    room = pools_hold(remaining.uses(spend), solution)
    return WithoutKind(
        kind=kind,
        pools=pools,
        others=others,
        now=Money.of(now * period),
        more=Money.of(max(spend - now, 0.0) * period) if as_fast and room else None,
        slower=slower,
        more_then=Money.of((spend - now) * period),
        room=room,
        impossible=sum(load.arrivals for key, load in loads.items() if key not in groups),
    )


class _RemainingPools:
    """Solves the jobs that the remaining pools can run, for spends from ``least`` to ``most`` dollars per second."""

    def __init__(self, jobs: Sequence[tuple[GroupDemand, _Load]]) -> None:
        self._jobs = jobs
        self._demands = [
            Demand(group.hull.slopes, group.hull.money, load.arrivals * load.factor, group.weight, group.most)
            for group, load in jobs
        ]
        self.least = sum(demand.load * demand.spends[0] for demand in self._demands)
        self.most = sum(demand.load * demand.spends[-1] for demand in self._demands)

    def life(self, spend: float) -> float:
        """Return the weighted completion seconds of the jobs that arrive in one second."""
        found = solve(self._demands, spend)
        return sum(
            load.arrivals * group.weight * seconds_at(found, at, group) for at, (group, load) in enumerate(self._jobs)
        )

    def least_spend(self, life: float) -> float:
        """Return the smallest spend at which ``self.life(spend)`` is at most ``life``."""
        if self.life(self.least) <= life:
            return self.least
        return bisect(self.least, self.most, lambda spend: self.life(spend) <= life, _HALVINGS)[1]

    def uses(self, spend: float) -> Mapping[PoolId, float]:
        """Return the GPUs by pool that the jobs hold."""
        found = solve(self._demands, spend)
        return sum_uses(
            use_at(found, at, group, load.arrivals * load.held) for at, (group, load) in enumerate(self._jobs)
        )
