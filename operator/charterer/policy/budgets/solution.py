"""The solution of one budget: its spending, the money that it may spend, its exchange rate, and the paths of its
jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, hypot, inf, log, sqrt
from statistics import geometric_mean
from typing import Final, Protocol, TypeVar

from charterer.domain.budget import Balance, Budget, parts_of
from charterer.domain.ids import JobId, PoolId, Rate, RentalId
from charterer.domain.job import Job
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.option import Option
from charterer.domain.plan import (
    ArrivalsBasis,
    ArrivalsVerdict,
    BudgetVerdict,
    ClassVerdict,
    ForecastVerdict,
    PathVerdict,
    Reason,
    ReasonCode,
    ShareVerdict,
    TargetOutlook,
)
from charterer.domain.reasons import options as of
from charterer.domain.reasons.fact import Fact, Wanted
from charterer.domain.reasons.waits import LateNodes
from charterer.domain.time import Instant, seconds_between
from charterer.policy.budgets.assignment import (
    CostCalibration,
    GroupAssignment,
    assign,
    assign_at_rate,
    calibrate,
    unavoidable_cost,
)
from charterer.policy.budgets.deadline import DeadlineNeed, beyond_given, deadline_needs
from charterer.policy.budgets.demand import PRIOR_BATCHES, Arrivals, BudgetLoad, budget_load
from charterer.policy.budgets.forecast import (
    Forecast,
    JobStream,
    PacingState,
    SpendBounds,
    allowed_rate,
    commitments_of,
    forecast,
    pacing_state,
    remembered,
)
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import GroupKey, least_worth
from charterer.policy.nodes.pool_room import LaunchWait
from charterer.policy.nodes.rentals import Occupant, PoolNodes, PoolRentals, StartUps, all_occupants, occupants, spent
from charterer.policy.options.option_value import JobPosition, Move, OptionValues, Projection
from charterer.policy.solve.hull import BudgetFit, Solution, rates_of_mixtures, solution_at, solve
from charterer.policy.solve.phase_dp import key_of
from charterer.sentences import count

# The forecast of one budget, from the jobs to come of its groups and of classes that only its history contains.


_PERIODS = 12
"""Number of past periods that are compared with their aims: a year of months. Older periods say little about
arrivals."""


def forecast_budget(
    pacing: PacingState,
    streams: Mapping[GroupKey, JobStream],
    most: float,
    calibration: CostCalibration,
    balance: Balance | None,
    came: Arrivals,
) -> Forecast:
    """The forecast of a budget whose groups' jobs come as ``streams`` and spend ``most`` dollars a second at most.

    A class without jobs in sight is expected to cost as much as the balance has recorded for it. Its spending is
    unbounded.
    """
    in_sight = {key.class_id for key in streams}
    history = {} if balance is None else balance.class_history
    absent = [
        remembered(known, calibration.of(class_id).squared_cv, calibration.overhead, came.of(class_id), came.jobs)
        for class_id, known in history.items()
        if class_id not in in_sight and came.of(class_id)
    ]
    bounds = SpendBounds(inf if any(stream.spends for stream in absent) else most)
    periods = () if balance is None else balance.history[-_PERIODS:]
    past = [fraction for period in periods if (fraction := period.spent_fraction) is not None]
    return forecast(pacing, [*streams.values(), *absent], bounds, calibration.spread, past)


def forecast_assigned(
    pacing: PacingState,
    assignments: Mapping[GroupKey, GroupAssignment],
    calibration: CostCalibration,
    budget: Budget,
    came: Arrivals,
) -> Forecast:
    """The forecast of the budget, if its groups keep the paths that they are given."""
    streams = {key: assignment.job_stream(key, calibration) for key, assignment in assignments.items()}
    most = sum(
        assignment.group.spend_at(-1, calibration.factor(key.class_id), calibration.overhead)
        for key, assignment in assignments.items()
    )
    return forecast_budget(pacing, streams, most, calibration, budget.balance, came)


def forecast_at_fixed_rate(pacing: PacingState, streams: Sequence[JobStream], calibration: CostCalibration) -> Forecast:
    """The forecast at an exchange rate that does not depend on the spending."""
    rate = sum(stream.spends for stream in streams)
    return forecast(pacing, streams, SpendBounds(rate, rate), calibration.spread)


def sum_of_forecasts(forecasts: Sequence[ForecastVerdict], most: Money | None) -> ForecastVerdict:
    """The forecast of several budgets together, capped at ``most``.

    The squares of the intervals' half widths are added, as if the budgets spent independently.
    """
    expected = total(each.expected for each in forecasts)
    below = Money(round(hypot(*(each.expected.micros - each.low.micros for each in forecasts))))
    above = Money(round(hypot(*(each.high.micros - each.expected.micros for each in forecasts))))
    three = (expected, expected - below, expected + above)
    return ForecastVerdict(*(each if most is None else min(each, most) for each in three))


# The exchange rate of a budget if it is not known how many jobs will arrive.


_QUANTILES = (-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341)
"""Quantiles of the normal distribution at the middles of eight parts of equal probability."""
_SIZE_SQUARES = 3.25
"""1 + c²: mean square ÷ squared mean of the dollars of jobs whose coefficient of variation is c = 1.5."""


def solve_for_plausible_loads(
    load: BudgetLoad, calibration: CostCalibration, horizon: float, allowed: float
) -> Solution:
    """The solution at the geometric mean of the exchange rates θ that plausible loads would need.

    θ follows a power of money ÷ load. If θ is too low by some factor, some percentage of hours is lost. If θ is too
    high by the same factor, about the same percentage of dollars is lost. So the mean is taken on a logarithmic scale.
    The number of jobs to come is f times the expected number, where f is lognormal with mean 1 and variance

        u² / (a₀ + e) + (1 + c²) / (N + 1)

    e: number of batches that were seen; N: number of jobs to come; u: the fraction of these jobs that is not declared.
    """
    groups = [(group, calibration.factor(key.class_id)) for key, group in load.groups.items()]
    demands = [group.demand(kappa, calibration.overhead) for group, kappa in groups]
    expected = solve(demands, allowed)
    coming = horizon * sum(group.arrivals for group, _ in groups)
    declared = horizon * sum(group.arrivals for group, _ in groups if group.basis is ArrivalsBasis.DECLARED)
    if not coming or expected.fit is BudgetFit.INFEASIBLE:
        return expected
    in_sight = [group.demand(kappa, calibration.overhead, coming=0.0).spends for group, kappa in groups]
    unsure = (1.0 - declared / coming) ** 2 / (PRIOR_BATCHES + load.arrivals.batches)
    sigma = sqrt(log(1.0 + unsure + _SIZE_SQUARES / (coming + 1.0)))

    least = min([one.slopes[0] / one.weight for one in demands if one.slopes], default=0.0)
    if not least:
        return expected
    factors = [exp(sigma * quantile - sigma * sigma / 2.0) for quantile in _QUANTILES]
    rates = [max(rate, least) for rate in rates_of_mixtures(demands, in_sight, factors, allowed)]
    if min(rates) == max(rates) == expected.rate:
        return expected
    return solution_at(demands, Rate(geometric_mean(rates)))


def in_sight_fits(load: BudgetLoad, calibration: CostCalibration, allowed: float) -> bool:
    """Whether the money pays for the cheapest options of the jobs in sight and of the jobs that the plan counts on."""
    least = 0.0
    for key, group in load.groups.items():
        sure = 0.0 if group.basis is ArrivalsBasis.ASSUMED else 1.0
        least += group.spend_at(0, calibration.factor(key.class_id), calibration.overhead, coming=sure)
    return least <= allowed


# Reasons name time and cost of an option and of the next option, and the dollars that the budget pays for a second.


def late(pool: PoolId, wait: LaunchWait) -> LateNodes:
    """The fact that a pool is expected to give a node late, and how late."""
    return LateNodes(pool, wait.expected, wait.probation)


def no_history(verdict: BudgetVerdict, word: str) -> str:
    """``assumed: 9 jobs in sight, 1 batch; no history. If nothing else comes, the month ends at $562.00``.

    ``word``: the word for the budget's period, such as ``month``.
    """
    came = verdict.arrivals
    if not came.jobs and not came.batches:
        return f"no jobs yet. If none comes, the {word} ends at {ends_at_least(verdict)}"
    batches = f"{came.batches} batch{'' if came.batches == 1 else 'es'}"
    return (
        f"assumed: {count(came.jobs, 'job')} in sight, {batches}; no history. If nothing else comes, the {word} ends "
        f"at {ends_at_least(verdict)}"
    )


def ends_at_least(verdict: BudgetVerdict) -> Money:
    """The dollars spent at the period's end, if no jobs arrive besides those in sight."""
    return verdict.spent + verdict.in_sight + verdict.commitments


def of_share(budget: Budget) -> str:
    """``its amount is $800.00 of the $1,000.00 of spec.amount: ...``; empty if the budget has the whole amount."""
    share = budget.share
    if share is None or share.given is None or not share.scaled:
        return ""
    return (
        f"its amount is {share.in_all} of the {share.declared} of spec.amount: the budgets below GPUBudget "
        f"{budget.parent} ask for {share.siblings} together, of {share.given}"
    )


def of_first_period(budget: Budget, now: Instant) -> str:
    """``$4,600.00 of its $60,000.00 count for the rest of its first month ($83.33/h); ...``; empty in later periods,
    and if the owner has declared the spending before the budget's creation."""
    budget = budget.in_period_of(now)
    if not budget.prorated or budget.penniless:
        return ""
    seconds, word = max(seconds_between(budget.created, budget.period[1]), 1.0), budget.calendar.word
    part, whole = (Price.per_second(amount.dollars / seconds) for amount in (budget.counted, budget.amount))
    return (
        f"{budget.counted} of its {budget.amount} count for the rest of its first {word} ({part}); if all of it is for "
        f'that time ({whole}), set spec.openingSpend to "0", and otherwise to what was spent before in that {word}'
    )


def choice(option: Option, values: OptionValues, weight: float, position: JobPosition, *, feasible: bool) -> Reason:
    """Why a job has this option, compared with the next cheaper option, and with a fact about a faster option."""
    menu = values.menu
    here = to_the_end(option, values, position)
    cost = Money.of(here.dollars)
    if not menu.known:
        code = ReasonCode.RIGID if menu.rigid else ReasonCode.NO_CURVE
        return Reason(code, 0.0, ZERO, of.UnknownSpeed(option, here.seconds, cost, position.left))
    own, others = key_of(option), values.entering(position)  # best first
    above = next((each for each in others if each.seconds < here.seconds and key_of(each.option) != own), None)
    below = next((each for each in others if each.dollars < here.dollars and key_of(each.option) != own), None)
    faster = None if above is None else _faster(above, here, values)
    facts = of.Chosen(option, here.seconds, cost, faster, above is None and values.on_menu(option))
    code = (
        ReasonCode.RIGID if menu.rigid else ReasonCode.BUDGET_OPTIMAL if feasible else ReasonCode.CHEAPEST_OVER_BUDGET
    )
    if below is None:
        return Reason(code, 0.0, ZERO, facts)
    saved, more = below.seconds - here.seconds, here.dollars - below.dollars
    return Reason(code, weight * saved, Money.of(more), facts, below.option)


def _faster(above: Projection, here: Projection, values: OptionValues) -> of.Faster:
    saved, more = here.seconds - above.seconds, above.dollars - here.dollars
    hourly, pays = Money.of(more / saved * 3600), Money.of(values.worth * 3600)
    return of.Faster(above.option, saved, Money.of(more), hourly, pays)


def to_the_end(option: Option, values: OptionValues, position: JobPosition) -> Projection:
    """Time and cost of the rest of the job on the option, as if a new run entered the option."""
    projection = values.staying(option, position)
    time, cost = projection.seconds + option.entry_seconds, projection.dollars + option.entry_cost.dollars
    return Projection(option, time, cost, values.worth * time + cost)


def moving(move: Move, here: Option, work: float, pays: Money | None, weight: float) -> Reason:
    """Why a running job moves. ``pays``: dollars that the budget pays for an hour saved; None if it pays any price."""
    facts = of.MovePays(here, work / here.speed, move.to, move.saved_seconds, move.cost, pays)
    return Reason(ReasonCode.MOVE_PAYS, weight * move.saved_seconds, move.cost, facts, here)


def waiting(code: ReasonCode, option: Option, why: Fact) -> Reason:
    """Why a job waits for an option."""
    return Reason(code, 0.0, ZERO, Wanted(option, why))


@dataclass(frozen=True, slots=True)
class InSight:
    """Dollars that nodes will still cost in a period, until they can be given back.

    ``dollars``: for all jobs in sight. ``running``: for the running jobs alone.
    """

    dollars: Money
    running: Money


@dataclass(frozen=True, slots=True)
class FundedJobs:
    """The money that some jobs have at one instant, and what the money pays for.

    ``allowed``: dollars a second that may be planned with.
    ``planned``: dollars a second that the plan spends.
    ``rate``: θ*.
    ``feasible``: whether no job has to wait for money.
    ``surplus``: whether more money would make no job faster.
    ``committable``: dollars that may be committed to jobs, including running jobs.
    """

    allowed: float
    planned: float
    rate: Rate
    feasible: bool
    surplus: bool
    committable: float


@dataclass(frozen=True, slots=True)
class ShareSolution(FundedJobs):
    """One share of a budget, solved. ``jobs``: the number of jobs that want to run."""

    jobs: int


@dataclass(frozen=True, slots=True)
class BudgetSolution(FundedJobs):
    """One budget, solved at one instant.

    ``pacing``: the state of the money from which ``allowed`` follows.
    ``calibration``: the factors from predicted to real costs.
    ``arrivals``: the arrivals of all classes.
    ``deadline_needs``: the needs of jobs whose targets lie ahead and count.
    ``out_of_reach``: the needs of jobs whose targets are ignored, because no path ends in time.
    ``shares``: by name, the shares that have jobs, including NO_SHARE. The budget's own numbers are the sums over its
    shares, and its ``rate`` is their highest. In a budget without shares, all jobs belong to NO_SHARE.
    """

    budget: Budget
    inputs: PlanInputs
    groups: Mapping[GroupKey, JobGroup]
    nodes: Mapping[PoolId, PoolNodes]
    now: Instant
    spent: Money
    period_end: Instant
    assignments: Mapping[GroupKey, GroupAssignment]
    pacing: PacingState
    calibration: CostCalibration
    arrivals: Arrivals
    shares: Mapping[str, ShareSolution]
    deadline_needs: Mapping[JobId, DeadlineNeed] = field(default_factory=dict)
    out_of_reach: Mapping[JobId, DeadlineNeed] = field(default_factory=dict)

    def share(self, key: GroupKey) -> ShareSolution:
        """The money of the share to which the jobs of a group belong. A share without a load has no money."""
        return self.shares.get(key.share, _NOTHING)

    def in_the_long_run(self) -> BudgetSolution:
        """The solution for the jobs to come alone, over an endless horizon, if groups keep their present paths."""
        assignments = {
            key: assignment.in_the_long_run() for key, assignment in self.assignments.items() if assignment.arrivals
        }
        return replace(self, assignments=assignments)

    def deadline_values(self, job: Job) -> OptionValues | None:
        """The menu's values for a job that is worth more than the other jobs of its group; None for any other job.

        A job is worth more if its target needs that, or if it is interactive and its owner says so.
        """
        if job.interactive is None and job.id not in self.deadline_needs:
            return None
        assignment = self.assignment(job)
        worth = 0.0 if assignment is None else self.worth(job, assignment)
        if assignment is None or worth <= assignment.values.worth:
            return None
        return self.inputs.memo(OptionValues, assignment.group.menu, worth)

    def worth(self, job: Job, assignment: GroupAssignment) -> float:
        """Dollars that a second of the job's life is worth.

        The result is the largest of three numbers: the worth that the job's group is given, the worth that its target
        needs, and the worth that the owner of an interactive job declares.
        """
        need = self.deadline_needs.get(job.id)
        if need is None and job.interactive is None:
            return assignment.values.worth
        return max(assignment.values.worth, least_worth(job), 0.0 if need is None else need.worth)

    def queue_weight(self, job: Job) -> float:
        """The job's weight in the queue.

        The weight is higher for an interactive job whose owner declares a higher worth of an hour.
        """
        assignment = self.assignment(job)
        if job.interactive is None or assignment is None:
            return job.weight
        worth, given = self.worth(job, assignment), assignment.values.worth
        if worth <= given:
            return job.weight
        return job.weight * worth / given if given else inf

    def own_values(self, job: Job, assignment: GroupAssignment) -> OptionValues:
        """The values by which the job chooses: those that its target needs, or else those of its path in its group."""
        return self.deadline_values(job) or assignment.drawn_values(job)

    def with_deadline_note(self, job: Job, why: Reason) -> Reason:
        """The reason with a note on the job's target, if it has one."""
        need = self._told_of(job)
        return why if need is None else why.with_note(need.fact(self.now))

    def outlook(self, job: Job) -> TargetOutlook | None:
        """Whether the job's target is expected to be met, and when the job ends; None if no target lies ahead."""
        need = self._told_of(job)
        return None if need is None else need.outlook

    def _told_of(self, job: Job) -> DeadlineNeed | None:
        return self.deadline_needs.get(job.id) or self.out_of_reach.get(job.id)

    def assignment(self, job: Job) -> GroupAssignment | None:
        """The assignment of the job's group; None if its menu is empty."""
        return self.assignments.get(self.key(job))

    def sized(self, job: Job) -> bool:
        """Whether the amount of the job's work is known, from its own reports or from its class."""
        assignment = self.assignment(job)
        return job.remaining is not None or (assignment is not None and assignment.group.sized)

    def occupants(self) -> Mapping[RentalId, Sequence[Occupant]]:
        """For each node, the jobs that are on this node only."""
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
        """The verdicts on classes: their assignments as users see them."""
        return tuple(_class_verdict(self.budget, assignment) for assignment in self.assignments.values())

    def verdict(self, committed: Money, nodes: InSight) -> BudgetVerdict:
        """The budget's verdict. ``nodes``: the remaining cost in the period of the nodes of its jobs in sight."""
        penniless = self.budget.amount <= ZERO and self.budget.fixed_rate is None
        most = self._most_rate()
        arrivals, forecast = self.arrivals_verdict(), None
        to_come = ZERO if self.budget.closed_at(self.now) else self._to_come()
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
            shares=self._shares(),
        )

    def _shares(self) -> tuple[ShareVerdict, ...]:
        if not self.budget.job_shares or self.budget.fixed_rate is not None:
            return ()
        parts = parts_of(self.budget.job_shares)
        return tuple(
            [
                ShareVerdict(
                    name,
                    parts[name],
                    share.jobs,
                    Price.per_second(share.allowed),
                    Price.per_second(share.planned),
                    share.rate,
                    share.feasible,
                )
                for name, share in self.shares.items()
            ]
        )

    def forecast_verdict(self) -> ForecastVerdict:
        """The forecast of the period's spend, capped by limits and by what pools can cost; also given if it rests on
        assumed arrivals."""
        most, found = self._most_rate(), self._forecast()
        low, expected, high = (
            self._within_limits(dollars, most) for dollars in (found.low, found.expected, found.high)
        )
        return ForecastVerdict(expected=expected, low=low, high=high)

    def _forecast(self) -> Forecast:
        if self.budget.fixed_rate is None:
            return forecast_assigned(self.pacing, self.assignments, self.calibration, self.budget, self.arrivals)
        streams = [assignment.job_stream(key, self.calibration) for key, assignment in self.assignments.items()]
        return forecast_at_fixed_rate(self.pacing, streams, self.calibration)

    def arrivals_verdict(self) -> ArrivalsVerdict:
        """The arrivals of all classes together. They are declared only if the arrivals of every group are declared."""
        came, groups = self.arrivals, [assignment.group for assignment in self.assignments.values()]
        absent = sorted(set(came.parts) - {group.class_id for group in groups})  # a sum depends on the order
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
        """Dollars that future jobs will cost until the period's end."""
        seconds = max(seconds_between(self.now, self.period_end), 0.0)
        return Money.of(
            sum(
                assignment.to_come(seconds) * self.calibration.factor(key.class_id)
                for key, assignment in self.assignments.items()
            )
        )

    def _within_limits(self, dollars: float, most: float) -> Money:
        """``dollars`` plus the opening spend, capped by hard limits and by the most that nodes can cost.

        ``most``: dollars a second that all nodes of the budget can cost.
        """
        seconds = max(seconds_between(self.now, self.period_end), 0.0)
        return self._at_most(min(Money.of(self.pacing.opening + dollars), self.spent + Money.of(most * seconds)))

    def _at_most(self, end: Money) -> Money:
        """``end``, limited to the dollars that hard limits allow in the period."""
        present = [each.in_period_of(self.now) for each in self._with_parents]
        limits = [limit for each in present if (limit := each.limit) is not None]
        return min(end, max(min(limits), self.spent)) if limits else end

    def _with_standing(self, forecast: ForecastVerdict, standing: Money) -> ForecastVerdict:
        """The forecast, raised to at least ``standing``: the cost of the whole nodes that running jobs keep.

        The low end of the interval is not raised, because jobs may be moved together onto fewer nodes.
        """
        least = self._at_most(standing)
        return replace(forecast, expected=max(forecast.expected, least), high=max(forecast.high, least))

    @property
    def _hourly_limit(self) -> Price | None:
        """The lowest hourly limit of the budget and its ancestors."""
        return min([limit for each in self._with_parents if (limit := each.max_hourly_rate) is not None], default=None)

    @property
    def _with_parents(self) -> Sequence[Budget]:
        budgets = self.inputs.snapshot.known_budgets
        return [self.budget, *(budgets[name] for name in self.inputs.tree.above.get(self.budget.id, ()))]

    @property
    def payable(self) -> Price:
        """The highest price that the budget may pay for all of its nodes together."""
        allowed, limit = Price.per_second(self.allowed), self._hourly_limit
        return allowed if limit is None else min(allowed, limit)

    def _most_rate(self) -> float:
        """The most dollars a second that the budget's nodes can cost: all nodes that it may have, at worst prices."""
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
    """The most micro-dollars an hour that live rentals can cost. ``worst``: the most that a new rental can cost."""
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
    """The budget's pacing with its running jobs, its cost factors, and the dollars that it has spent in the period."""
    snapshot = inputs.snapshot
    now = snapshot.now
    current = budget.in_period_of(now)
    in_period, ever = spent(current, [here.rentals for here in nodes.values()], now, inputs.memo)
    idle = pacing_state(current, in_period, budget.calendar.bounds(now), now)
    node_prices = [pool.quote.price for pool in snapshot.pools_of(budget).values() if pool.quote is not None]
    steady = max([Price.per_second(idle.target_rate), *node_prices])
    others = [here.rentals for pool, here in nodes.items() if pool not in snapshot.committed_pools]
    starting = total([inputs.memo(StartUps, each).paid(now) for each in others])
    paid = ever - starting
    calibration = calibrate(budget, groups, others, paid, steady, now, snapshot.ever_committed, inputs.memo)
    unavoidable = unavoidable_cost(groups, max(idle.seconds - idle.elapsed, 0.0))
    commitments = commitments_of(snapshot.committed_to(budget).values(), now)
    running = replace(
        idle, rate=calibration.rate, left=calibration.left, unavoidable=unavoidable, commitments=commitments
    )
    return running, calibration, in_period


_NOTHING: Final = ShareSolution(
    allowed=0.0, planned=0.0, rate=Rate(0.0), feasible=True, surplus=True, committable=0.0, jobs=0
)
"""The money of a share without a load, in which no job has an option."""
_PLENTY: Final = 1.0
"""Dollars a second for a budget without money that uses nodes which cost nothing. Such nodes are planned with a
micro-dollar an hour for each GPU (``Pool.marginal``), and the sum of that is less than this amount."""


# How the money of one budget is divided among the shares of its jobs (ADR 29).
#
# Each share is solved at an exchange rate of its own, for its part of the money that may be planned with now. If all
# jobs of a share have their fastest options, the money that they do not need goes to the other shares, in proportion
# to their parts. So whatever other shares demand, a share has at least its part, or all the money that makes its jobs
# faster. This is weighted max-min fairness (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).
#
# All shares have one plan, one ledger and one set of nodes. Only the exchange rate of a job is that of its share.


class Solved(Protocol):
    """A share, solved with a part of the money."""

    @property
    def content(self) -> float | None:
        """The part of the money that its jobs take, if more money would make no job faster; otherwise None."""


_Solved = TypeVar("_Solved", bound=Solved)


def divided(parts: Mapping[str, float], solve: Callable[[str, float], _Solved]) -> Mapping[str, _Solved]:
    """The shares, each solved by ``solve`` with its part of the money.

    ``parts``: the parts of the shares that have jobs. A rest up to 1 is divided in proportion too.
    """
    found: dict[str, _Solved] = {}
    open_to_more, left = dict(parts), 1.0
    while True:
        whole = sum(open_to_more.values())
        offers = {
            name: left * part / whole if whole else left / len(open_to_more) for name, part in open_to_more.items()
        }
        tried = {name: solve(name, offered) for name, offered in offers.items()}
        content = {name: each.content for name, each in tried.items() if each.content is not None}
        if not content or len(content) == len(tried):
            return {**found, **tried}
        for name, takes in content.items():
            found[name] = tried[name]
            left -= takes
            del open_to_more[name]


@dataclass(frozen=True, slots=True)
class _SolvedShare:
    """One share of a budget, solved. ``reserved``: dollars a second for its targets. ``content``: as in ``Solved``."""

    money: ShareSolution
    assignments: Mapping[GroupKey, GroupAssignment]
    needs: Mapping[JobId, DeadlineNeed]
    out_of_reach: Mapping[JobId, DeadlineNeed]
    reserved: float = 0.0
    content: float | None = None


def _at_fixed_rate(rate: Rate, assignments: Mapping[GroupKey, GroupAssignment]) -> ShareSolution:
    """The money of jobs that choose at a fixed exchange rate, whatever their choices cost."""
    return ShareSolution(
        allowed=inf,
        planned=sum(assignment.spend for assignment in assignments.values()),
        rate=rate,
        feasible=True,
        surplus=False,
        committable=inf,
        jobs=sum(assignment.group.active for assignment in assignments.values()),
    )


def solve_budget(budget: Budget, inputs: PlanInputs) -> BudgetSolution:
    """Solve the budget's θ* for the load of its jobs.

    If a what-if tries another amount, the load is estimated with the real amount.
    """
    snapshot, memo = inputs.snapshot, inputs.memo
    now = snapshot.now
    groups = inputs.groups.get(budget.id, {})
    nodes = {pool: here for (payer, pool), here in inputs.nodes.items() if payer == budget.id}
    pacing, calibration, in_period = _pacing_and_calibration(budget, groups.values(), nodes, inputs)
    meant = replace(budget, amount=snapshot.real_amounts.get(budget.id, budget.amount))
    load = budget_load(groups, snapshot.profiles, inputs.menus[budget.id], meant, pacing.horizon, now, memo)
    without_money = budget.penniless and not snapshot.needs_money(budget)
    free = pacing.aim - pacing.spent - pacing.still_committed + (_PLENTY * pacing.horizon if without_money else 0.0)
    allowed = _PLENTY if without_money else allowed_rate(pacing)

    def solved(name: str, part: float) -> _SolvedShare:
        """The solution for the jobs of a share with the part ``part`` of the money."""
        of_share = load.of_share(name)
        members = [group for key, group in groups.items() if key.share == name]
        needs, out_of_reach = deadline_needs(members, of_share.groups, free * part, inputs, nodes, budget)
        if budget.fixed_rate is not None:
            given = {key: assign_at_rate(group, budget.fixed_rate, memo) for key, group in of_share.groups.items()}
            return _SolvedShare(_at_fixed_rate(budget.fixed_rate, given), given, needs, out_of_reach)
        offered = allowed * part
        solution = solve_for_plausible_loads(of_share, calibration, pacing.horizon, offered)
        needs = beyond_given(needs, of_share.groups, solution.rate, inputs, nodes)
        left, reserved = offered, sum(need.extra for need in needs.values()) / pacing.horizon
        if reserved:
            left = max(offered - reserved, 0.0)
            solution = solve_for_plausible_loads(of_share, calibration, pacing.horizon, left)
        waiting = sum(need.extra for need in needs.values() if need.job.allocation is None)
        surplus = solution.fit is BudgetFit.SURPLUS
        money = ShareSolution(
            allowed=0.0 if without_money else left,
            planned=solution.spend,
            rate=solution.rate,
            feasible=solution.fit is not BudgetFit.INFEASIBLE or in_sight_fits(of_share, calibration, left),
            surplus=surplus,
            committable=max(pacing.committable * part - waiting, 0.0),
            jobs=sum(group.active for group in of_share.groups.values()),
        )
        numbered = enumerate(of_share.groups.items())
        assigned = {key: assign(group, solution, number, memo) for number, (key, group) in numbered}
        takes = solution.spend + reserved
        content = takes / allowed if surplus and takes < offered else None
        return _SolvedShare(money, assigned, needs, out_of_reach, reserved, content)

    parts = {name: part for name, part in parts_of(budget.job_shares).items() if name in load.shares}
    found = divided(parts, solved) if parts else {}
    shares = {name: each.money for name, each in found.items()}
    by_key = {key: assignment for each in found.values() for key, assignment in each.assignments.items()}
    assignments = {key: by_key[key] for key in load.groups}
    needs = {job: need for each in found.values() for job, need in each.needs.items()}
    waiting = sum(need.extra for need in needs.values() if need.job.allocation is None)
    reserved = sum(each.reserved for each in found.values())
    return BudgetSolution(
        budget=budget,
        inputs=inputs,
        groups=groups,
        nodes=nodes,
        now=now,
        spent=in_period,
        period_end=budget.calendar.bounds(now)[1],
        allowed=0.0 if without_money else max(allowed - reserved, 0.0),
        planned=sum(share.planned for share in shares.values()),
        rate=max([share.rate for share in shares.values()], default=budget.fixed_rate or Rate(0.0)),
        feasible=all(share.feasible for share in shares.values()),
        surplus=budget.fixed_rate is None and all(share.surplus for share in shares.values()),
        committable=max(pacing.committable - waiting, 0.0),
        assignments=assignments,
        pacing=pacing,
        calibration=calibration,
        arrivals=load.arrivals,
        shares=shares,
        deadline_needs=needs,
        out_of_reach={job: need for each in found.values() for job, need in each.out_of_reach.items()},
    )
