"""``charterer explain`` says why a job has its width and pool, and what would make another option better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from charterer.api.models.base import BOTTLENECKS, Condition, ConditionStatus
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import ComparedOption, JobState
from charterer.api.names import ConditionType
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.status.jobs import RULED_OUT
from charterer.domain.job import Job
from charterer.domain.money import ZERO
from charterer.domain.time import Instant, format_instant
from charterer.lifecycle.adopted import not_adopted_because
from charterer.policy.explain.alternatives import Alternative, LeftAlone, Rank, WinningChange
from charterer.policy.explain.ruled_out import RuledOut
from charterer.tools.commands.explain.answer import Explanation, JobNow, explain_job
from charterer.tools.commands.explain.document import (
    LIMITS,
    counted,
    explain_document,
    first_blocks,
    headline,
    job_now,
    late_pools,
    options_blocks,
    sessions_sentence,
)
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.cluster import ClusterOptions, MayNotRead, call, cluster_options, read
from charterer.tools.commands.shared.completion import job_names, namespace_names
from charterer.tools.commands.shared.one_namespace import (
    JobName,
    OwnJob,
    compared_json,
    in_words,
    job_name,
    none_of,
    own_job,
    source_json,
    source_sentence,
    why_not_adopted,
)
from charterer.tools.commands.shared.output import (
    FORMATS,
    JsonValue,
    announce_when_slow,
    copied,
    dollars_json,
    emit,
    late_pool_json,
    option_json,
    rate_json,
    with_warnings,
)
from charterer.tools.commands.shared.plan_report import PlanReport, plan_report, with_trials
from charterer.tools.documents.document import (
    Block,
    Document,
    Paragraph,
    TableColumn,
    Tone,
)

# The answer as JSON or YAML.


def explain_json(explanation: Explanation) -> Mapping[str, JsonValue]:
    """Return the whole answer with all options. ``options`` is null if the plan does not include the job."""
    job, options = explanation.job, explanation.options
    now = job_now(explanation)
    return {
        "at": format_instant(explanation.report.snapshot.now),
        **copied(now, _WHAT_AND_WHY),
        **_conditions(now),
        "notStarting": explanation.not_starting or None,
        "sessions": sessions_sentence(job) or None,
        **copied(job, "budget weight"),
        "paysPerHourSaved": rate_json(explanation.rate),
        "share": job.share or None,
        **copied(options, "workSecondsLeft=position.left workKnown=known_work"),
        "options": None if options is None else [_option(option, explanation) for option in options.rows],
        "node": None if explanation.node is None else copied(explanation.node, "rental gpus empty hourly=price"),
        "ruledOut": [_ruled_out(each) for each in explanation.ruled_out],
        "latePools": [late_pool_json(name, wait) for name, wait in late_pools(explanation).items()],
        "moreNodes": [copied(more, "pool nodes option otherJobs=others") for more in explanation.more_nodes],
        "leftAlone": None if options is None else [_left_alone(width) for width in options.left_alone],
        "unusedVariants": {unused.name: unused.why for unused in options.unused} if options is not None else None,
        "changes": None if options is None else [_change(change) for change in options.changes],
    }


_WHAT_AND_WHY = "namespace name state summary reason message"


def _conditions(job: JobNow) -> Mapping[str, JsonValue]:
    return {
        "limits": {limit.type: copied(limit, "status reason message") for limit in job.limits},
        "heldUp": {found.kind: copied(found, "reason message") for found in job.held_up},
        "resizing": job.resizing or None,
    }


def _option(option: Alternative, explanation: Explanation) -> JsonValue:
    return {
        **option_json(option.option),
        "chosen": option.rank is Rank.CHOSEN,
        **copied(option, "secondsLeft=seconds secondsUntilNode=launch_delay secondsUntilFree=room_wait"),
        "costLeft": dollars_json(option.dollars),
        "costOfEmptyGPUs": dollars_json(option.empty),
        "perHourSaved": None if option.per_hour_saved is None else dollars_json(option.per_hour_saved),
        **copied(option, "rank speed=option.speed speedIs=basis reports nodes"),
        "held": option.held or None,
        "counts": [copied(figure, "what howMuch=much known") for figure in counted(option, explanation)],
    }


def _ruled_out(found: RuledOut) -> JsonValue:
    option = {"pool": found.pool} if found.option is None else option_json(found.option)
    return {
        **option,
        "secondsLeft": found.seconds,
        "costLeft": None if found.dollars is None else dollars_json(found.dollars),
        "why": found.why,
    }


def _left_alone(width: LeftAlone) -> JsonValue:
    return {
        **copied(width, "gpuType gpus variant"),
        "until": None if width.until is None else format_instant(width.until),
        "message": width.message,
    }


def _change(change: WinningChange) -> JsonValue:
    return {
        **option_json(change.to),
        "paysPerHourSaved": rate_json(change.rate),
        **copied(change, "nodeHourly=node_price workSecondsLeft=work"),
    }


# The answer from a job's status, for accounts that may not read the whole cluster.


_MAY_HAVE_OPTIONS = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.RESIZING)


def own_document(own: OwnJob, now: Instant, *, every: bool) -> Document:
    """Make a document from the job's status.

    ``every`` includes options that are both slower and dearer than the chosen one.
    """
    view = own.view
    source = Paragraph(source_sentence(view.options_as_of, now), Tone.FAINT)
    wrong = [found.message for found in troubles(own) if found.message != own.why]
    blocks = first_blocks(own_job_now(own, now), wrong, [source])
    if view.options:
        blocks += _options(view.options, every=every)
    elif view.options_as_of is None and view.budget is not None and view.state in _MAY_HAVE_OPTIONS:
        blocks.append(Paragraph("Its options are not compared yet: ask again in half a minute.", Tone.FAINT))
    return Document(f"charterer explain {own.namespace}/{own.name}", tuple(blocks))


def own_json(own: OwnJob, now: Instant) -> Mapping[str, JsonValue]:
    """Return the status as JSON, with the keys of ``explain_json`` as far as the status has the data."""
    job, options = own_job_now(own, now), own.view.options
    ruled_out = [option for option in options if option.verdict == RULED_OUT]
    return {
        "at": format_instant(now),
        "source": source_json(own.view.options_as_of),
        **copied(job, _WHAT_AND_WHY),
        "troubles": [copied(found, "reason message") for found in troubles(own)],
        **_conditions(job),
        "budget": job.budget,
        "options": [compared_json(option) for option in options if option not in ruled_out],
        "ruledOut": [compared_json(option) for option in ruled_out],
    }


def own_job_now(own: OwnJob, now: Instant) -> JobNow:
    """Return the present state of the job from its status."""
    view, resizing, ended = own.view, own.condition(ConditionType.RESIZING), _ended(own)
    if view.state is None:
        summary = f"No operator has looked at TrainingJob {own.namespace}/{own.name} yet."
    elif own.job is None:
        summary = f"TrainingJob {own.namespace}/{own.name} is {view.state}."
    else:
        summary = headline(own.job, view.state, ZERO if view.cost is None else view.cost, now)
    changes = resizing is not None and resizing.status is ConditionStatus.TRUE and resizing.message
    return JobNow(
        own.namespace,
        own.name,
        view.state,
        summary,
        view.why,
        own.why or None,
        "" if ended or not own.why else "It waits" if own.is_waiting else "Why",
        [found for found in view.conditions if found.type in LIMITS and found.message != own.why],
        [
            ToldBottleneck(found.type, found.reason, found.message)
            for found in view.conditions
            if found.type in BOTTLENECKS
        ],
        f"It is resized: {changes}." if changes else "",
        view.budget,
    )


def troubles(own: OwnJob) -> Sequence[Condition]:
    """Return the conditions that report faults of the job's object or pods."""
    return [*filter(None, (own.objection, None if _ended(own) else own.not_starting))]


def _ended(own: OwnJob) -> bool:
    return own.view.state in (JobState.COMPLETE, JobState.FAILED, JobState.CANNOT_START)


def _options(options: Sequence[ComparedOption], *, every: bool) -> list[Block]:
    ruled_out = all(option.verdict == RULED_OUT for option in options)
    shown = [option for option in options if every or option.verdict != Rank.WORSE]
    columns = (
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
    rows = [(option.verdict, _cells(option)) for option in shown]
    return options_blocks(f"Its options{what}", columns, rows, len(options) - len(shown))


def _cells(option: ComparedOption) -> Sequence[str]:
    return (
        in_words(option),
        option.gpu_type or "-",
        "-" if option.hourly is None else output.hourly(option.hourly),
        output.duration(option.seconds_left),
        "-" if option.cost_left is None else str(option.cost_left),
        "-" if option.per_hour_saved is None else str(option.per_hour_saved),
        option.verdict,
        option.message if option.verdict == RULED_OUT else option.nodes or "-",
    )


@click.command()
@click.argument("name", metavar="[KIND/]NAME", shell_complete=job_names)
@click.option("-n", "--namespace", shell_complete=namespace_names, help="The job's. Default: the context's.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option("--all", "every", is_flag=True, help="Also show options that are both slower and dearer than the job's.")
@cluster_options
def explain(name: str, namespace: str | None, output: str, every: bool, cluster: ClusterOptions) -> None:
    """Explain why a job has this many GPUs of this pool now: every option that it has, in time and money.

    The chosen option is marked with *. It is the right one if it saves hours for less than the budget pays for them,
    and no further hour can be saved at that price. A "too dear" option would save hours at a higher price. Compared
    with a "too slow" option, the chosen option saves hours at a lower price. The last section says what would have to
    change for the nearest options to win.

    \b
      charterer explain sft
      charterer explain tj/sft -n research
      charterer explain job/whisper
      charterer explain sft -o json | jq '.options[] | select(.rank == "too dear")'

    It changes nothing: a template that the operator has not tried yet is tried by a dry run.

    If you may not read the whole cluster, it shows what the operator wrote into the job's status, at most 8 options.

    Exit code: 0, or 1 for an error such as a job that does not exist.
    """
    found = explained(cluster, job_name(name), namespace, every=every)
    emit(found.document, found.plain, output)


class Explained(NamedTuple):
    """The answer for people and for programs."""

    document: Document
    plain: Mapping[str, JsonValue]


def explained(cluster: ClusterOptions, job: JobName, namespace: str | None, *, every: bool = False) -> Explained:
    """Explain why a job has its GPUs. An account that may not read the whole cluster gets what the job's status says.

    Raises ClickException if there is no such job. ``every``: the document also has options that are both slower and
    dearer.
    """
    try:
        reading = read(cluster)
    except MayNotRead:
        own = own_job(cluster, job, namespace)
        (of_it,) = own.jobs
        return Explained(own_document(of_it, own.now, every=every), own_json(of_it, own.now))
    tried = with_trials(cluster, reading.state, {})
    with announce_when_slow("planning"):
        report = plan_report(snapshot_of(tried.state, reading.now))
    where = namespace or reading.namespace
    try:
        found = find_job(report, job, where)
    except click.ClickException as error:
        said = call(cluster, lambda client: why_not_adopted(client, job, where)) if job.kind else ""
        raise click.ClickException(error.message + said) from error
    decoded = reading.state.jobs.get(ObjectKey(found.namespace, found.name))
    held_up, not_starting = ((), "") if decoded is None else (decoded.held_up, decoded.not_starting)
    explanation = explain_job(report, found, held_up, not_starting)
    document = with_warnings(explain_document(explanation, every=every), (reading.trouble, *tried.warnings))
    return Explained(
        document, {**explain_json(explanation), "nobodyActs": reading.trouble or None, "warnings": tried.warnings}
    )


def find_job(report: PlanReport, name: JobName, namespace: str) -> Job:
    """Find the job by name.

    If there is no such job, raises ClickException. Its message gives the reason, similar names, or other namespaces
    that have such a job.
    """
    snapshot = report.snapshot
    meant = [job for job in snapshot.jobs.values() if name.means(job.name, job.target)]
    for job in meant:
        if job.namespace == namespace:
            return job
    for problem in snapshot.problems:
        if (problem.kind, problem.namespace, problem.name) == ("TrainingJob", namespace, name.name) and not name.kind:
            raise click.ClickException(
                f"TrainingJob {namespace}/{name.name} cannot be read: {problem.field}: {problem.message}"
            )
    for each in snapshot.candidates:
        target = each.target
        if (
            target.namespace == namespace
            and name.means("", target.ref)
            and (why := not_adopted_because(each, snapshot))
        ):
            raise click.ClickException(f"{name} in namespace {namespace} is not adopted: {why}")
    if elsewhere := sorted(job.namespace for job in meant):
        hint = f"there is one in {', '.join(elsewhere[:3])}: add -n {elsewhere[0]}"
        raise click.ClickException(f"no {name} in namespace {namespace}: {hint}")
    there = [job.name for job in snapshot.jobs.values() if job.namespace == namespace]
    raise click.ClickException(none_of(name, namespace, there))
