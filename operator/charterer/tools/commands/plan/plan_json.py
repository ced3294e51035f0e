"""``charterer plan`` as JSON or YAML: seconds as numbers, dollars as decimal strings like those of the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from charterer.controller.status.jobs import job_state, why_word
from charterer.domain.budget import Budget
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.plan import PoolVerdict, SpendVerdict, Stage
from charterer.domain.snapshot import NO_LIMITS, Snapshot
from charterer.domain.time import after, format_instant
from charterer.ledger.balance import current_rate
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.limits import OperatorRoom
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.document import commitments_json, shown_jobs, spent_json, without_json
from charterer.tools.commands.shared.output import JsonValue, dollars_json, late_pool_json, option_json, rate_json
from charterer.tools.commands.shared.plan_report import Action, ClassRow, PlanReport
from charterer.tools.frontier import Frontier, FrontierPoint, mean_seconds


def plan_json(answer: PlanAnswer) -> dict[str, JsonValue]:
    """The whole plan; for a what-if also the plan without it, and the actions that differ."""
    report = answer.report
    plain: dict[str, JsonValue] = {"at": format_instant(report.snapshot.now), **_plain(report)}
    if answer.before is not None:
        plain["whatIf"] = {
            "changes": list(answer.changes),
            "effects": [
                {
                    "budget": effect.budget,
                    "meanCompletionSecondsBefore": effect.seconds_before,
                    "meanCompletionSeconds": effect.seconds,
                    "moreSpent": None if effect.more_spent is None else effect.more_spent.decimal(),
                    "jobsInSight": effect.jobs,
                    "jobsWithOtherGpus": effect.changed,
                }
                for effect in answer.effects
            ],
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
        "scarcePools": [_pool(name, verdict) for name, verdict in sorted(report.plan.pools.items())],
        "latePools": [late_pool_json(name, wait) for name, wait in report.late_pools.items()],
        "classes": [_class(job_class) for job_class in report.classes],
        "jobs": [_job(job, report) for job in shown_jobs(report)],
        "problems": [
            {
                "kind": problem.kind,
                "namespace": problem.namespace,
                "name": problem.name,
                "field": problem.field,
                "message": problem.message,
            }
            for problem in report.snapshot.problems
        ],
    }


def _actions(actions: Iterable[Action]) -> JsonValue:
    return [
        {
            "action": str(action.kind),
            "subject": action.subject,
            "how": action.what,
            "why": action.why,
            "count": action.count,
            "onlyObserved": action.observed,
        }
        for action in actions
    ]


def _budget(solution: BudgetSolution, report: PlanReport) -> JsonValue:
    budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
    forecast = verdict.forecast
    return {
        "name": budget.id,
        "mode": str(budget.mode),
        "amount": budget.amount.decimal(),
        "aim": budget.in_period_of(solution.now).aim.decimal(),
        "inCurrency": _in_currency(budget, verdict.spent),
        "parent": budget.parent,
        "withDescendants": None if verdict.with_descendants is None else _family(verdict.with_descendants),
        "loans": [
            {"lender": loan.lender, "borrower": loan.borrower, "amount": loan.amount.decimal()}
            for loan in verdict.loans
        ],
        "spent": verdict.spent.decimal(),
        "spentFor": spent_json(budget, report),
        "committed": verdict.committed.decimal(),
        "inSight": verdict.in_sight.decimal(),
        "toCome": verdict.to_come.decimal(),
        "commitmentsToCome": verdict.commitments.decimal(),
        "commitments": commitments_json(budget, report),
        "arrivals": {
            "perHour": verdict.arrivals.per_hour,
            "basis": str(verdict.arrivals.basis),
            "batches": verdict.arrivals.batches,
        },
        "forecast": None if forecast is None else forecast.expected.decimal(),
        "forecastLow": None if forecast is None else forecast.low.decimal(),
        "forecastHigh": None if forecast is None else forecast.high.decimal(),
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
    """The amount and what was spent in the currency of the budget's owner; null for dollars."""
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


def _family(family: SpendVerdict) -> JsonValue:
    """What a budget and all below it have, and may have."""
    forecast = family.forecast
    return {
        "amount": family.amount.decimal(),
        "spent": family.spent.decimal(),
        "committed": family.committed.decimal(),
        "hourlyAtMost": family.hourly.decimal(),
        "forecast": None if forecast is None else forecast.expected.decimal(),
        "forecastLow": None if forecast is None else forecast.low.decimal(),
        "forecastHigh": None if forecast is None else forecast.high.decimal(),
    }


def _limits(snapshot: Snapshot) -> JsonValue:
    """The operator's own limits, and what counts against them; null where it has none."""
    limits = snapshot.limits
    if limits == NO_LIMITS:
        return None
    room = OperatorRoom(snapshot)
    return {
        "nodes": limits.nodes,
        "hourly": None if limits.hourly is None else limits.hourly.decimal(),
        "hasNodes": room.nodes,
        "hasHourly": room.hourly.decimal(),
    }


def _pool(name: str, verdict: PoolVerdict) -> JsonValue:
    return {
        "name": name,
        "limit": str(verdict.limit),
        "nodes": verdict.nodes,
        "gpuHourWorth": verdict.scarcity.decimal(),
        "nodeHourWorth": verdict.node_scarcity.decimal(),
        "jobsWait": verdict.short,
    }


def _more_or_less(frontier: Frontier) -> JsonValue:
    """Amounts and what they buy; null where there is no job, or no history."""
    if not frontier.told:
        return None
    return {
        "smallestSufficient": frontier.cheapest.decimal(),
        "largestUseful": frontier.fastest.decimal(),
        "amounts": [_bought(point) for point in frontier.times()],
    }


def _bought(point: FrontierPoint) -> JsonValue:
    return {
        "times": point.factor,
        "amount": point.amount.decimal(),
        "spends": point.spend.decimal(),
        "paysPerHourSaved": rate_json(point.rate),
        "fit": str(point.fit),
        "meanCompletionSeconds": point.mean_seconds,
        "secondsSavedByOneMoreDollar": point.seconds_per_dollar,
        "partOfLoadServed": point.served,
        "poolsHaveRoom": point.room,
    }


def _class(job_class: ClassRow) -> JsonValue:
    return {
        "budget": job_class.budget,
        "class": str(job_class.class_id),
        "weight": job_class.weight,
        "arrivalsPerHour": job_class.arrivals_per_hour,
        "seconds": job_class.seconds,
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
        "has": None if job.allocation is None else option_json(job.allocation.option),
        "wants": None if verdict is None or verdict.option is None else option_json(verdict.option),
        "secondsLeft": left,
        "startsAbout": None
        if verdict is None or not verdict.starts_in
        else format_instant(after(now, verdict.starts_in)),
        "endsAbout": None if verdict is None or left is None else format_instant(after(now, verdict.starts_in + left)),
        "reason": None if verdict is None else why_word(job, verdict, report.problems_of(job)),
        "message": None if verdict is None else verdict.reason.message,
    }
