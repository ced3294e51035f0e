"""The frontier: completion time against dollars a period, as the planner itself would spend them.

In the long run a budget of A dollars a period of P seconds allows b = A / P. ``hull.solve`` gives the corner
of each group's hull at that rate, and with λ_i jobs a second of a_i seconds the mean completion time is Σ λ·a / Σ λ.
A dollar more saves 1 / θ seconds of (weighted) job life: that is what θ means, and a property test holds it to it.

λ_i is how often the group's jobs come; jobs in sight are no part of the long run (docs/theory/policy.md, section 5).
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

# The GPUs that jobs hold in the pools in the long run, and whether the pools have as many.


_FITS = 1.0 + 1e-9
"""Factor by which uses may exceed a pool's room, because numbers are rounded."""


def use_of(path: Path, seconds: float, group: GroupDemand) -> Mapping[PoolId, float]:
    """GPU-seconds by pool of a new job of the group that takes ``seconds`` on a path, as ``phase_dp`` charges it.

    Entering, restarts, and nodes that boot meanwhile are included.
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
    """GPUs by pool of all together."""
    total: dict[PoolId, float] = {}
    for use in uses:
        for pool, amount in use.items():
            _add(total, pool, amount)
    return total


def pools_hold(uses: Mapping[PoolId, float], solution: BudgetSolution) -> bool:
    """Whether the pools may have as many GPUs, all of them for the budget."""
    sizes = pool_sizes(solution.inputs.snapshot, solution.inputs.rentals)
    return all(amount <= sizes[pool].gpus * _FITS for pool, amount in uses.items() if pool in sizes)


def expected_use(uses: Iterable[tuple[float, Mapping[PoolId, float]]], load: float) -> dict[PoolId, float]:
    """GPUs by pool that are held by ``load`` jobs a second of which each fraction has its use."""
    total: dict[PoolId, float] = {}
    for fraction, use in uses:
        for pool, amount in use.items():
            _add(total, pool, load * fraction * amount)
    return total


# What a period's dollars are made of: dollars spent, of jobs in sight, and of jobs that are expected to come.


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """They add up to the forecast, if there is one. ``in_sight``: what the nodes of running and waiting
    jobs still cost, until they can be given back.

    ``assumed``: nothing tells yet how often jobs come, so that ``to_come`` is an assumption. ``jobs``: in sight.
    ``commitments``: what nodes will still cost that are paid for whether they are used or not.
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
    """The sums of a budget."""
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
"""Multiples of the amount that are shown: beyond four times most teams would ask another question."""

_EPSILON = 1.0 + 1e-9
"""Factor just above θ, where two corners tie, at which the faster one is taken."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A point: what ``amount`` dollars a period buy in the long run, ``factor`` times the budget's own amount.

    ``spend``: what is then spent of it (dollars a period). ``mean_seconds``: from submitting a job to its completion;
    None where jobs queue without end, because even the cheapest options are too dear. ``served``: the fraction of the
    load that the money is enough for. ``room``: whether pools have room for what jobs choose; the time is as if so.
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
        """Seconds of weighted job life that one more dollar saves; None while jobs queue, 0 where nothing is faster."""
        if self.fit is BudgetFit.INFEASIBLE:
            return None
        return 0.0 if self.fit is BudgetFit.SURPLUS or not self.rate else 1.0 / self.rate


class Frontier:
    """The frontier of one budget. Without any job in sight or expected it is ``empty``, and nothing may be asked.

    ``told``: whether it is worth telling, as it rests on jobs that came or are declared. Arrivals that are assumed
    follow from the amount, so that they say nothing of it.

    It asks the bills only. More money does not make pools larger: points say where they are too small. What commitments
    cost now is spent of every amount, before any job.
    """

    def __init__(self, solution: BudgetSolution, amount: Money | None = None) -> None:
        """``amount``: another than the budget's own, of which multiples are asked about."""
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
        """The same frontier, as seen from another amount."""
        return Frontier(self._solution, amount)

    @cached_property
    def cheapest(self) -> Money:
        """The smallest budget (a period) with which no job queues for money."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[0] for demand in self._demands))

    @cached_property
    def fastest(self) -> Money:
        """The budget (a period) above which a surplus stays unspent: every job has the fastest that there is for it."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[-1] for demand in self._demands))

    def at(self, amount: Money) -> FrontierPoint:
        """The point of that many dollars a period."""
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
        """Points at multiples of the budget's amount; of a zero budget, of the smallest one that suffices."""
        base = self.amount.micros or self.cheapest.micros
        return tuple(self.at(Money(round(base * factor))) for factor in factors)

    def amount_for(self, rate: Rate) -> Money:
        """The budget (a period) from which on a second is worth ``rate`` and whatever costs that much is bought."""
        return self._a_period(self._committed + spend_rate(self._demands, Rate(rate * _EPSILON)))

    def _fits(self, solution: Solution, served: float) -> bool:
        """Whether the pools have room for what is then held, by those who are served."""
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
    """Mean completion time of the jobs to come at what the budget pays now; None without jobs, or while they queue."""
    assignments = solution.assignments.values()
    load = sum(assignment.arrivals for assignment in assignments)
    if not load or not solution.feasible:
        return None
    return sum(assignment.arrivals * assignment.mean_seconds for assignment in assignments) / load


def _demands(solution: BudgetSolution) -> list[Demand]:
    """The groups as the planner's own solver sees them: as dear as they turned out to be."""
    calibration = solution.calibration
    return [
        assignment.group.demand(calibration.factor(key[0]), calibration.overhead)
        for key, assignment in solution.assignments.items()
    ]


def period_seconds(solution: BudgetSolution) -> float:
    """Seconds of the budget's present period; of its grant, also before and after it."""
    calendar = solution.budget.calendar
    if calendar.grant is not None:
        return calendar.usual_seconds
    return seconds_between(*calendar.bounds(after(solution.period_end, -1.0)))


def seconds_at(found: Solution, at: int, group: GroupDemand) -> float:
    """Expected seconds of a new job of the group, which is class ``at`` of what was solved."""
    return sum(fraction * group.hull.seconds[corner] for fraction, corner in _corners(found, at))


def use_at(found: Solution, at: int, group: GroupDemand, load: float) -> Mapping[PoolId, float]:
    """GPUs by pool that ``load`` jobs a second of that group hold."""
    hull = group.hull
    uses = (
        (fraction, use_of(hull.paths[corner], hull.seconds[corner], group)) for fraction, corner in _corners(found, at)
    )
    return expected_use(uses, load)


def _corners(found: Solution, at: int) -> list[tuple[float, int]]:
    """The corners of its hull that class ``at`` takes, each with the fraction of jobs that do."""
    level, mix = found.levels[at], found.mix if at == found.mixed else 0.0
    return [(1.0 - mix, level), (mix, level + 1)] if mix else [(1.0, level)]


# The worth of each kind of capacity: the cost of the same jobs without it, if they were to be as fast.
#
# The jobs are those that the budget pays for now: λ_i jobs a second of each group. Without a kind they are solved
# again, with the pools of that kind left out, for the smallest spend at which the (weighted) mean completion time
# is the same. Variants are a kind, too: without them, jobs train as their templates say. The mean completion time
# falls as the spend grows, so that spend is found by halving (``hull.solve``). Where no spend is enough,
# they are solved for what the budget would spend on them: its amount, or what it spends now.


SPOT = "spot"
"""The kind of all pools whose machines the cloud may take back."""
SLICES, SHARED = "slices", "shared GPUs"
"""The kinds of all pools whose GPUs are cut, and of those whose GPUs several jobs use at once."""
VARIANTS = "variants"
"""The kind of all options in which a job does not train as its template says. It has no pools of its own."""
_HALVINGS = 40
"""Halvings of the range of spends: exact to eleven digits."""
_EQUAL = 1.0 + 1e-9
"""Factor within which two mean completion times are equal."""


@dataclass(frozen=True, slots=True)
class WithoutKind:
    """A budget without ``pools``, all of a ``kind`` (spot, slices, shared GPUs, a GPU type); it has ``others`` more.

    Or without ``variants``: then there are no such pools.

    ``more``: dollars a period that the same jobs would cost beyond ``now``, what they cost with all kinds, if they were
    as fast; None where they could not be, at any cost or because the other pools lack ``room``. ``slower``: how many
    times as long they would take on average at the budget's amount, for ``more_then`` dollars a period beyond ``now``;
    1 where they could be as fast, and None where they would queue, because even the cheapest options left cost more.
    ``impossible``: jobs a second of groups that no other pool can run at all, or of whose template no speed is known.
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
    """A group's jobs: ``arrivals`` a second. ``factor``: dollars paid for each dollar predicted.

    ``held``: seconds for which they hold GPUs for each one predicted.
    """

    arrivals: float
    factor: float
    held: float


def without_each_kind(solution: BudgetSolution) -> tuple[WithoutKind, ...]:
    """The cost of the budget's jobs without each kind of capacity that it may rent, the dearest loss first.

    Only kinds that leave something: with a single kind there is nothing to compare. Empty while jobs queue.
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
    """The kinds of the pools, each with its pools and the number of others; none that has no others."""
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
    """``menus``: those without the kind."""
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
    """The jobs that the pools left can run, solved for any spend: dollars a second, from ``least`` to ``most``."""

    def __init__(self, jobs: Sequence[tuple[GroupDemand, _Load]]) -> None:
        self._jobs = jobs
        self._demands = [
            Demand(group.hull.slopes, group.hull.money, load.arrivals * load.factor, group.weight, group.most)
            for group, load in jobs
        ]
        self.least = sum(demand.load * demand.spends[0] for demand in self._demands)
        self.most = sum(demand.load * demand.spends[-1] for demand in self._demands)

    def life(self, spend: float) -> float:
        """Weighted seconds of jobs' lives that begin in a second."""
        found = solve(self._demands, spend)
        return sum(
            load.arrivals * group.weight * seconds_at(found, at, group) for at, (group, load) in enumerate(self._jobs)
        )

    def least_spend(self, life: float) -> float:
        """The smallest spend at which no more weighted seconds begin in a second."""
        if self.life(self.least) <= life:
            return self.least
        return bisect(self.least, self.most, lambda spend: self.life(spend) <= life, _HALVINGS)[1]

    def uses(self, spend: float) -> Mapping[PoolId, float]:
        """GPUs by pool that the jobs hold."""
        found = solve(self._demands, spend)
        return sum_uses(
            use_at(found, at, group, load.arrivals * load.held) for at, (group, load) in enumerate(self._jobs)
        )
