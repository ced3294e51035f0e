"""``charterer plan`` as JSON or YAML. Seconds are numbers, and dollars are decimal strings as in the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from charterer.controller.status.jobs import job_state, why_word
from charterer.domain.budget import GPU_HOUR, OTHERS, Budget
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.plan import Stage
from charterer.domain.snapshot import NO_LIMITS, Snapshot
from charterer.domain.time import after, format_instant
from charterer.ledger.balance import current_rate
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.limits import OperatorRoom
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.document import commitments_json, shown_jobs, spent_json, without_json
from charterer.tools.commands.shared.output import (
    JsonValue,
    copied,
    dollars_json,
    late_pool_json,
    option_json,
    rate_json,
)
from charterer.tools.commands.shared.plan_report import Action, ClassRow, PlanReport
from charterer.tools.frontier import Frontier, FrontierPoint, mean_seconds

_EFFECT = """
    budget meanCompletionSecondsBefore=seconds_before meanCompletionSeconds=seconds moreSpent jobsInSight=jobs
    jobsWithOtherGpus=changed
"""
_FORECAST = "forecast=forecast.expected forecastLow=forecast.low forecastHigh=forecast.high"
_FAMILY = f"amount spent committed hourlyAtMost=hourly {_FORECAST}"
"""Keys of a budget's sums together with all budgets below it."""
_SCARCE = "limit nodes gpuHourWorth=scarcity nodeHourWorth=node_scarcity jobsWait=short"


def plan_json(answer: PlanAnswer) -> dict[str, JsonValue]:
    """Return the whole plan. For a what-if, add the plan without it and the actions that differ."""
    report = answer.report
    plain: dict[str, JsonValue] = {"at": format_instant(report.snapshot.now), **_plain(report)}
    if answer.before is not None:
        plain["whatIf"] = {
            "changes": list(answer.changes),
            "effects": [copied(effect, _EFFECT) for effect in answer.effects],
            "actionsAdded": _actions(answer.added),
            "actionsDropped": _actions(answer.dropped),
            "asItIs": _plain(answer.before),
        }
    return plain


def _plain(report: PlanReport) -> dict[str, JsonValue]:
    return {
        "actions": _actions(report.actions),
        "budgets": [_budget(solution, report) for solution in report.solutions],
        "operatorLimits": _limits(report.snapshot),
        "scarcePools": [
            {"name": name, **copied(verdict, _SCARCE)} for name, verdict in sorted(report.plan.pools.items())
        ],
        "latePools": [late_pool_json(name, wait) for name, wait in report.late_pools.items()],
        "classes": [_class(job_class) for job_class in report.classes],
        "jobs": [_job(job, report) for job in shown_jobs(report)],
        "problems": [copied(problem, "kind namespace name field message") for problem in report.snapshot.problems],
    }


def _actions(actions: Iterable[Action]) -> JsonValue:
    return [copied(action, "action=kind subject how=what why count onlyObserved=observed") for action in actions]


def _budget(solution: BudgetSolution, report: PlanReport) -> JsonValue:
    budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
    return {
        **copied(budget, "name=id mode amount"),
        "period": budget.calendar.period.value,
        "aim": budget.in_period_of(solution.now).aim.decimal(),
        "inCurrency": _in_currency(budget, verdict.spent),
        "parent": budget.parent,
        "withDescendants": None if verdict.with_descendants is None else copied(verdict.with_descendants, _FAMILY),
        "loans": [copied(loan, "lender borrower amount") for loan in verdict.loans],
        "shares": [
            {
                "name": share.name or OTHERS,
                "part": share.part,
                "jobs": share.jobs,
                "allowedPerHour": share.allowed.decimal(),
                "plannedPerHour": share.planned.decimal(),
                "paysPerHourSaved": rate_json(share.rate),
                "feasible": share.feasible,
            }
            for share in verdict.shares
        ],
        "gpuHours": [
            {
                "gpuType": hours.gpu_type,
                "amount": hours.amount / GPU_HOUR,
                "used": hours.used / GPU_HOUR,
                "committed": hours.committed / GPU_HOUR,
                "released": hours.released / GPU_HOUR,
            }
            for hours in verdict.gpu_hours
        ],
        "spent": verdict.spent.decimal(),
        "spentFor": spent_json(budget, report),
        **copied(verdict, "committed inSight toCome commitmentsToCome=commitments"),
        "commitments": commitments_json(budget, report),
        "arrivals": copied(verdict.arrivals, "perHour basis batches"),
        **copied(verdict, _FORECAST),
        "allowedPerHour": verdict.allowed.decimal(),
        "nowPerHour": current_rate(budget.id, report.snapshot.rentals.values()).decimal(),
        "plannedPerHour": verdict.planned.decimal(),
        "paysPerHourSaved": rate_json(verdict.rate),
        "feasible": verdict.feasible,
        "meanCompletionSeconds": mean_seconds(solution),
        "moreOrLess": _more_or_less(report.frontiers[budget.id]),
        "withoutCapacity": without_json(report.without.get(budget.id, ())),
    }


def _in_currency(budget: Budget, spent: Money) -> JsonValue:
    """Return the amount and the spending in the budget's currency, null for dollars."""
    currency = budget.currency
    if currency is None:
        return None
    return {
        "currency": currency.code,
        "perDollar": Money(currency.per_dollar).decimal(),
        "asOf": currency.as_of.isoformat(),
        "amount": currency.units(budget.amount).decimal(),
        "spent": currency.units(spent).decimal(),
    }


def _limits(snapshot: Snapshot) -> JsonValue:
    """Return the operator's global limits and what counts against them, null if there are no limits."""
    limits = snapshot.limits
    if limits == NO_LIMITS:
        return None
    return copied(limits, "nodes hourly") | copied(OperatorRoom(snapshot), "hasNodes=nodes hasHourly=hourly")


def _more_or_less(frontier: Frontier) -> JsonValue:
    """Return amounts and what they buy, null without jobs or history."""
    if not frontier.told:
        return None
    return {
        "smallestSufficient": frontier.cheapest.decimal(),
        "largestUseful": frontier.fastest.decimal(),
        "amounts": [_bought(point) for point in frontier.times()],
    }


def _bought(point: FrontierPoint) -> JsonValue:
    return {
        **copied(point, "times=factor amount spends=spend"),
        "paysPerHourSaved": rate_json(point.rate),
        **copied(point, "fit meanCompletionSeconds=mean_seconds secondsSavedByOneMoreDollar=seconds_per_dollar"),
        **copied(point, "partOfLoadServed=served poolsHaveRoom=room"),
    }


def _class(job_class: ClassRow) -> JsonValue:
    return {
        "budget": job_class.budget,
        "class": str(job_class.class_id),
        **copied(job_class, "weight arrivalsPerHour seconds"),
        "cost": dollars_json(job_class.dollars),
        "paths": [{"partOfJobs": path.fraction, "stages": _stages(path.stages)} for path in job_class.paths],
    }


def _stages(stages: Sequence[Stage]) -> JsonValue:
    return [{"untilPartOfWork": stage.until, **option_json(stage.option)} for stage in stages]


def _job(job: Job, report: PlanReport) -> JsonValue:
    verdict, now = report.plan.jobs.get(job.id), report.snapshot.now
    left = None if verdict is None else verdict.remaining_seconds
    return {
        "namespace": job.namespace,
        "name": job.name,
        "state": str(job_state(job)),
        "budget": job.budget,
        **copied(job, "has=allocation.option"),
        **copied(verdict, "wants=option secondsLeft=remaining_seconds"),
        "startsAbout": None
        if verdict is None or not verdict.starts_in
        else format_instant(after(now, verdict.starts_in)),
        "endsAbout": None if verdict is None or left is None else format_instant(after(now, verdict.starts_in + left)),
        "reason": None if verdict is None else why_word(job, verdict, report.problems_of(job)),
        **copied(verdict, "message=reason.message"),
    }
