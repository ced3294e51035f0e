"""How a budget stands: what it spent, what it may spend, and what each group of its jobs is given for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

from charterer.domain.budget import Budget
from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.period import period_bounds, period_end
from charterer.domain.plan import BudgetVerdict, ClassVerdict, PathVerdict, PoolVerdict, Reason
from charterer.domain.time import Instant
from charterer.incremental import Remember
from charterer.policy.budgets import forecast_inputs
from charterer.policy.budgets.cost_calibration import CostCalibration, calibrate, corrected
from charterer.policy.budgets.deadline import DeadlineNeed, deadline_need
from charterer.policy.budgets.demand import GroupDemand, group_demands
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.budgets.pacing import PacingState, allowed_rate, pacing_state
from charterer.policy.budgets.spend_forecast import Forecast
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import job_position
from charterer.policy.nodes.accrued_cost import spent
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.exchange_rate import BudgetFit, Solution, solve
from charterer.policy.solve.hull import Hull, Path

_NUDGE = 1e-6
"""Where two corners tie at θ*, a second is worth so much more or less to the jobs that are to take the one or other."""


@dataclass(frozen=True, slots=True)
class PathShare:
    """A path that the part ``part`` of a group's jobs takes. ``seconds`` and ``dollars``: of a new job on it.

    ``prospects``: the menu at θ*, as those jobs see it.
    """

    path: Path
    part: float
    seconds: float
    dollars: float
    prospects: OptionValues


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """What a group is given: one of ``lots``, the cheapest first; more than one where it mixes."""

    group: GroupDemand
    lots: tuple[PathShare, ...]

    @property
    def mixes(self) -> bool:
        """Whether not all of its jobs are given the same."""
        return len(self.lots) > 1

    @property
    def path(self) -> Path:
        """The cheapest lot's."""
        return self.lots[0].path

    @property
    def seconds(self) -> float:
        """The cheapest lot's."""
        return self.lots[0].seconds

    @property
    def dollars(self) -> float:
        """The cheapest lot's."""
        return self.lots[0].dollars

    @property
    def prospects(self) -> OptionValues:
        """The cheapest lot's."""
        return self.lots[0].prospects

    @property
    def arrivals(self) -> float:
        """Jobs a second; of jobs in sight what Little's law gives."""
        return self.group.active / self.seconds if self.group.arrivals is None else self.group.arrivals

    @property
    def spend(self) -> float:
        """Dollars a second in the long run, if all its jobs take ``path``."""
        return self.arrivals * self.dollars

    def position(self, job: Job) -> JobPosition:
        """Where the job is, by what it reported; at its class's mean size where it says nothing."""
        return job_position(job, self.group.work)

    def by_lot(self, job: Job) -> OptionValues:
        """The prospects of a job whose path does not show which lot it took: by its uid, always the same."""
        return draw_path(job, self.lots).prospects if self.mixes else self.prospects


def draw_path(job: Job, lots: Sequence[PathShare]) -> PathShare:
    """One of the lots by the job's uid, always the same; the first of them as often as none of the others."""
    draw = crc32(job.id.encode()) / 2**32 * sum(lot.part for lot in lots)
    for lot in reversed(lots[1:]):
        if draw < lot.part:
            return lot
        draw -= lot.part
    return lots[0]


@dataclass(frozen=True, slots=True)
class ScarcePool:
    """A pool that is too small. ``price``: what its GPU-second is worth in the budget's own dollars.

    ``until``: when it may be larger again without anybody's doing; None if never.
    """

    price: float
    verdict: PoolVerdict
    until: Instant | None


@dataclass(frozen=True, slots=True)
class BudgetSolution:
    """One budget at one instant. ``allowed`` and ``planned`` are dollars a second; ``rate`` is θ*.

    ``money``: the account that ``allowed`` comes from. ``reckoning``: what its jobs teach of their cost. ``forecast``:
    of the period's spend. ``room``: GPUs that other budgets leave it, by pool; ``scarce``: the pools that have a price
    (both by ``crowding``). ``deadline_need``: the jobs that have a target before them.
    """

    budget: Budget
    inputs: PlanInputs
    groups: Mapping[GroupKey, JobGroup]
    nodes: Mapping[PoolId, PoolNodes]
    now: Instant
    spent: Money
    period_end: Instant
    allowed: float
    planned: float
    rate: Rate
    feasible: bool
    shares: Mapping[GroupKey, GroupAssignment]
    money: PacingState
    reckoning: CostCalibration
    forecast: Forecast
    room: Mapping[PoolId, float] = field(default_factory=dict)
    scarce: Mapping[PoolId, ScarcePool] = field(default_factory=dict)
    pressed: Mapping[JobId, DeadlineNeed] = field(default_factory=dict)

    def own(self, job: Job) -> OptionValues | None:
        """The prospects of a job whose target takes more than its group is given; None of any other."""
        pressed = self.pressed.get(job.id)
        share = None if pressed is None else self.share(job)
        if pressed is None or share is None or pressed.worth <= share.prospects.worth:
            return None
        return self.inputs.memo(OptionValues, share.group.menu, pressed.worth, None)

    def noted(self, job: Job, why: Reason) -> Reason:
        """The reason, with what is to be said of the job's target."""
        pressed = self.pressed.get(job.id)
        return why if pressed is None else replace(why, message=f"{why.message}; {pressed.note(self.now)}")

    def share(self, job: Job) -> GroupAssignment | None:
        """What the job's group is given; None when nothing is on its menu."""
        return self.shares.get(self.key(job))

    def key(self, job: Job) -> GroupKey:
        """The group to which a job of the snapshot belongs."""
        return self.inputs.facts[job.id].key

    def classes(self) -> tuple[ClassVerdict, ...]:
        """The shares as they are reported."""
        return tuple(_class_verdict(self.budget, share) for share in self.shares.values())

    def verdict(self, committed: Money, now: Instant) -> BudgetVerdict:
        """The budget's verdict."""
        return BudgetVerdict(
            rate=self.rate,
            planned=Price.per_second(self.planned),
            allowed=Price.per_second(self.allowed),
            feasible=self.feasible,
            spent=self.spent,
            committed=committed,
            forecast=Money.of(self.forecast.expected),
            forecast_low=Money.of(self.forecast.low),
            forecast_high=Money.of(self.forecast.high),
        )


def _class_verdict(budget: Budget, share: GroupAssignment) -> ClassVerdict:
    group = share.group
    return ClassVerdict(
        budget=budget.id,
        class_id=group.class_id,
        arrivals_per_hour=share.arrivals * 3600.0,
        mean_work=group.work,
        paths=tuple(PathVerdict(lot.part, lot.prospects.stages(lot.path)) for lot in share.lots),
        seconds=share.seconds,
        cost=Money.of(share.dollars),
    )


def _of_this_period(budget: Budget, now: Instant) -> Budget:
    """The budget without a balance that is of a period already over: for moments, until the new one is opened.

    Else last month's spend would be held against the new month, and jobs would be moved for it.
    """
    balance = budget.balance
    over = balance is not None and period_end(budget.time_zone, balance.period_start) <= now
    return replace(budget, balance=None) if over else budget


def _inside(hull: Hull, level: int, worth: float) -> float:
    """A worth of a second, next to ``worth``, at which the corner ``level`` is better than its neighbours."""
    least = hull.slopes[level - 1] * (1.0 + _NUDGE) if level else 0.0
    most = hull.slopes[level] * (1.0 - _NUDGE) if level < len(hull.slopes) else worth
    return (least + most) / 2 if least > most else min(max(worth, least), most)


def _share(group: GroupDemand, solution: Solution, at: int, remember: Remember) -> GroupAssignment:
    """What the solution gives the group, which is its class number ``at``."""
    level, hull, worth = solution.levels[at], group.hull, solution.rate * group.weight
    wider = solution.mix if at == solution.mixed else None
    parts = [1.0] if wider is None else [1.0 - wider, wider]
    lots = [
        PathShare(
            hull.paths[one],
            part,
            hull.seconds[one],
            hull.money[one],
            remember(OptionValues, group.menu, _inside(hull, one, worth), None),
        )
        for one, part in enumerate(parts, level)
    ]
    return GroupAssignment(group, tuple(lots))


def _share_at(group: GroupDemand, rate: Rate, remember: Remember) -> GroupAssignment:
    """What the group is given at an exchange rate, whatever it costs: no hull is needed for that."""
    mine = remember(OptionValues, group.menu, rate * group.weight, None)
    best, path = mine.newcomer(group.work)
    return GroupAssignment(group, (PathShare(path, 1.0, best.seconds, best.dollars, mine),))


def dearer(key: GroupKey, group: GroupDemand, reckoning: CostCalibration) -> float:
    """Dollars paid for each one of the group's demand; what jobs in sight cost a second is their price."""
    return reckoning.overhead if group.arrivals is None else reckoning.factor(key[0])


def _pressed(
    groups: Iterable[JobGroup], found: Mapping[GroupKey, GroupDemand], money: float, now: Instant
) -> tuple[dict[JobId, DeadlineNeed], float]:
    """The jobs whose targets lie ahead, the oldest first, and the dollars to be set aside for those not yet running.

    ``money``: dollars of the period that are not spent. What running jobs will still cost is in the account already.
    """
    kept: dict[JobId, DeadlineNeed] = {}
    reserved = 0.0
    targeted = sorted([one for group in groups for one in group.targeted], key=lambda one: one.order)
    for reading in targeted:
        job, group = reading.job, found.get(reading.key)
        if group is None:
            continue
        one = deadline_need(job, group.menu, job_position(job, group.work), now, max(money - reserved, 0.0))
        if one is not None:
            kept[job.id] = one
            reserved += one.extra if job.allocation is None else 0.0
    return kept, reserved


def solve_budget(budget: Budget, inputs: PlanInputs) -> BudgetSolution:
    """Solve the budget's θ* for the load of its jobs."""
    snapshot, memo = inputs.snapshot, inputs.memo
    now = snapshot.now
    groups = inputs.groups.get(budget.id, {})
    nodes = {pool: here for (payer, pool), here in inputs.nodes.items() if payer == budget.id}
    period = period_bounds(budget.time_zone, now)
    current = _of_this_period(budget, now)
    rentals = [here.rentals for here in nodes.values()]
    used, paid = spent(current, rentals, now, memo)
    reckoning = calibrate(budget, groups.values(), rentals, paid, now)
    money = pacing_state(current, used, period, now, reckoning.rate, reckoning.left)
    allowed = allowed_rate(money)
    found = group_demands(groups, snapshot.profiles, inputs.menus, now, budget.id, budget.balance)
    kept, reserved = _pressed(groups.values(), found, money.aim - money.spent, now)
    allowed = max(allowed - reserved / money.horizon, 0.0)
    if budget.fixed_rate is None:
        demands = [corrected(group.demand(), dearer(key, group, reckoning)) for key, group in found.items()]
        solution = solve(demands, allowed)
        shares = {key: _share(group, solution, at, memo) for at, (key, group) in enumerate(found.items())}
        rate, planned, feasible = solution.rate, solution.spend, solution.fit is not BudgetFit.INFEASIBLE
        expected = forecast_inputs.forecast_budget(money, shares, demands, reckoning, budget.balance, now)
    else:
        shares = {key: _share_at(group, budget.fixed_rate, memo) for key, group in found.items()}
        rate, planned, feasible = budget.fixed_rate, sum(share.spend for share in shares.values()), True
        expected = forecast_inputs.forecast_at_fixed_rate(money, shares, reckoning)
    return BudgetSolution(
        budget=budget,
        inputs=inputs,
        groups=groups,
        nodes=nodes,
        now=now,
        spent=used,
        period_end=period[1],
        allowed=allowed,
        planned=planned,
        rate=rate,
        feasible=feasible,
        shares=shares,
        money=money,
        reckoning=reckoning,
        forecast=expected,
        pressed=kept,
    )
