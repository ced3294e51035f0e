"""The answer of ``charterer explain`` from a job's status, for accounts that may not read the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import BOTTLENECKS, Condition, ConditionStatus
from charterer.api.models.compared_option import ComparedOption
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import JobState
from charterer.cli.explain.document import LIMITS, TONES, headline, held_up_blocks
from charterer.cli.explain.explain_json import held_up_json
from charterer.cli.shared import formatting
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.own_jobs import OwnJob, compared_json, in_words, source_json, source_sentence
from charterer.controller.status.job_options import RULED_OUT
from charterer.domain.money import ZERO
from charterer.domain.time import Instant, format_instant
from charterer.policy.explain.alternatives import Rank
from charterer.report.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Paragraph,
    TableCell,
    TableColumn,
    Tone,
    row,
)
from charterer.sentences import is_or_are

_MAY_HAVE_OPTIONS = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.RESIZING)


def own_document(own: OwnJob, now: Instant, *, every: bool) -> Document:
    """What the status says of the job; ``every``: also the options that are both slower and dearer than its own."""
    view = own.view
    blocks: list[Block] = [
        Paragraph(summary(own, now), Tone.STRONG),
        Paragraph(source_sentence(view.options_as_of, now), Tone.FAINT),
    ]
    if own.why and not _ended(own):
        blocks.append(Paragraph(f"{'It waits' if own.is_waiting else 'Why'} ({view.why}): {own.why}."))
    blocks += [Paragraph(f"{found.message}.", Tone.CHANGED) for found in troubles(own) if found.message != own.why]
    for limit in limits_of(own):
        tone = Tone.CHANGED if limit.status is ConditionStatus.FALSE else Tone.PLAIN
        blocks.append(Paragraph(f"{LIMITS[limit.type]}: {limit.message}.", tone))
    blocks += held_up_blocks(held_up(own))
    if change := resizing(own):
        blocks.append(Paragraph(change))
    if view.options:
        blocks += _options(view.options, every=every)
    elif view.options_as_of is None and view.budget is not None and view.state in _MAY_HAVE_OPTIONS:
        blocks.append(Paragraph("Its options are not compared yet: ask again in half a minute.", Tone.FAINT))
    return Document(f"charterer explain {own.namespace}/{own.name}", tuple(blocks))


def own_json(own: OwnJob, now: Instant) -> Mapping[str, JsonValue]:
    """The same for programs, under the keys of the whole answer as far as the status has them."""
    view = own.view
    ruled_out = [option for option in view.options if option.verdict == RULED_OUT]
    return {
        "at": format_instant(now),
        "source": source_json(view.options_as_of),
        "namespace": own.namespace,
        "name": own.name,
        "state": None if view.state is None else str(view.state),
        "summary": summary(own, now),
        "reason": view.why,
        "message": own.why or None,
        "troubles": [{"reason": found.reason, "message": found.message} for found in troubles(own)],
        "limits": {
            limit.type: {"status": str(limit.status), "reason": limit.reason, "message": limit.message}
            for limit in limits_of(own)
        },
        "heldUp": held_up_json(held_up(own)),
        "resizing": resizing(own) or None,
        "budget": view.budget,
        "options": [compared_json(option) for option in view.options if option not in ruled_out],
        "ruledOut": [compared_json(option) for option in ruled_out],
    }


def summary(own: OwnJob, now: Instant) -> str:
    """The job's present state, or its end, in one sentence."""
    if own.view.state is None:
        return f"No operator has looked at TrainingJob {own.namespace}/{own.name} yet."
    if own.job is None:
        return f"TrainingJob {own.namespace}/{own.name} is {own.view.state}."
    return headline(own.job, own.view.state, ZERO if own.view.cost is None else own.view.cost, now)


def troubles(own: OwnJob) -> Sequence[Condition]:
    """The conditions that say what is wrong with the job's object or its pods."""
    return [*filter(None, (own.objection, None if _ended(own) else own.not_starting))]


def limits_of(own: OwnJob) -> Sequence[Condition]:
    """The conditions of the job's targetCompletionTime and maxCost, where it has them."""
    return [found for found in own.view.conditions if found.type in LIMITS and found.message != own.why]


def held_up(own: OwnJob) -> Sequence[ToldBottleneck]:
    """What holds the job's run up."""
    told = (found for found in own.view.conditions if found.type in BOTTLENECKS)
    return [ToldBottleneck(found.type, found.reason, found.message) for found in told]


def resizing(own: OwnJob) -> str:
    """How far a change of its size is, and why, as a sentence; empty where there is none."""
    told = own.condition(ConditionType.RESIZING)
    if told is None or told.status is not ConditionStatus.TRUE or not told.message:
        return ""
    return f"It is resized: {told.message}."


def _ended(own: OwnJob) -> bool:
    return own.view.state in (JobState.COMPLETE, JobState.FAILED, JobState.CANNOT_START)


def _options(options: Sequence[ComparedOption], *, every: bool) -> list[Block]:
    ruled_out = all(option.verdict == RULED_OUT for option in options)
    shown = [option for option in options if every or option.verdict != Rank.WORSE]
    hidden = len(options) - len(shown)
    columns = (
        TableColumn(""),
        TableColumn("OPTION"),
        TableColumn("GPU TYPE", optional=True),
        TableColumn("$/H", right=True),
        TableColumn("TIME LEFT", right=True),
        TableColumn("COST LEFT", right=True),
        TableColumn("PER HOUR SAVED", right=True),
        TableColumn("VERDICT"),
        TableColumn("RULED OUT BY" if ruled_out else "NODES", elastic=ruled_out),
    )
    what = ", cheapest first, and what rules each of them out" if ruled_out else ", cheapest first"
    blocks: list[Block] = [
        Heading(f"Its options{what}"),
        DocumentTable(columns, tuple(_row(option) for option in shown)),
    ]
    if hidden:
        text = f"and {hidden} that {is_or_are(hidden)} both slower and dearer: --all shows them"
        blocks.append(Paragraph(text, Tone.FAINT))
    return blocks


def _row(option: ComparedOption) -> tuple[TableCell, ...]:
    tone = TONES.get(option.verdict, Tone.PLAIN)
    cells = row(
        "*" if option.verdict == Rank.CHOSEN else "",
        in_words(option),
        option.gpu_type or "-",
        "-" if option.hourly is None else formatting.hourly(option.hourly),
        formatting.duration(option.seconds_left),
        "-" if option.cost_left is None else str(option.cost_left),
        "-" if option.per_hour_saved is None else str(option.per_hour_saved),
        option.verdict,
        option.message if option.verdict == RULED_OUT else option.nodes or "-",
    )
    return tuple(TableCell(cell.text, tone) for cell in cells)
