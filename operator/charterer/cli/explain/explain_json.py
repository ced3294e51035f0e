"""What ``charterer explain`` says as JSON or YAML."""

from __future__ import annotations

from charterer.cli.explain.document import headline
from charterer.cli.shared.json_values import dollars_json, option_json, rate_json
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.plan_report import PlanReport
from charterer.controller.status.jobs import job_state
from charterer.domain.job import Job
from charterer.domain.time import format_instant
from charterer.policy.explain.alternatives import Alternative, Alternatives, LeftAlone, Rank, WinningChange


def explain_json(thought: PlanReport, job: Job, options: Alternatives | None) -> JsonValue:
    """The whole answer, all options included; ``options`` is null where the job is not planned for."""
    verdict = thought.plan.jobs.get(job.id)
    budget = thought.plan.budgets.get(job.budget) if job.budget is not None else None
    return {
        "at": format_instant(thought.snapshot.now),
        "namespace": job.namespace,
        "name": job.name,
        "state": str(job_state(job)),
        "summary": headline(thought, job),
        "reason": None if verdict is None else str(verdict.reason.why),
        "message": None if verdict is None else verdict.reason.message,
        "budget": job.budget,
        "weight": job.weight,
        "paysPerHourSaved": None if budget is None else rate_json(budget.rate),
        "workSecondsLeft": None if options is None else options.position.left,
        "workKnown": None if options is None else options.known_work,
        "options": None if options is None else [_option(one) for one in options.rows],
        "leftAlone": None if options is None else [_left_alone(one) for one in options.left_alone],
        "changes": None if options is None else [_change(one) for one in options.changes],
    }


def _option(one: Alternative) -> JsonValue:
    return {
        **option_json(one.option),
        "chosen": one.rank is Rank.CHOSEN,
        "secondsLeft": one.seconds,
        "costLeft": dollars_json(one.dollars),
        "roomHourly": one.room_price.decimal(),
        "roomLeft": dollars_json(one.room),
        "perHourSaved": None if one.per_hour_saved is None else dollars_json(one.per_hour_saved),
        "rank": str(one.rank),
        "speed": one.option.speed,
        "speedIs": str(one.basis),
        "reports": one.reports,
        "nodes": str(one.nodes),
    }


def _left_alone(one: LeftAlone) -> JsonValue:
    return {
        "gpuType": one.gpu_type,
        "gpus": one.gpus,
        "until": None if one.until is None else format_instant(one.until),
        "message": one.message,
    }


def _change(one: WinningChange) -> JsonValue:
    return {
        **option_json(one.to),
        "paysPerHourSaved": rate_json(one.rate),
        "nodeHourly": None if one.node_price is None else one.node_price.decimal(),
        "workSecondsLeft": one.work,
    }
