"""The answer of ``charterer plan`` for accounts that may read only one namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.time import Instant, format_instant
from charterer.sentences import count
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.one_namespace import (
    OwnJob,
    OwnJobs,
    compared_json,
    in_words,
    source_json,
    source_sentence,
)
from charterer.tools.commands.shared.output import JsonValue, copied
from charterer.tools.documents.document import (
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


def own_plan_document(own: OwnJobs, most: int) -> Document:
    """Make a row for each job that has not ended. At most ``most`` jobs are shown, 0 for all."""
    jobs = unfinished(own)
    blocks: list[Block] = [Paragraph(source_sentence(_oldest(jobs), own.now), Tone.FAINT)]
    shown = jobs[: most or None]
    if shown:
        blocks += [Heading(f"Jobs of namespace {own.namespace}"), _table(shown)]
    else:
        blocks.append(Paragraph(f"Namespace {own.namespace} has no TrainingJob that has not ended."))
    if len(jobs) > len(shown):
        blocks.append(Paragraph(f"and {count(len(jobs) - len(shown), 'more job')}: --jobs 0 shows all", Tone.FAINT))
    return Document("charterer plan", tuple(blocks))


def own_plan_json(own: OwnJobs) -> Mapping[str, JsonValue]:
    """Return all jobs that have not ended as JSON."""
    jobs = unfinished(own)
    return {
        "at": format_instant(own.now),
        "source": source_json(_oldest(jobs)),
        "namespace": own.namespace,
        "jobs": [_job_json(job) for job in jobs],
    }


def unfinished(own: OwnJobs) -> Sequence[OwnJob]:
    """Return the jobs that have not ended."""
    return [job for job in own.jobs if job.job is None or job.job.finish is None]


def _oldest(jobs: Sequence[OwnJob]) -> Instant | None:
    return min((job.view.options_as_of for job in jobs if job.view.options_as_of is not None), default=None)


def _table(jobs: Sequence[OwnJob]) -> DocumentTable:
    columns = (
        TableColumn("JOB"),
        TableColumn("STATE"),
        TableColumn("GPUS", right=True),
        TableColumn("POOL"),
        TableColumn("WHY"),
        TableColumn("ETA", optional=True),
        TableColumn("COST", right=True),
        TableColumn("BEST OPTION", elastic=True),
    )
    return DocumentTable(columns, tuple(_row(job) for job in jobs))


def _row(own: OwnJob) -> tuple[TableCell, ...]:
    view, best = own.view, own.best
    option = "-"
    if best is not None:
        cost = "-" if best.cost_left is None else str(best.cost_left)
        option = f"{in_words(best)}: {output.duration(best.seconds_left)} for {cost}"
    return row(
        own.name,
        "new" if view.state is None else str(view.state),
        str(view.gpus or "-"),
        view.pool or "-",
        view.why or "-",
        "-" if view.eta is None else output.when(view.eta),
        "-" if view.cost is None else str(view.cost),
        option,
    )


def _job_json(own: OwnJob) -> JsonValue:
    view = own.view
    return {
        **copied(own, "name state=view.state"),
        "gpus": view.gpus or 0,
        **copied(view, "pool budget reason=why"),
        "message": own.why or None,
        "eta": None if view.eta is None else format_instant(view.eta),
        **copied(view, "cost"),
        "best": None if own.best is None else compared_json(own.best),
    }
