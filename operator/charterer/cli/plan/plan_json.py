"""``charterer plan`` as JSON or YAML: seconds as numbers, dollars as decimal strings like those of the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from charterer.cli.plan.document import different, shown_jobs
from charterer.cli.shared.json_values import dollars_json, option_json, rate_json
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.plan_report import Action, ClassRow, PlanReport
from charterer.controller.status.jobs import job_state
from charterer.domain.job import Job
from charterer.domain.plan import PoolVerdict, Stage
from charterer.domain.time import after, format_instant
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import Frontier, FrontierPoint, mean_seconds


def plan_json(thought: PlanReport, before: PlanReport | None, changes: Sequence[str]) -> dict[str, JsonValue]:
    """The whole plan; with ``before`` also what it was without the what-if and which actions that makes."""
    plain: dict[str, JsonValue] = {"at": format_instant(thought.snapshot.now), **_plain(thought)}
    if before is not None:
        more, fewer = different(thought, before)
        plain["whatIf"] = {
            "changes": list(changes),
            "actionsAdded": _actions(more),
            "actionsDropped": _actions(fewer),
            "asItIs": _plain(before),
        }
    return plain


def _plain(thought: PlanReport) -> dict[str, JsonValue]:
    return {
        "actions": _actions(thought.actions),
        "budgets": [_budget(standing, thought) for standing in thought.standings],
        "scarcePools": [_pool(name, verdict) for name, verdict in sorted(thought.plan.pools.items())],
        "classes": [_class(one) for one in thought.classes],
        "jobs": [_job(job, thought) for job in shown_jobs(thought)],
        "problems": [
            {"kind": one.kind, "namespace": one.namespace, "name": one.name, "field": one.field, "message": one.message}
            for one in thought.snapshot.problems
        ],
    }


def _actions(actions: Iterable[Action]) -> JsonValue:
    return [
        {
            "action": str(one.kind),
            "subject": one.subject,
            "how": one.what,
            "why": one.why,
            "count": one.count,
            "onlyObserved": one.observed,
        }
        for one in actions
    ]


def _budget(standing: BudgetSolution, thought: PlanReport) -> JsonValue:
    budget, verdict = standing.budget, thought.plan.budgets[standing.budget.id]
    return {
        "name": budget.id,
        "mode": str(budget.mode),
        "amount": budget.amount.decimal(),
        "spent": verdict.spent.decimal(),
        "committed": verdict.committed.decimal(),
        "forecast": verdict.forecast.decimal(),
        "forecastLow": verdict.forecast_low.decimal(),
        "forecastHigh": verdict.forecast_high.decimal(),
        "allowedPerHour": verdict.allowed.decimal(),
        "plannedPerHour": verdict.planned.decimal(),
        "paysPerHourSaved": rate_json(verdict.rate),
        "feasible": verdict.feasible,
        "meanCompletionSeconds": mean_seconds(standing),
        "moreOrLess": _more_or_less(thought.frontiers[budget.id]),
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
    if frontier.empty:
        return None
    return {
        "smallestSufficient": frontier.cheapest.decimal(),
        "largestUseful": frontier.fastest.decimal(),
        "amounts": [_bought(one) for one in frontier.times()],
    }


def _bought(one: FrontierPoint) -> JsonValue:
    return {
        "times": one.factor,
        "amount": one.amount.decimal(),
        "spends": one.spend.decimal(),
        "paysPerHourSaved": rate_json(one.rate),
        "fit": str(one.fit),
        "meanCompletionSeconds": one.mean_seconds,
        "secondsSavedByOneMoreDollar": one.seconds_per_dollar,
        "partOfLoadServed": one.served,
    }


def _class(one: ClassRow) -> JsonValue:
    return {
        "budget": one.budget,
        "class": str(one.class_id),
        "weight": one.weight,
        "arrivalsPerHour": one.arrivals_per_hour,
        "seconds": one.seconds,
        "cost": dollars_json(one.dollars),
        "paths": [{"partOfJobs": path.fraction, "stages": _stages(path.stages)} for path in one.paths],
    }


def _stages(stages: Sequence[Stage]) -> JsonValue:
    return [{"untilPartOfWork": stage.until, **option_json(stage.option)} for stage in stages]


def _job(job: Job, thought: PlanReport) -> JsonValue:
    verdict = thought.plan.jobs.get(job.id)
    left = None if verdict is None else verdict.remaining_seconds
    return {
        "namespace": job.namespace,
        "name": job.name,
        "state": str(job_state(job)),
        "budget": job.budget,
        "has": None if job.allocation is None else option_json(job.allocation.option),
        "wants": None if verdict is None or verdict.option is None else option_json(verdict.option),
        "secondsLeft": left,
        "endsAbout": None if left is None else format_instant(after(thought.snapshot.now, left)),
        "reason": None if verdict is None else str(verdict.reason.why),
        "message": None if verdict is None else verdict.reason.message,
    }
