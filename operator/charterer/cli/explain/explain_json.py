"""The answer of ``charterer explain`` as JSON or YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from charterer.api.models.trainingjob import ToldBottleneck
from charterer.cli.explain.counted import counted
from charterer.cli.explain.document import late_pools, limits_of, summary
from charterer.cli.explain.explanation import Explanation
from charterer.cli.explain.one_more_node import MoreNodes, more_nodes
from charterer.cli.explain.regrouping import regrouping_sentence
from charterer.cli.explain.sessions import sessions_sentence
from charterer.cli.shared.json_values import dollars_json, late_pool_json, option_json, rate_json
from charterer.cli.shared.output import JsonValue
from charterer.controller.status.jobs import job_state, why_word
from charterer.domain.time import format_instant
from charterer.policy.explain.alternatives import Alternative, Rank, WinningChange
from charterer.policy.explain.job_node import JobNode
from charterer.policy.explain.left_alone import LeftAlone
from charterer.policy.explain.ruled_out import RuledOut


def explain_json(explanation: Explanation) -> Mapping[str, JsonValue]:
    """The whole answer, all options included; ``options`` is null where the job is not planned for."""
    report, job, options = explanation.report, explanation.job, explanation.options
    verdict, budget = explanation.verdict, explanation.budget
    return {
        "at": format_instant(report.snapshot.now),
        "namespace": job.namespace,
        "name": job.name,
        "state": str(job_state(job)),
        "summary": summary(report, job),
        "reason": None if verdict is None else why_word(job, verdict, report.problems_of(job)),
        "message": None if verdict is None else verdict.reason.message,
        "limits": {
            limit.type: {"status": str(limit.status), "reason": limit.reason, "message": limit.message}
            for limit in limits_of(explanation)
        },
        "heldUp": held_up_json(explanation.held_up),
        "resizing": regrouping_sentence(job) or None,
        "sessions": sessions_sentence(job) or None,
        "budget": job.budget,
        "weight": job.weight,
        "paysPerHourSaved": None if budget is None else rate_json(budget.rate),
        "workSecondsLeft": None if options is None else options.position.left,
        "workKnown": None if options is None else options.known_work,
        "options": None if options is None else [_option(option, explanation) for option in options.rows],
        "node": None if explanation.node is None else _node(explanation.node),
        "ruledOut": [_ruled_out(each) for each in explanation.ruled_out],
        "latePools": [late_pool_json(name, wait) for name, wait in late_pools(explanation).items()],
        "moreNodes": [_more_nodes(more) for more in more_nodes(explanation)],
        "leftAlone": None if options is None else [_left_alone(width) for width in options.left_alone],
        "unusedVariants": {unused.name: unused.why for unused in options.unused} if options is not None else None,
        "changes": None if options is None else [_change(change) for change in options.changes],
    }


def held_up_json(told: Iterable[ToldBottleneck]) -> JsonValue:
    """What holds the job's run up, by the type of its condition."""
    return {found.kind: {"reason": found.reason, "message": found.message} for found in told}


def _option(option: Alternative, explanation: Explanation) -> JsonValue:
    return {
        **option_json(option.option),
        "chosen": option.rank is Rank.CHOSEN,
        "secondsLeft": option.seconds,
        "secondsUntilNode": option.launch_delay,
        "secondsUntilFree": option.room_wait,
        "costLeft": dollars_json(option.dollars),
        "costOfEmptyGPUs": dollars_json(option.empty),
        "perHourSaved": None if option.per_hour_saved is None else dollars_json(option.per_hour_saved),
        "rank": str(option.rank),
        "speed": option.option.speed,
        "speedIs": str(option.basis),
        "reports": option.reports,
        "nodes": str(option.nodes),
        "held": option.held or None,
        "counts": [
            {"what": figure.what, "howMuch": figure.much, "known": figure.known}
            for figure in counted(option, explanation)
        ],
    }


def _node(node: JobNode) -> JsonValue:
    return {"rental": node.rental, "gpus": node.gpus, "empty": node.empty, "hourly": node.price.decimal()}


def _ruled_out(found: RuledOut) -> JsonValue:
    option = {"pool": found.pool} if found.option is None else option_json(found.option)
    return {
        **option,
        "secondsLeft": found.seconds,
        "costLeft": None if found.dollars is None else dollars_json(found.dollars),
        "why": found.why,
    }


def _more_nodes(more: MoreNodes) -> JsonValue:
    option = None if more.option is None else option_json(more.option)
    return {"pool": more.pool, "nodes": more.nodes, "option": option, "otherJobs": list(more.others)}


def _left_alone(width: LeftAlone) -> JsonValue:
    return {
        "gpuType": width.gpu_type,
        "gpus": width.gpus,
        "variant": width.variant,
        "until": None if width.until is None else format_instant(width.until),
        "message": width.message,
    }


def _change(change: WinningChange) -> JsonValue:
    return {
        **option_json(change.to),
        "paysPerHourSaved": rate_json(change.rate),
        "nodeHourly": None if change.node_price is None else change.node_price.decimal(),
        "workSecondsLeft": change.work,
    }
