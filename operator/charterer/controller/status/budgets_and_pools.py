"""The views of a GPUBudget and a GPUPool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from charterer.api.models.base import Condition
from charterer.api.models.gpubudget_status import (
    ATTRIBUTIONS_SHOWN,
    LOANS_SHOWN,
    ArrivalsStatus,
    BudgetState,
    DescendantsStatus,
    GPUBudgetView,
    GpuHoursStatus,
    InCurrency,
    LoanStatus,
    ShareStatus,
    SpentOn,
)
from charterer.api.models.gpupool import GPUPoolView, PoolState
from charterer.api.models.machine_state import InterruptionsStatus, LaunchesStatus
from charterer.api.names import ConditionType
from charterer.controller.status.conditions import condition, preflight, price_held, speed_guessed, stopped
from charterer.domain.budget import DAYS_CURRENT, OTHERS, Budget, Currency, Loan, Mode
from charterer.domain.budget_tree import budget_tree
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Job, Placement
from charterer.domain.money import Money, Price
from charterer.domain.plan import (
    Allocate,
    BudgetVerdict,
    ForecastVerdict,
    GpuHoursVerdict,
    Plan,
    ReasonCode,
    Rent,
    ShareVerdict,
    SpendVerdict,
    Verdict,
)
from charterer.domain.pool import InstanceState, Pool, acting_pool, no_such_slice
from charterer.domain.reasons.phrases import in_hours
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, format_instant, format_minute, seconds_between
from charterer.incremental import Memo
from charterer.ledger.attribution import attribute
from charterer.ledger.balance import current_rate
from charterer.policy.budgets.solution import ends_at_least, no_history, of_share
from charterer.policy.nodes.limits import GrantWindow
from charterer.policy.options.market import no_pool
from charterer.providers.errors import ProviderError
from charterer.providers.provider import PreflightFinding
from charterer.sentences import count, did_you_mean, names

# The view of a GPUBudget's amount: whether the budget has any, and whether the period ends within the amount.


_CENT = Money(10_000)
_LEFT_OUT_TOLD = 3
"""Most Nodes that a message names: of the Nodes left out, and of the Nodes with other pods."""


def overspent(budget: Budget, verdict: BudgetVerdict) -> bool:
    """Whether more than the amount is spent. For a parent, the spending of all budgets below it counts too."""
    family = verdict.with_descendants
    if family is not None:
        return family.spent > family.amount
    return verdict.spent > budget.aim


def why_penniless(budget: Budget) -> str:
    """The reason why the budget has no amount, and the remedy."""
    share = budget.share
    if share is None or not share.declared.micros:
        return 'spec.amount is "0": nothing can be rented; set the dollars to spend in each period'
    if share.below.micros:
        return (
            f"the budgets below it have {share.below} together, and it has {share.in_all}: nothing is left for the "
            "namespaces that it pays for itself; raise spec.amount, or lower theirs"
        )
    return f"nothing can be rented: {of_share(budget)}"


def within_budget(budget: Budget, verdict: BudgetVerdict) -> tuple[bool | None, str, str]:
    """Whether the period can end without spending more than the amount, with the reason and the message."""
    if verdict.with_descendants is not None:
        return _together(verdict.with_descendants, budget.calendar.word)
    if verdict.forecast is None:
        message = f"{no_history(verdict, budget.calendar.word)} of {budget.aim}"
        if ends_at_least(verdict) > budget.aim:
            return False, "ForecastExceedsAmount", message
        return None, "NoHistory", message
    forecast = verdict.forecast
    message = f"forecast {forecast.expected} of {budget.aim}{_interval(forecast, budget.calendar.word)}"
    return (True, "OnCourse", message) if forecast.low <= budget.aim else (False, "ForecastExceedsAmount", message)


def _together(family: SpendVerdict, word: str) -> tuple[bool | None, str, str]:
    """Whether the period can end within the amount, for a budget together with all budgets below it."""
    amount = family.amount
    if family.forecast is None:
        message = (
            f"{family.spent} of {amount} are spent with all budgets below it; how the {word} ends is not known yet"
        )
        return (False, "ForecastExceedsAmount", message) if family.spent > amount else (None, "NoHistory", message)
    interval = _interval(family.forecast, word)
    message = f"forecast {family.forecast.expected} of {amount} with all budgets below it{interval}"
    return (True, "OnCourse", message) if family.forecast.low <= amount else (False, "ForecastExceedsAmount", message)


def _interval(forecast: ForecastVerdict, word: str) -> str:
    low, high = forecast.low, forecast.high
    return "" if low == high else f"; nine {word}s in ten like this one end between {low} and {high}"


def shown_loans(loans: Sequence[Loan]) -> tuple[LoanStatus, ...]:
    """The largest loans of a cent or more."""
    largest = sorted(loans, key=lambda loan: (-loan.amount.micros, loan.lender, loan.borrower))
    return tuple([LoanStatus.from_domain(loan) for loan in largest if loan.amount >= _CENT][:LOANS_SHOWN])


# A GPUBudget's amounts in the currency in which its owner writes them.


def in_currency(budget: Budget, verdict: BudgetVerdict) -> InCurrency | None:
    """The amounts in that currency, or None for dollars."""
    if budget.currency is None:
        return None
    forecast = None if verdict.forecast is None else verdict.forecast.expected
    return InCurrency.of(budget.currency, verdict.spent, budget.aim - verdict.spent, forecast)


def rate_current(currency: Currency, now: Instant) -> tuple[bool, str, str]:
    """Whether the rate is current, with the reason and the message."""
    days = currency.days_old(now)
    if days < -1:
        return False, "RateOfTheFuture", f"spec.currencyRate is {currency}, a day still to come: correct asOf"
    if days > DAYS_CURRENT:
        message = f"spec.currencyRate is {currency}: {days} days old; set what a dollar costs now, and the day"
        return False, "RateStale", message
    return True, "RateCurrent", str(currency)


# The conditions of committed pools, and of the budgets that pay for them.


def pool_commitment(pool: Pool, snapshot: Snapshot, plan: Plan, live: int) -> Iterable[Condition]:
    """The condition on whether all nodes of a committed pool are rented, and which budget pays for them. Own nodes are
    held rather than rented. ``live``: number of the pool's nodes. A pool without a commitment has no such condition.
    """
    if pool.committed is None or pool.closed_because:
        return
    holds, reason, message = _kept(pool, snapshot, plan, live)
    yield condition(ConditionType.COMMITMENT_KEPT, holds, reason, message, snapshot.now, pool.generation)


def _kept(pool: Pool, snapshot: Snapshot, plan: Plan, live: int) -> tuple[bool, str, str]:
    assert pool.committed is not None
    name, end, field = pool.committed.budget, pool.committed.until, f"{pool.committed_in}.budget"
    budget, rented = snapshot.budgets.get(name), "rented" if pool.cloud.rents else "held"
    if budget is None:
        hint = did_you_mean(name, snapshot.budgets)
        message = f"there is no GPUBudget {name}, so nothing is {rented} in this pool: create it, or correct {field}"
        message += f"; {hint}" if hint else ""
        return False, "NoSuchBudget", message
    if not budget.pool_selector.matches(pool.labels):
        message = (
            f"GPUBudget {name} does not select this pool (spec.poolSelector: {budget.pool_selector}), so nothing is "
            f"{rented} in it: label the pool as that says, or correct {field}"
        )
        return False, "NotSelected", message
    there = f"{live} of {count(pool.max_nodes, 'node')} {'is' if live == 1 else 'are'} {rented}"
    if budget.mode is Mode.OBSERVE:
        return False, "OnlyObserved", f"GPUBudget {name} only observes (spec.mode), so {there}"
    if (refused := plan.not_rented.get(pool.id)) is not None:
        paid = "are there anyway" if end is None else f"are paid for until {format_minute(end)}"
        return False, refused.value, f"{there}, though all {paid}"
    until = "" if end is None else f" until {format_minute(end)}"
    return True, "Kept", f"{there} and kept{until}, used or not, by GPUBudget {name}"


def nodes_take_part(pool: Pool, snapshot: Snapshot, live: Sequence[Rental]) -> Iterable[Condition]:
    """The condition on whether all Nodes that a pool of own nodes selects take part, with the GPUs that other pods
    hold.
    """
    survey = snapshot.surveys.get(pool.id)
    if pool.cloud.rents or survey is None or pool.gone:
        return
    there, out = survey.offering.group_size or 0, survey.left_out
    held = [
        f"{count(node.foreign_gpus, 'GPU')} of Node {node.name}"
        for rental in live
        if rental.node is not None and (node := snapshot.nodes.get(rental.node)) is not None and node.foreign_gpus
    ]
    told = [f"{there} of {count(there + len(out), 'Node')} {'takes' if there == 1 else 'take'} part"]
    told += [each.told for each in out[:_LEFT_OUT_TOLD]]
    told += [f"{len(out) - _LEFT_OUT_TOLD} more take no part"] if len(out) > _LEFT_OUT_TOLD else []
    told += [f"pods of others hold {names(held, _LEFT_OUT_TOLD)}"] if held else []
    reason = out[0].why.value if out else "AllTakePart" if there else "NoNode"
    yield condition(
        ConditionType.NODES_TAKE_PART, reason == "AllTakePart", reason, "; ".join(told), snapshot.now, pool.generation
    )


def budget_commitments(budget: Budget, verdict: BudgetVerdict | None, snapshot: Snapshot) -> Iterable[Condition]:
    """Whether the amount and the hard limit cover the budget's commitments. A budget without commitments has no such
    condition.
    """
    if verdict is None or not snapshot.committed_to(budget):
        return
    holds, reason, message = _covered(budget, verdict)
    yield condition(ConditionType.COMMITMENTS_COVERED, holds, reason, message, snapshot.now, budget.generation)


def _covered(budget: Budget, verdict: BudgetVerdict) -> tuple[bool, str, str]:
    still = f"nodes that are paid for whether they are used or not cost {verdict.commitments} until the period's end"
    whole = verdict.spent + verdict.commitments
    if budget.limit is not None and whole > budget.limit:
        left = budget.limit - verdict.spent
        return False, "LimitBelowCommitments", f"{still}, and the hard limit leaves {left}: all nodes end before"
    if whole > budget.aim:
        return False, "AmountBelowCommitments", f"{still}, and the amount leaves {budget.aim - verdict.spent}"
    return True, "CommitmentsCovered", still


# Counts over all jobs and rentals for the views of budgets and pools, computed once for all of them.


_WAITS_FOR_MONEY = frozenset({ReasonCode.WAITING_FOR_BUDGET, ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT})


@dataclass(frozen=True, slots=True)
class _Rentals:
    """``of_budget``, ``of_pool``: all rentals. ``hourly``: the present cost of each budget's rentals. ``pools``: the
    pools of the rentals that have not ended.
    """

    of_budget: Mapping[BudgetId, Sequence[Rental]]
    of_pool: Mapping[PoolId, Sequence[Rental]]
    hourly: Mapping[BudgetId, Price]
    pools: Mapping[RentalId, PoolId]

    @classmethod
    def of(cls, rentals: Mapping[RentalId, Rental]) -> _Rentals:
        of_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
        of_pool: dict[PoolId, list[Rental]] = defaultdict(list)
        for rental in rentals.values():
            of_budget[rental.budget].append(rental)
            of_pool[rental.pool].append(rental)
        hourly = {budget: current_rate(budget, of) for budget, of in of_budget.items()}
        pools = {rental.id: rental.pool for rental in rentals.values() if rental.phase is not RentalPhase.ENDED}
        return cls(of_budget, of_pool, hourly, pools)


@dataclass(frozen=True, slots=True)
class Tally:
    """``hourly``: the present cost of each budget's nodes. ``waiting``: jobs that wait for their budget's money.

    ``gpus_in_use``: of allocations on rentals that have not ended. ``adopted``: unfinished jobs with an adopted object.
    """

    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    hourly: Mapping[BudgetId, Price]
    waiting: Mapping[BudgetId | None, int]
    gpus_in_use: Mapping[PoolId, int]
    adopted: Mapping[BudgetId | None, int]

    @classmethod
    def of(
        cls,
        jobs: Mapping[JobId, Job],
        rentals: Mapping[RentalId, Rental],
        verdicts: Mapping[JobId, Verdict],
        memo: Memo | None = None,
    ) -> Tally:
        """Count what has changed, in time linear in jobs, placements and rentals if all is new."""
        memo = Memo() if memo is None else memo
        known = memo(_Rentals.of, rentals)
        waits = memo.stable(memo.each(_waits_for_money, verdicts), "waits")
        placed = memo.stable(memo.each(_placed, jobs), "placed")
        return cls(
            known.of_budget,
            known.of_pool,
            known.hourly,
            memo(_waiting, waits, jobs),
            memo(_gpus, placed, known.pools),
            memo(_adopted_jobs, jobs),
        )


def _waits_for_money(verdict: Verdict) -> bool:
    return verdict.reason.code in _WAITS_FOR_MONEY


def _waiting(waits: Mapping[JobId, bool], jobs: Mapping[JobId, Job]) -> Mapping[BudgetId | None, int]:
    return Counter([jobs[job].budget for job, waiting in waits.items() if waiting])


def _placed(job: Job) -> tuple[Placement, ...]:
    return () if job.allocation is None else job.allocation.placements


def _gpus(placed: Mapping[JobId, tuple[Placement, ...]], pools: Mapping[RentalId, PoolId]) -> Mapping[PoolId, int]:
    gpus: Counter[PoolId] = Counter()
    for placements in placed.values():
        for placement in placements:
            if placement.rental in pools:
                gpus[pools[placement.rental]] += placement.gpus
    return gpus


def _adopted_jobs(jobs: Mapping[JobId, Job]) -> Mapping[BudgetId | None, int]:
    return Counter([job.budget for job in jobs.values() if job.target is not None and job.finish is None])


_ERROR_STATES = {
    "GroupNotFound": PoolState.GROUP_NOT_FOUND,
    "CapacityTypeDiffers": PoolState.CAPACITY_TYPE_DIFFERS,
    "NoPrice": PoolState.NO_PRICE,
}
"""State of a pool whose cloud answers but whose spec is wrong or incomplete, by the error's code."""
_RENTS = (PoolState.READY, PoolState.FULL, PoolState.COOLING)
"""States in which nodes of a pool are requested now or later, unless somebody has stopped the operator."""
_FRESH_SECONDS = 900.0
"""Age in seconds up to which a quote counts as fresh. An older quote means that fifteen attempts in a row failed."""


def budget_view(budget: Budget, snapshot: Snapshot, plan: Plan, tally: Tally) -> GPUBudgetView:
    """The view of a budget as of now, without its attribution. ``dated`` sets its conditions' transition times."""
    verdict = plan.budgets.get(budget.id)
    budget = budget if verdict is None else replace(budget, loans=verdict.loans)
    forecast = None if verdict is None else verdict.forecast
    family = None if verdict is None else verdict.with_descendants
    rentals, waiting = tally.rentals_of_budget.get(budget.id, ()), tally.waiting.get(budget.id, 0)
    return GPUBudgetView(
        observed_generation=budget.generation,
        state=_budget_state(budget, snapshot, verdict, waiting),
        spent=None if verdict is None else verdict.spent,
        committed=None if verdict is None else verdict.committed,
        adopted=_adopted(budget.id, snapshot, tally) or None,
        in_sight=None if verdict is None else verdict.in_sight,
        to_come=None if verdict is None else verdict.to_come,
        arrivals=None if verdict is None else ArrivalsStatus.from_domain(verdict.arrivals),
        forecast=None if forecast is None else forecast.expected,
        forecast_low=None if forecast is None else forecast.low,
        forecast_high=None if forecast is None else forecast.high,
        loans=() if verdict is None else shown_loans(verdict.loans),
        shares=() if verdict is None else tuple([_share(share) for share in verdict.shares]),
        gpu_hours=() if verdict is None else tuple([_gpu_hours(hours) for hours in verdict.gpu_hours]),
        gpu_hours_used="" if verdict is None else gpu_hours_used(verdict),
        with_descendants=None if family is None else DescendantsStatus.from_domain(family),
        effective_amount=None if budget.share is None else budget.share.in_all,
        remaining=None if verdict is None else budget.aim - verdict.spent,
        hourly=tally.hourly.get(budget.id, Price(0)),
        pays_per_hour_saved=None if verdict is None or verdict.rate is None else Money.of(verdict.rate * 3600),
        in_currency=None if verdict is None else in_currency(budget, verdict),
        attribution=(),
        conditions=_budget_conditions(budget, snapshot, plan, rentals, waiting),
    )


def _share(share: ShareVerdict) -> ShareStatus:
    return ShareStatus(
        name=share.name or OTHERS,
        part=round(share.part, 4),
        jobs=share.jobs,
        hourly=Money(share.allowed.micros_per_hour),
        planned=Money(share.planned.micros_per_hour),
        pays_per_hour_saved=Money.of(share.rate * 3600),
        queues=not share.feasible,
    )


def _gpu_hours(hours: GpuHoursVerdict) -> GpuHoursStatus:
    return GpuHoursStatus(
        gpu_type=hours.gpu_type,
        amount=hours.amount,
        used=hours.used,
        committed=hours.committed,
        released=hours.released,
    )


def gpu_hours_used(verdict: BudgetVerdict) -> str:
    """What is used of each amount of GPU-hours, such as ``1,204.5 of 2,000.0 H100``."""
    return ", ".join(
        [f"{in_hours(hours.used)} of {in_hours(hours.amount)} {hours.gpu_type}" for hours in verdict.gpu_hours]
    )


def within_gpu_hours(budget: Budget, verdict: BudgetVerdict, snapshot: Snapshot) -> tuple[bool, str, str]:
    """Whether no amount of GPU-hours is used up and each is for a GPU type of a pool, with reason and message."""
    types = set(snapshot.gpu_types.values())
    silent = any(pool.offering is None for pool in snapshot.pools.values())
    unknown = [hours.gpu_type for hours in budget.gpu_hours if hours.gpu_type not in types]
    if unknown and not silent:
        hint = did_you_mean(unknown[0], types)
        there = f"they have {names(sorted(types), _TYPES_TOLD)}" if types else "there is none"
        message = f"no GPUPool has GPUs of type {unknown[0]}, which spec.gpuHours names ({there}): correct gpuType"
        return False, "UnknownGpuType", f"{message}; {hint}" if hint else message
    told = f"of their GPU-hours are used {gpu_hours_used(verdict)}"
    ends = format_minute(budget.in_period_of(snapshot.now).period[1])
    for hours in verdict.gpu_hours:
        if hours.committed + _STARTS > hours.amount:
            message = f"{told}: {hours.gpu_type} is used up; raise its amount, or wait for the next period ({ends})"
            return False, "GpuHoursUsed", message
    return True, "GpuHoursLeft", told


_STARTS = 15 * 60 * 1_000_000
"""GPU-microseconds below which no run of one GPU begins: useful time, and the margins of an orderly end."""
_TYPES_TOLD = 10
"""Most GPU types that a message names."""


def _adopted(budget: BudgetId, snapshot: Snapshot, tally: Tally) -> int:
    """The number of adopted objects that only Charterer would restore to what their authors wrote."""
    held = [each.target for each in snapshot.candidates if each.budget == budget and each.target.held]
    return tally.adopted.get(budget, 0) + len([each for each in held if each.ended is None])


def attributed(view: GPUBudgetView, budget: Budget, snapshot: Snapshot) -> GPUBudgetView:
    """The view with the attribution of costs. The attribution is the slowest part of the view, because its time is
    linear in all runs of all jobs.
    """
    largest = attribute(budget, snapshot)[:ATTRIBUTIONS_SHOWN]
    return view.model_copy(update={"attribution": tuple(SpentOn(name=name, spent=amount) for name, amount in largest)})


def _budget_state(budget: Budget, snapshot: Snapshot, verdict: BudgetVerdict | None, waiting: int) -> BudgetState:
    if budget.deleting:
        return BudgetState.DELETING
    if budget.begins_after(snapshot.now):
        return BudgetState.CLOCK_BEHIND
    if verdict is not None and verdict.parent_fault is not None:
        return BudgetState.INVALID
    if verdict is not None and budget.closed_at(snapshot.now):
        return BudgetState.CLOSED
    if no_pool(budget, snapshot.pools):
        return BudgetState.NO_POOL
    if budget.id in snapshot.pays_nowhere:
        return BudgetState.NO_NAMESPACE
    if budget.mode is Mode.OBSERVE:
        return BudgetState.OBSERVING
    if snapshot.stop is not None:
        return BudgetState.STOPPED
    too_small = snapshot.needs_money(budget) or (verdict is not None and not verdict.feasible)
    if too_small or _hourly_too_low(budget, snapshot):
        return BudgetState.TOO_SMALL
    if verdict is not None and overspent(budget, verdict):
        return BudgetState.OVERSPENT
    return BudgetState.LIMITED if waiting else BudgetState.READY


def _budget_conditions(
    budget: Budget, snapshot: Snapshot, plan: Plan, rentals: Sequence[Rental], waiting: int
) -> tuple[Condition, ...]:
    verdict = plan.budgets.get(budget.id)
    observed = partial(condition, now=snapshot.now, generation=budget.generation)
    conditions = [observed(ConditionType.READY, *_budget_ready(budget, snapshot, plan, len(rentals), waiting))]
    if verdict is not None:
        conditions.append(observed(ConditionType.WITHIN_BUDGET, *within_budget(budget, verdict)))
    overlap = snapshot.overlaps.get(budget.id)
    if overlap is not None:
        conditions.append(observed(ConditionType.OVERLAPS, True, "NamespaceShared", overlap))
    if budget.currency is not None:
        observed_rate = rate_current(budget.currency, snapshot.now)
        conditions.append(observed(ConditionType.CURRENCY_RATE_CURRENT, *observed_rate))
    if budget.gpu_hours and verdict is not None:
        observed_hours = within_gpu_hours(budget, verdict, snapshot)
        conditions.append(observed(ConditionType.WITHIN_GPU_HOURS, *observed_hours))
    if any(share.user is not None for share in budget.job_shares):
        conditions.append(observed(ConditionType.USERS_KNOWN, *_users_known(snapshot.cost_recording.users)))
    if left := _left_running(budget, rentals):
        conditions.append(observed(ConditionType.LEFT_RUNNING, True, "NoLimitHolds", left))
    if snapshot.cost_recording.place:
        conditions.append(observed(ConditionType.COSTS_RECORDED, *_costs_recorded(snapshot.cost_recording.refused)))
    conditions += budget_commitments(budget, verdict, snapshot)
    return (*conditions, _prices(budget, snapshot), *stopped(snapshot, budget.generation))


def _users_known(known: bool) -> tuple[bool, str, str]:
    if known:
        return True, "UsersWritten", "an admission policy writes who creates a job, so shares of users have their jobs"
    message = (
        "who creates a job is not known, so shares of users have no jobs: the chart's costRecord.users is false, or "
        "the API server serves no MutatingAdmissionPolicy; share by namespace or label, or let it"
    )
    return False, "UsersUnknown", message


def _costs_recorded(refused: str) -> tuple[bool, str, str]:
    if refused:
        return False, "RecordRefuses", f"rentals that have ended stay until their cost is on record: {refused}"
    return True, "RecordWritten", "what rentals cost is put on record"


def _budget_ready(budget: Budget, snapshot: Snapshot, plan: Plan, rentals: int, waiting: int) -> tuple[bool, str, str]:
    """Whether the budget is ready, with the reason and the message."""
    verdict = plan.budgets.get(budget.id)
    if budget.deleting:
        return False, "Draining", _waits_for_rentals(rentals)
    if budget.balance is not None and budget.begins_after(snapshot.now):
        message = (
            f"its period began at {format_instant(budget.balance.period_start)}, and the clock shows "
            f"{format_instant(snapshot.now)}: nothing new is rented or started until it is right; check the clocks of "
            "the operator's node and of the API server"
        )
        return False, "ClockBehind", message
    if (fault := _fault("GPUBudget", budget.id, plan)) is not None:
        return False, fault.reason, fault.message
    if (forbidden := _may_not_spend(budget, snapshot, verdict)) is not None:
        return False, *forbidden
    if (lacking := no_pool(budget, snapshot.pools)) is not None:
        return False, "NoPool", lacking.sentence()
    if nowhere := snapshot.pays_nowhere.get(budget.id):
        return False, "NoNamespace", f"{nowhere}: nothing is rented; label a namespace so, or change it"
    if snapshot.needs_money(budget):
        return False, "ZeroAmount", why_penniless(budget)
    if too_low := _hourly_too_low(budget, snapshot):
        return False, "HourlyLimitTooLow", too_low
    if verdict is not None and not verdict.feasible:
        now = f" ({waiting} {'waits' if waiting == 1 else 'wait'} for money now)" if waiting else ""
        message = (
            f"the cheapest options of its jobs cost {verdict.planned}, and {verdict.allowed} is left for each hour of "
            f"the period: jobs queue{now}"
        )
        return False, "TooSmall", message
    if budget.mode is Mode.OBSERVE:
        return True, "Observing", _would(budget, snapshot, plan)
    if budget.unreadable:
        message = f"costs of classes are learned anew, because what was learned cannot be read: {budget.unreadable}"
        return True, "StatisticsUnreadable", message
    return True, "Enforcing", of_share(budget)


def _may_not_spend(budget: Budget, snapshot: Snapshot, verdict: BudgetVerdict | None) -> tuple[str, str] | None:
    """Reason and message if the budget's parents or its grant forbid new spending, otherwise None."""
    if verdict is None:
        return None
    if verdict.parent_fault is not None:
        return "ParentUnknown", f"{verdict.parent_fault.sentence()}; what runs goes on"
    closed = GrantWindow(budget, 0, 0.0, snapshot.now).closed
    return None if closed is None else ("OutsideGrant", closed.sentence())


def _waits_for_rentals(rentals: int) -> str:
    """A sentence on what an object in deletion waits for."""
    return f"being deleted: waits until its {_ended(rentals)}"


def _ended(rentals: int) -> str:
    return f"{count(rentals, 'rental')} {'has' if rentals == 1 else 'have'} ended"


def _hourly_too_low(budget: Budget, snapshot: Snapshot) -> str:
    """A sentence if ``maxHourlyRate`` is too low for any node: the lowest value of the budget and those above it is
    below each pool's worst price. Otherwise "".
    """
    worst = {name: pool.quote.worst for name, pool in snapshot.pools_of(budget).items() if pool.quote is not None}
    known = snapshot.known_budgets
    line = (budget.id,) if budget.parent is None else budget_tree(known).with_parents(budget.id)
    limits = {name: limit for name in line if (limit := known[name].max_hourly_rate) is not None}
    lowest = min(limits, key=lambda each: limits[each], default=None)
    if lowest is None or not worst or min(worst.values()) <= limits[lowest]:
        return ""
    whose = "" if lowest == budget.id else f" of GPUBudget {lowest}"
    name = min(worst, key=lambda each: worst[each])
    return (
        f"spec.maxHourlyRate{whose} is {limits[lowest]}, and a node of the cheapest GPUPool, {name}, may cost "
        f"{worst[name]}: nothing can be rented until it is raised"
    )


def _fault(kind: str, name: str, plan: Plan) -> Problem | None:
    """The problem that made planning fail because of the object, or None."""
    return next((problem for problem in plan.problems if (problem.kind, problem.name) == (kind, name)), None)


def _would(budget: Budget, snapshot: Snapshot, plan: Plan) -> str:
    """A sentence on the actions that mode Enforce would take now."""
    rents = [each for each in plan.observed_commands if isinstance(each, Rent) and each.budget == budget.id]
    quotes = [quote for each in rents if (quote := snapshot.pools[each.pool].quote) is not None]
    hourly = Price(sum(quote.price.micros_per_hour for quote in quotes))
    place = [
        command
        for command in plan.observed_commands
        if isinstance(command, Allocate) and snapshot.jobs[command.job].budget == budget.id
    ]
    waiting = sum(job.budget == budget.id and job.wants_to_run for job in snapshot.jobs.values())
    acts = [f"rent {count(len(rents), 'more node')} for {hourly}"] * bool(rents)
    acts += [f"place {count(len(place), 'job')}"] * bool(place)
    now = f"it would {' and '.join(acts)} now" if acts else "it would do nothing now either"
    jobs = f"{count(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}" if waiting else "no job waits"
    return f"mode Observe: nothing is rented or changed; {jobs}, and {now}"


def _left_running(budget: Budget, rentals: Sequence[Rental]) -> str:
    """A sentence on the nodes of a budget in mode Observe, whose cost nothing limits, or "" if there are none."""
    left = [rental for rental in rentals if rental.phase is not RentalPhase.ENDED]
    if budget.mode is not Mode.OBSERVE or not left:
        return ""
    hourly = Price(sum(rental.price.micros_per_hour for rental in left))
    return (
        f"mode Observe ends nothing: {count(len(left), 'node')} ({names(rental.id for rental in left)}) "
        f"{'costs' if len(left) == 1 else 'cost'} {hourly}, and no limit of this budget holds, not even the hard one: "
        "set spec.mode: Enforce, which uses them or gives them back, or end all nodes: charterer stop --drain"
    )


def _prices(budget: Budget, snapshot: Snapshot) -> Condition:
    observed = partial(condition, ConditionType.PRICE_DATA_FRESH, now=snapshot.now, generation=budget.generation)
    pools = snapshot.pools_of(budget)
    if not pools:
        lacking = no_pool(budget, snapshot.pools)
        return observed(None, "NoPool", "there is no GPUPool" if lacking is None else lacking.sentence())
    quotes = {pool.id: pool.quote for pool in pools.values() if pool.quote and not pool.closed_because}
    stale = [name for name, quote in quotes.items() if seconds_between(quote.as_of, snapshot.now) > _FRESH_SECONDS]
    if not quotes:
        return observed(False, "NoPrice", "no pool's price is known: see the condition Ready of the GPUPools")
    if not stale:
        return observed(True, "Fresh", "the prices of all pools that are used are known")
    message = f"no fresh price of {', '.join(sorted(stale)[:5])}: see the condition Ready of the GPUPool"
    return observed(False, "Stale", message)


def pool_view(
    pool: Pool,
    plan: Plan,
    tally: Tally,
    errors: Mapping[PoolId, ProviderError],
    findings: Sequence[PreflightFinding],
    snapshot: Snapshot,
) -> GPUPoolView:
    """The view of a pool as of now. ``dated`` sets the transition times of its conditions."""
    rentals = tally.rentals_of_pool.get(pool.id, ())
    live = [rental for rental in rentals if rental.phase is not RentalPhase.ENDED]
    state, reason, message = _pool_state(pool, snapshot, errors.get(pool.id), len(live), len(rentals))
    fault = _fault("GPUPool", pool.id, plan)
    if fault is not None and state in (PoolState.READY, PoolState.FULL):
        state, reason, message = PoolState.UNKNOWN, fault.reason, fault.message
    ready = condition(
        ConditionType.READY,
        None if state is PoolState.UNKNOWN else state in (PoolState.READY, PoolState.FULL),
        reason,
        message,
        snapshot.now,
        pool.generation,
    )
    held = () if pool.price_held is None else (price_held(pool, pool.price_held, snapshot),)
    return GPUPoolView(
        observed_generation=pool.generation,
        state=PoolState.STOPPED if snapshot.stop is not None and state in _RENTS else state,
        nodes=len(live),
        most_nodes=pool.max_nodes,
        ready_nodes=sum(rental.phase is RentalPhase.READY for rental in live),
        gpus_in_use=tally.gpus_in_use.get(pool.id, 0),
        scarcity_price=Price(0) if (verdict := plan.pools.get(pool.id)) is None else verdict.scarcity,
        interruptions=_interruptions(pool),
        launches=_launches(pool, snapshot.now),
        next_end=_next_end(pool, snapshot),
        conditions=(
            *(ready, *held, *pool_commitment(pool, snapshot, plan, len(live)), *nodes_take_part(pool, snapshot, live)),
            *speed_guessed(pool, snapshot),
            *preflight(pool, findings, snapshot),
        ),
    )


def pool_states(errors: Mapping[PoolId, ProviderError], snapshot: Snapshot) -> Mapping[PoolId, PoolState]:
    """The states of all pools."""
    rentals = Counter(rental.pool for rental in snapshot.rentals.values())
    live = Counter(rental.pool for rental in snapshot.rentals.values() if rental.phase is not RentalPhase.ENDED)
    states = {}
    for name, pool in snapshot.pools.items():
        states[name], _, _ = _pool_state(pool, snapshot, errors.get(name), live[name], rentals[name])
    return states


def _next_end(pool: Pool, snapshot: Snapshot) -> str:
    """The next known end of nodes and the number of nodes that end then, or "" if no end is known."""
    survey = snapshot.surveys.get(pool.id)
    there = (InstanceState.PENDING, InstanceState.RUNNING)
    live = [] if survey is None else [each for each in survey.instances if each.state in there]
    ends = [format_minute(each.ends) for each in live if each.ends and each.ends > snapshot.now]
    return f"{min(ends)}: {count(ends.count(min(ends)), 'node')}" if ends else ""


def _launches(pool: Pool, now: Instant) -> LaunchesStatus | None:
    """The summary of refusals and starts. None before the first refusal or start, or if launches do not count for the
    pool.
    """
    return LaunchesStatus.from_domain(pool, now) if pool.known_launches.at is not None else None


def _interruptions(pool: Pool) -> InterruptionsStatus | None:
    """The rate at which nodes are taken back. None if no node is expected to be taken back and none was."""
    return None if pool.hazard is None or pool.hazard.never else InterruptionsStatus.from_domain(pool.hazard)


def _pool_state(
    pool: Pool, snapshot: Snapshot, error: ProviderError | None, live: int, rentals: int
) -> tuple[PoolState, str, str]:
    if pool.gone:
        message = f"a former GPUPool {pool.id} named another group: waits until its {_ended(rentals)}"
        return PoolState.GROUP_TAKEN, "GroupTaken", message
    if pool.deleting:
        if rentals and not live:
            message = f"being deleted: its {_ended(rentals)}; waits until the cloud's list can show no machine of them"
            return PoolState.DELETING, "Draining", message
        return PoolState.DELETING, "Draining", _waits_for_rentals(rentals)
    if pool.taken_by is not None and (pool.offering is not None or error is None):
        message = (
            f"the cloud says that its group is that of GPUPool {pool.taken_by}, {_precedes(pool, snapshot)}, so "
            "nothing is rented here: delete one of the two"
        )
        return PoolState.GROUP_TAKEN, "GroupTaken", message
    if error is not None:
        state = _ERROR_STATES.get(error.code, PoolState.UNREACHABLE)
        return state, error.reason if state is PoolState.UNREACHABLE else state.value, error.said
    if pool.id not in snapshot.surveys:
        return PoolState.UNKNOWN, "NotAskedYet", "the cloud has not answered yet"
    unread = snapshot.unread_rental(pool.id)
    if unread is not None:
        message = (
            f"GPURental {unread.name} cannot be read ({unread.field}: {unread.message}): its machine is billed, and "
            "nothing is rented in this pool until the status is corrected, or the version that wrote it runs again"
        )
        return PoolState.INVALID, ReasonCode.RENTAL_UNREADABLE.value, message
    if pool.partition is not None and pool.offering is None:
        message = no_such_slice(snapshot.surveys[pool.id].offering.gpu_type, pool.partition.profile)
        return PoolState.INVALID, "NoSuchSlice", message
    if (cooling := pool.cooling(snapshot.now)) is not None:
        whose = "" if cooling.by is None else f"GPUPool {cooling.by} was refused what this pool asks for: "
        return PoolState.COOLING, cooling.kind.value, f"{whose}{cooling.code}: {cooling.message}"
    if live >= pool.max_nodes and pool.cloud.rents:
        return PoolState.FULL, "MaxNodesReached", f"{pool.most_nodes} are rented or asked for"
    return PoolState.READY, "Available", ""


def _precedes(pool: Pool, snapshot: Snapshot) -> str:
    """A clause on why the other pool, and not this one, acts for the machines."""
    acting = snapshot.pools.get(acting_pool(pool.id, snapshot.pools))
    if acting is not None and acting.offering is not None and pool.offering is None:
        return "for which the cloud answered first"
    if acting is not None and acting.created == pool.created:
        return "which was created in the same second and comes first by name"
    return "which is older"
