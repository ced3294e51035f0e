"""One budget solved: what it spent, what it may spend, its exchange rate, and what each group of its jobs is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from charterer.domain.budget import Budget
from charterer.domain.ids import JobId, PoolId, Rate, RentalId
from charterer.domain.job import Job
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.period import period_bounds
from charterer.domain.plan import (
    ArrivalsBasis,
    ArrivalsVerdict,
    BudgetVerdict,
    ClassVerdict,
    ForecastVerdict,
    PathVerdict,
    Reason,
    TargetOutlook,
)
from charterer.domain.time import Instant, seconds_between
from charterer.policy.budgets import forecast_inputs
from charterer.policy.budgets.arrivals import Arrivals
from charterer.policy.budgets.assignment import GroupAssignment, assign, assign_at_rate
from charterer.policy.budgets.cost_calibration import CostCalibration, calibrate, unavoidable_cost
from charterer.policy.budgets.deadline import DeadlineNeed, beyond_given, deadline_needs
from charterer.policy.budgets.demand import budget_load
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.budgets.pacing import PacingState, allowed_rate, commitments_of, pacing_state
from charterer.policy.budgets.plausible_loads import in_sight_fits, solve_for_plausible_loads
from charterer.policy.budgets.spend_forecast import Forecast
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import least_worth
from charterer.policy.nodes.accrued_cost import StartUps, spent
from charterer.policy.nodes.occupants import Occupant, all_occupants, occupants
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.rental_index import PoolRentals
from charterer.policy.options.option_value import OptionValues
from charterer.policy.solve.exchange_rate import BudgetFit


@dataclass(frozen=True, slots=True)
class InSight:
    """What nodes still cost in a period, until they can be given back: ``dollars`` with the jobs that wait, ``running``
    without those."""

    dollars: Money
    running: Money


@dataclass(frozen=True, slots=True)
class BudgetSolution:
    """One budget at one instant. ``allowed`` and ``planned`` are dollars a second; ``rate`` is θ*.

    ``feasible``: no job has to wait for money. ``surplus``: more money makes nothing faster.
    ``committable``: dollars that may be committed to jobs, those that run included.

    ``pacing``: what ``allowed`` comes from. ``calibration``: of predicted costs. ``arrivals``: of all classes.
    ``forecast``: of the period's spend. ``deadline_needs``: of the jobs whose target lies ahead; ``out_of_reach``: of
    those whose target counts as none.
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
    surplus: bool
    committable: float
    assignments: Mapping[GroupKey, GroupAssignment]
    pacing: PacingState
    calibration: CostCalibration
    arrivals: Arrivals
    forecast: Forecast
    deadline_needs: Mapping[JobId, DeadlineNeed] = field(default_factory=dict)
    out_of_reach: Mapping[JobId, DeadlineNeed] = field(default_factory=dict)

    def in_the_long_run(self) -> BudgetSolution:
        """The budget as its jobs come, for ever: what it gives them now, without those in sight."""
        assignments = {
            key: assignment.in_the_long_run() for key, assignment in self.assignments.items() if assignment.arrivals
        }
        return replace(self, assignments=assignments)

    def deadline_values(self, job: Job) -> OptionValues | None:
        """The menu's values for a job that is worth more than its group is given; None for any other job.

        Its target needs it, or its owner says it of an interactive job.
        """
        assignment = self.assignment(job)
        worth = 0.0 if assignment is None else self.worth(job, assignment)
        if assignment is None or worth <= assignment.values.worth:
            return None
        return self.inputs.memo(OptionValues, assignment.group.menu, worth)

    def worth(self, job: Job, assignment: GroupAssignment) -> float:
        """Dollars that a second of the job's life is worth: what its group is given; its target's need if more, or what
        the owner of an interactive job says.
        """
        need = self.deadline_needs.get(job.id)
        return max(assignment.values.worth, least_worth(job), 0.0 if need is None else need.worth)

    def queue_weight(self, job: Job) -> float:
        """The job's weight in the queue: more where its owner says that an hour of an interactive job is worth more."""
        assignment = self.assignment(job)
        if job.interactive is None or assignment is None:
            return job.weight
        worth, given = self.worth(job, assignment), assignment.values.worth
        if worth <= given:
            return job.weight
        return job.weight * worth / given if given else inf

    def own_values(self, job: Job, assignment: GroupAssignment) -> OptionValues:
        """The values by which the job chooses: those of its target, or those of the path that it draws in its group."""
        return self.deadline_values(job) or assignment.drawn_values(job)

    def with_deadline_note(self, job: Job, why: Reason) -> Reason:
        """The reason with a note on the job's target, if it has one."""
        need = self._told_of(job)
        return why if need is None else why.with_note(need.fact(self.now))

    def outlook(self, job: Job) -> TargetOutlook | None:
        """What is expected of the job's target; None without one that lies ahead."""
        need = self._told_of(job)
        return None if need is None else need.outlook

    def _told_of(self, job: Job) -> DeadlineNeed | None:
        return self.deadline_needs.get(job.id) or self.out_of_reach.get(job.id)

    def assignment(self, job: Job) -> GroupAssignment | None:
        """The assignment of the job's group; None when nothing is on its menu."""
        return self.assignments.get(self.key(job))

    def sized(self, job: Job) -> bool:
        """Whether anything says how much work the job is: its own reports, or its class."""
        assignment = self.assignment(job)
        return job.remaining is not None or (assignment is not None and assignment.group.sized)

    def occupants(self) -> Mapping[RentalId, Sequence[Occupant]]:
        """The jobs on each node that have no other node."""
        memo = self.inputs.memo
        each = [
            (self.groups[key], assignment.group.work)
            for key, assignment in self.assignments.items()
            if key in self.groups
        ]
        return memo(all_occupants, tuple([memo(occupants, group, work) for group, work in each]))

    def key(self, job: Job) -> GroupKey:
        """The group to which a job of the snapshot belongs."""
        return self.inputs.facts[job.id].key

    def classes(self) -> tuple[ClassVerdict, ...]:
        """The assignments as they are reported."""
        return tuple(_class_verdict(self.budget, assignment) for assignment in self.assignments.values())

    def verdict(self, committed: Money, nodes: InSight) -> BudgetVerdict:
        """The budget's verdict. ``nodes``: what those of its jobs in sight will still cost in the period."""
        penniless = self.budget.amount <= ZERO and self.budget.fixed_rate is None
        most = self._most_rate()
        arrivals, forecast = self.arrivals_verdict(), None
        to_come = self._to_come()
        commitments = Money.of(self.pacing.still_committed)
        in_sight = max(self._at_most(self.spent + commitments + nodes.dollars) - self.spent - commitments, ZERO)
        if arrivals.basis is not ArrivalsBasis.ASSUMED:
            forecast = self._with_standing(self.forecast_verdict(), self.spent + commitments + nodes.running)
            left = max(forecast.expected - self.spent - commitments, ZERO)
            in_sight = min(in_sight, left)
            to_come = left - in_sight
        return BudgetVerdict(
            rate=None if penniless or not self.assignments else self.rate,
            planned=Price.per_second(min(self.planned, most) if self.feasible else self.planned),
            allowed=Price.per_second(self.allowed),
            feasible=self.feasible,
            spent=self.spent,
            committed=committed,
            in_sight=in_sight,
            to_come=to_come,
            arrivals=arrivals,
            forecast=forecast,
            commitments=commitments,
            loans=self.budget.loans,
        )

    def forecast_verdict(self) -> ForecastVerdict:
        """The forecast, as far as limits and pools let it come true; also where it rests on assumed arrivals."""
        most = self._most_rate()
        low, expected, high = (
            self._within_limits(dollars, most)
            for dollars in (self.forecast.low, self.forecast.expected, self.forecast.high)
        )
        return ForecastVerdict(expected=expected, low=low, high=high)

    def arrivals_verdict(self) -> ArrivalsVerdict:
        """The arrivals of all classes: assumed as long as those of one are."""
        came, groups = self.arrivals, [assignment.group for assignment in self.assignments.values()]
        absent = set(came.parts) - {group.class_id for group in groups}
        bases = {group.basis for group in groups if group.arrivals}
        basis = ArrivalsBasis.COUNTED if came.counted else ArrivalsBasis.ASSUMED
        if bases == {ArrivalsBasis.DECLARED}:
            basis = ArrivalsBasis.DECLARED
        return ArrivalsVerdict(
            per_hour=3600.0 * sum([*(group.arrivals for group in groups), *(came.of(name) for name in absent)]),
            basis=basis,
            jobs=sum(group.active for group in groups),
            batches=round(came.batches) + (came.opening > 0),
        )

    def _to_come(self) -> Money:
        """Dollars of the jobs to come, until the period's end."""
        seconds = max(seconds_between(self.now, self.period_end), 0.0)
        return Money.of(
            sum(
                assignment.to_come(seconds) * self.calibration.factor(key[0])
                for key, assignment in self.assignments.items()
            )
        )

    def _within_limits(self, dollars: float, most: float) -> Money:
        """A forecast of dollars beside the opening spend, as far as limits and pools let it come true.

        ``most``: dollars a second that all its nodes can cost.
        """
        seconds = max(seconds_between(self.now, self.period_end), 0.0)
        return self._at_most(min(Money.of(self.pacing.opening + dollars), self.spent + Money.of(most * seconds)))

    def _at_most(self, end: Money) -> Money:
        """The period's dollars, as far as hard limits let them be spent."""
        limits = [limit for each in self._with_parents if (limit := each.hard_limit) is not None]
        return min(end, max(min(limits), self.spent)) if limits else end

    def _with_standing(self, forecast: ForecastVerdict, standing: Money) -> ForecastVerdict:
        """The forecast with at least what nodes cost that stand because of running jobs: those are paid as a whole.

        Its low end stays, because jobs may be moved together.
        """
        least = self._at_most(standing)
        return replace(forecast, expected=max(forecast.expected, least), high=max(forecast.high, least))

    @property
    def _hourly_limit(self) -> Price | None:
        """The lowest hourly limit of the budget and those above it."""
        return min([limit for each in self._with_parents if (limit := each.max_hourly_rate) is not None], default=None)

    @property
    def _with_parents(self) -> Sequence[Budget]:
        budgets = self.inputs.snapshot.known_budgets
        return [self.budget, *(budgets[name] for name in self.inputs.tree.above.get(self.budget.id, ()))]

    @property
    def payable(self) -> Price:
        """The dollars an hour that it may spend on all of its nodes."""
        allowed, limit = Price.per_second(self.allowed), self._hourly_limit
        return allowed if limit is None else min(allowed, limit)

    def _most_rate(self) -> float:
        """Dollars a second that the budget's nodes can cost at most: all that it may have, at worst prices."""
        snapshot, memo = self.inputs.snapshot, self.inputs.memo
        micros, nodes_there = 0, 0
        open_to, more = snapshot.pools_of(self.budget), list[tuple[int, int]]()
        for name, pool in snapshot.pools.items():
            here = self.nodes.get(name)
            live = () if here is None else here.rentals.live
            worst = 0 if pool.quote is None else pool.quote.worst.micros_per_hour
            micros += 0 if here is None else memo(most_micros, here.rentals, worst)
            nodes_there += len(live)
            if name in open_to and not pool.closed_because:
                more.append((worst, max(pool.max_nodes - len(live), 0)))
        limits, least = snapshot.limits, micros
        left = sum(nodes for _, nodes in more) if limits.nodes is None else max(limits.nodes - nodes_there, 0)
        for worst, nodes in sorted(more, reverse=True):
            micros += min(nodes, left) * worst
            left -= min(nodes, left)
        for hourly in (self._hourly_limit, limits.hourly):
            if hourly is not None:
                micros = min(micros, max(hourly.micros_per_hour, least))
        return Price(micros).dollars_per_second


def most_micros(rentals: PoolRentals, worst: int) -> int:
    """Micro-dollars an hour that live rentals can cost at most, where a new one can cost ``worst``."""
    return sum([max(rental.dearest.micros_per_hour, worst) for rental in rentals.live])


def _class_verdict(budget: Budget, assignment: GroupAssignment) -> ClassVerdict:
    group = assignment.group
    return ClassVerdict(
        budget=budget.id,
        class_id=group.class_id,
        arrivals_per_hour=assignment.arrivals * 3600.0,
        mean_work=group.work,
        paths=tuple(
            PathVerdict(assigned.fraction, assigned.values.stages(assigned.path))
            for assigned in assignment.assigned_paths
        ),
        seconds=assignment.cheapest.seconds,
        cost=Money.of(assignment.cheapest.dollars),
    )


def _pacing_and_calibration(
    budget: Budget, groups: Collection[JobGroup], nodes: Mapping[PoolId, PoolNodes], inputs: PlanInputs
) -> tuple[PacingState, CostCalibration, Money]:
    """The budget's pacing with what its running jobs cost, its cost factors, and what it has spent in the period."""
    snapshot = inputs.snapshot
    now = snapshot.now
    current = budget.in_period_of(now)
    in_period, ever = spent(current, [here.rentals for here in nodes.values()], now, inputs.memo)
    idle = pacing_state(current, in_period, period_bounds(budget.time_zone, now), now)
    node_prices = [pool.quote.price for pool in snapshot.pools_of(budget).values() if pool.quote is not None]
    steady = max([Price.per_second(idle.target_rate), *node_prices])
    others = [here.rentals for pool, here in nodes.items() if pool not in snapshot.committed_pools]
    starting = total([inputs.memo(StartUps, each).paid(now) for each in others])
    calibration = calibrate(budget, groups, others, ever - starting, steady, now, snapshot.ever_committed)
    unavoidable = unavoidable_cost(groups, max(idle.seconds - idle.elapsed, 0.0))
    commitments = commitments_of(snapshot.committed_to(budget).values(), now)
    running = replace(
        idle, rate=calibration.rate, left=calibration.left, unavoidable=unavoidable, commitments=commitments
    )
    return running, calibration, in_period


def solve_budget(budget: Budget, inputs: PlanInputs) -> BudgetSolution:
    """Solve the budget's θ* for the load of its jobs; where another amount is compared, for that at the real one."""
    snapshot, memo = inputs.snapshot, inputs.memo
    now = snapshot.now
    groups = inputs.groups.get(budget.id, {})
    nodes = {pool: here for (payer, pool), here in inputs.nodes.items() if payer == budget.id}
    pacing, calibration, in_period = _pacing_and_calibration(budget, groups.values(), nodes, inputs)
    meant = replace(budget, amount=snapshot.real_amounts.get(budget.id, budget.amount))
    load = budget_load(groups, snapshot.profiles, inputs.menus[budget.id], meant, pacing.horizon, now, memo)
    demands = load.groups
    free = pacing.aim - pacing.spent - pacing.still_committed
    needs, out_of_reach = deadline_needs(groups.values(), demands, free, inputs, nodes, budget)
    allowed = allowed_rate(pacing)
    if budget.fixed_rate is None:
        solution = solve_for_plausible_loads(load, calibration, pacing.horizon, allowed)
        needs = beyond_given(needs, demands, solution.rate, inputs, nodes)
        if reserved := sum(need.extra for need in needs.values()):
            allowed = max(allowed - reserved / pacing.horizon, 0.0)
            solution = solve_for_plausible_loads(load, calibration, pacing.horizon, allowed)
        assignments = {
            key: assign(group, solution, number, memo) for number, (key, group) in enumerate(demands.items())
        }
        rate, planned, surplus = solution.rate, solution.spend, solution.fit is BudgetFit.SURPLUS
        feasible = solution.fit is not BudgetFit.INFEASIBLE or in_sight_fits(load, calibration, allowed)
        forecast = forecast_inputs.forecast_assigned(pacing, assignments, calibration, budget, load.arrivals)
    else:
        assignments = {key: assign_at_rate(group, budget.fixed_rate, memo) for key, group in demands.items()}
        rate, planned, surplus = budget.fixed_rate, sum(assignment.spend for assignment in assignments.values()), False
        feasible = True
        streams = [assignment.job_stream(key, calibration) for key, assignment in assignments.items()]
        forecast = forecast_inputs.forecast_at_fixed_rate(pacing, streams, calibration)
    waiting = sum(need.extra for need in needs.values() if need.job.allocation is None)
    return BudgetSolution(
        budget=budget,
        inputs=inputs,
        groups=groups,
        nodes=nodes,
        now=now,
        spent=in_period,
        period_end=period_bounds(budget.time_zone, now)[1],
        allowed=allowed,
        planned=planned,
        rate=rate,
        feasible=feasible,
        surplus=surplus,
        committable=max(pacing.committable - waiting, 0.0),
        assignments=assignments,
        pacing=pacing,
        calibration=calibration,
        arrivals=load.arrivals,
        forecast=forecast,
        deadline_needs=needs,
        out_of_reach=out_of_reach,
    )
