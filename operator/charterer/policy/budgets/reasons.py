"""Reasons: what an option takes and costs, what the next one would, and what the budget pays a second."""

from __future__ import annotations

from charterer.domain.budget import Budget
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import BudgetVerdict, Reason, ReasonCode
from charterer.domain.reasons import facts_of_options as of
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.facts import Wanted
from charterer.domain.reasons.facts_of_waits import LateNodes
from charterer.domain.time import Instant, seconds_between
from charterer.policy.nodes.pool_quota import LaunchWait
from charterer.policy.options.option_value import JobPosition, Move, OptionValues, Projection
from charterer.policy.solve.phase_dp import key_of
from charterer.sentences import count


def late(pool: PoolId, wait: LaunchWait) -> LateNodes:
    """How late a pool is expected to give a node."""
    return LateNodes(pool, wait.expected, wait.probation)


def no_history(verdict: BudgetVerdict) -> str:
    """``assumed: 9 jobs in sight, 1 batch; no history. If nothing else comes, the month ends at $562.00``."""
    came = verdict.arrivals
    if not came.jobs and not came.batches:
        return f"no jobs yet. If none comes, the month ends at {ends_at_least(verdict)}"
    batches = f"{came.batches} batch{'' if came.batches == 1 else 'es'}"
    return (
        f"assumed: {count(came.jobs, 'job')} in sight, {batches}; no history. If nothing else comes, the month ends at "
        f"{ends_at_least(verdict)}"
    )


def ends_at_least(verdict: BudgetVerdict) -> Money:
    """The dollars at the month's end, if nothing comes beside the jobs in sight."""
    return verdict.spent + verdict.in_sight + verdict.commitments


def of_share(budget: Budget) -> str:
    """``its amount is $800.00 of the $1,000.00 of spec.amount: ...``; empty where it has all of it."""
    share = budget.share
    if share is None or share.given is None or not share.scaled:
        return ""
    return (
        f"its amount is {share.in_all} of the {share.declared} of spec.amount: the budgets below GPUBudget "
        f"{budget.parent} ask for {share.siblings} together, of {share.given}"
    )


def of_first_month(budget: Budget, now: Instant) -> str:
    """``$4,600.00 of its $60,000.00 count for the rest of its first month ($83.33/h); ...``; empty later, and where it
    says what was spent before."""
    budget = budget.in_period_of(now)
    if not budget.prorated or budget.penniless:
        return ""
    seconds = max(seconds_between(budget.created, budget.period[1]), 1.0)
    part, whole = (Price.per_second(amount.dollars / seconds) for amount in (budget.counted, budget.amount))
    return (
        f"{budget.counted} of its {budget.amount} count for the rest of its first month ({part}); if all of it is for "
        f'that time ({whole}), set spec.openingSpend to "0", and otherwise to what was spent before in that month'
    )


def choice(option: Option, values: OptionValues, weight: float, position: JobPosition, *, feasible: bool) -> Reason:
    """Why a job has this option: against the next cheaper one in numbers, the next wider one as a fact."""
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
    """The rest of the job, entering the option included, as if for a new run."""
    projection = values.staying(option, position)
    time, cost = projection.seconds + option.entry_seconds, projection.dollars + option.entry_cost.dollars
    return Projection(option, time, cost, values.worth * time + cost)


def moving(move: Move, here: Option, work: float, pays: Money | None, weight: float) -> Reason:
    """Why a running job goes elsewhere; ``pays``: what the budget pays for an hour saved, None for any price."""
    facts = of.MovePays(here, work / here.speed, move.to, move.saved_seconds, move.cost, pays)
    return Reason(ReasonCode.MOVE_PAYS, weight * move.saved_seconds, move.cost, facts, here)


def waiting(code: ReasonCode, option: Option, why: Fact) -> Reason:
    """Why a job waits for an option."""
    return Reason(code, 0.0, ZERO, Wanted(option, why))
