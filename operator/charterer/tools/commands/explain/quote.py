"""``charterer quote`` says what a job would cost and when it would end, before the job is submitted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from charterer.api.models.base import dump
from charterer.api.models.trainingjob import QuoteSpec
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.plan import BudgetVerdict
from charterer.domain.reasons.phrases import format_duration, format_money, name
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, Weekday, after, day_bounds, format_second, seconds_between, weekday
from charterer.policy.explain.alternatives import Comparison
from charterer.policy.explain.quote import Choice, Estimate, estimates
from charterer.sentences import count, names
from charterer.tools.commands.explain.answer import Explanation, explain_job
from charterer.tools.commands.explain.document import counted, first_blocks, job_now, ruled_out_blocks
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.cluster import ClusterOptions, ClusterReading, cluster_options, read
from charterer.tools.commands.shared.completion import namespace_names
from charterer.tools.commands.shared.options import TimeType
from charterer.tools.commands.shared.output import (
    CANNOT_RUN,
    FORMATS,
    TOO_LATE,
    JsonValue,
    announce_when_slow,
    copied,
    dollars_json,
    emit,
    option_json,
    with_warnings,
)
from charterer.tools.commands.shared.plan_report import PlanReport, plan_report, with_trials
from charterer.tools.commands.shared.what_if import (
    ManifestSource,
    apply_objects,
    manifest_sources,
    planned_and_left_out,
    written_jobs,
)
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Item,
    Items,
    Paragraph,
    TableCell,
    TableColumn,
    Tone,
    row,
)

# The answer compares a plan with the job to a plan without it.


@dataclass(frozen=True, slots=True)
class Delay:
    """Another job that would end ``seconds`` later. None means that it would wait for an unknown time."""

    job: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ByThen:
    """Feasibility of a completion time ``target``. ``estimate`` is for the option that the planner then chooses.

    ``earliest`` is the end on the fastest option. ``met`` says whether the job is expected to end by ``target`` at a
    cost that the budget pays.
    """

    target: Instant
    estimate: Estimate | None
    earliest: Instant | None
    met: bool


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """The quote. ``estimates`` are in order of ``Choice``. If the job cannot run, they are empty, and ``explanation``
    says why.

    ``delays`` are the delays of other jobs, if the job runs at the budget's rate. ``before`` is the budget's verdict
    without the job.
    """

    explanation: Explanation
    estimates: Sequence[Estimate]
    delays: Sequence[Delay]
    before: BudgetVerdict | None
    by: ByThen | None = None

    @property
    def now(self) -> Instant:
        """The time of the quote."""
        return self.explanation.report.snapshot.now

    @property
    def own(self) -> Estimate | None:
        """The estimate for the requested completion time. If that time cannot be met, the estimate at the budget's
        rate.

        None if there is no such estimate.
        """
        if self.by is not None and self.by.met:
            return self.by.estimate
        return _chosen(self.estimates, Choice.BUDGET)

    @property
    def kept(self) -> JobQuote | None:
        """The quote as stored in the job's spec. Cents and seconds are rounded outwards, so that the interval only
        grows.
        """
        if self.own is None:
            return None
        told = self.own.told(self.now)
        low, high = told.cost_low.micros // _CENT * _CENT, -(-told.cost_high.micros // _CENT) * _CENT
        ends = told.end_low, told.end_high
        if ends[0] is not None and ends[1] is not None:
            ends = Instant(ends[0] // _SECOND * _SECOND), Instant(-(-ends[1] // _SECOND) * _SECOND)
        return JobQuote(Instant(told.at // _SECOND * _SECOND), Money(low), Money(high), *ends)

    @property
    def exit_code(self) -> int:
        """0 if the job can run and is expected to end in time, otherwise CANNOT_RUN or TOO_LATE."""
        if not self.estimates:
            return CANNOT_RUN
        return TOO_LATE if self.by is not None and not self.by.met else 0


_CENT, _SECOND = 10_000, 1_000_000


def _chosen(found: Iterable[Estimate], choice: Choice) -> Estimate | None:
    """Return the estimate of this choice, or None if there is none."""
    return next((each for each in found if each.choice is choice), None)


def quote_job(snapshot: Snapshot, without: Snapshot, job_id: JobId, by: Instant | Weekday | None) -> QuoteAnswer:
    """Quote a job of the snapshot. ``without`` is the same snapshot without the job."""
    before, report = plan_report(without), plan_report(snapshot)
    job = report.snapshot.jobs.get(job_id, snapshot.jobs[job_id])
    explanation = explain_job(report, job)
    found = _estimates(explanation)
    known = None if job.budget is None else before.plan.budgets.get(job.budget)
    answer = QuoteAnswer(explanation, found, _delays(report, before, job.id) if found else (), known)
    if by is None or not found or explanation.solution is None:
        return answer
    target = _instant(by, explanation.solution.budget.calendar.time_zone, snapshot.now)
    return replace(answer, by=_by(snapshot, job, target))


def _estimates(explanation: Explanation) -> Sequence[Estimate]:
    if explanation.options is None or explanation.verdict is None or explanation.solution is None:
        return ()
    return estimates(explanation.job, explanation.verdict, Comparison.of(explanation.solution))


def _instant(by: Instant | Weekday, time_zone: str, now: Instant) -> Instant:
    """Return the target time. A weekday is the end of the next such day in the budget's time zone, today included."""
    if not isinstance(by, Weekday):
        return by
    at = now
    while True:
        _, end = day_bounds(time_zone, at)
        if weekday(time_zone, at) is by:
            return end
        at = end


def _by(snapshot: Snapshot, job: Job, target: Instant) -> ByThen:
    """Plan again with ``target`` as the job's targetCompletionTime."""
    asked = plan_report(replace(snapshot, jobs={**snapshot.jobs, job.id: replace(job, target_completion=target)}))
    explanation = explain_job(asked, asked.snapshot.jobs[job.id])
    found = _estimates(explanation)
    own, fastest = _chosen(found, Choice.BUDGET), _chosen(found, Choice.FASTEST)
    earliest = None if fastest is None or not fastest.starts else after(snapshot.now, fastest.way.seconds)
    told = None if explanation.verdict is None else explanation.verdict.target
    in_time = own is not None and own.starts and after(snapshot.now, own.way.seconds) <= target
    return ByThen(target, own, earliest, in_time if told is None else told.met and own is not None and own.starts)


_LEAST_DELAY = 60.0
"""Minimum delay in seconds that is reported for another job."""


def _delays(report: PlanReport, before: PlanReport, own: JobId) -> Sequence[Delay]:
    """Return the other jobs that have GPUs now or soon, and that would end later or wait. Jobs that would wait come
    first.
    """
    now, then, found = before.given, report.given, list[Delay]()
    for other, option in now.items():
        job = before.snapshot.jobs[other]
        title, to = f"{job.namespace}/{job.name}", then.get(other)
        if other == own or job.finish is not None:
            continue
        if to is None:
            found.append(Delay(title, None))
        elif (
            job.remaining is not None
            and (later := job.remaining / to.speed - job.remaining / option.speed) > _LEAST_DELAY
        ):
            found.append(Delay(title, later))
    return sorted(found, key=lambda delay: (delay.seconds is not None, -(delay.seconds or 0.0), delay.job))


# The answer as a document and as JSON.


def quote_document(answer: QuoteAnswer) -> Document:
    """Make a document: a row for each choice, its basis and its effects, or the reason why the job cannot run."""
    explanation = answer.explanation
    job, title = explanation.job, f"charterer quote {explanation.job.namespace}/{explanation.job.name}"
    if not answer.estimates:
        told = job_now(explanation)
        why = f"TrainingJob {job.namespace}/{job.name} cannot run: {told.reason or 'Unknown'}"
        problems = [f"{problem.field}: {problem.message}" for problem in explanation.report.problems_of(job)]
        told = replace(told, summary=f"{why}.", opening="" if told.message is None else "Why")
        return Document(title, (*first_blocks(told, problems), *ruled_out_blocks(explanation.ruled_out)))
    first = f"TrainingJob {job.namespace}/{job.name}, if it were submitted now ({output.when(answer.now)})"
    blocks: list[Block] = [Paragraph(first, Tone.STRONG), _table(answer)]
    blocks += [Paragraph(sentence) for sentence in _sentences(answer)]
    blocks += [Heading("What this rests on"), _rests_on(answer)]
    return Document(title, tuple([*blocks, *_meaning(answer)]))


def _table(answer: QuoteAnswer) -> DocumentTable:
    rows = [(str(each.choice), each) for each in answer.estimates]
    if answer.by is not None and answer.by.estimate is not None:
        rows.append((f"by {output.when(answer.by.target)}", answer.by.estimate))
    wholes = any(each.way.empty for _, each in rows)
    columns = (
        TableColumn("CHOICE"),
        TableColumn("FIRST ON"),
        TableColumn("COSTS ABOUT", right=True),
        TableColumn("IN 9 OF 10 CASES", right=True),
        *((TableColumn("EMPTY GPUS", right=True),) if wholes else ()),
        TableColumn("ENDS ABOUT"),
        TableColumn("IN 9 OF 10 CASES"),
    )
    return DocumentTable(columns, tuple(_row(title, each, answer.now, wholes=wholes) for title, each in rows))


def _row(title: str, each: Estimate, now: Instant, *, wholes: bool) -> tuple[TableCell, ...]:
    tone = Tone.STRONG if each.choice is Choice.BUDGET else Tone.PLAIN
    dollars, seconds = each.dollars, each.seconds

    def end(value: float) -> str:
        return output.when(after(now, value)) if each.starts else format_duration(value)

    since = "" if each.starts else " from its start"
    cells = (
        title,
        name(each.way.option),
        format_money(dollars.middle),
        f"{format_money(dollars.low)} to {format_money(dollars.high)}",
        *((format_money(each.way.empty),) if wholes else ()),
        f"{end(seconds.middle)}{since}",
        f"{end(seconds.low)} to {end(seconds.high)}{since}",
    )
    return tuple(TableCell(text, tone) for text in cells)


def _sentences(answer: QuoteAnswer) -> Iterable[str]:
    """Yield sentences on the reason, the target time, delayed jobs and the effect on later jobs."""
    verdict = answer.explanation.verdict
    if verdict is not None:
        yield f"Why ({verdict.reason.code}): {verdict.reason.message}."
    if answer.by is not None:
        yield _by_sentence(answer.by, answer)
    yield _delays_sentence(answer.delays)
    if sentence := _budget_sentence(answer):
        yield sentence


def _by_sentence(by: ByThen, answer: QuoteAnswer) -> str:
    then, own = output.when(by.target), next(each for each in answer.estimates if each.choice is Choice.BUDGET)
    if not by.met or by.estimate is None:
        earliest = "" if by.earliest is None else f": on the fastest way it ends about {output.when(by.earliest)}"
        paid = "" if by.earliest is None or by.earliest > by.target else ", and the budget does not pay for that"
        return f"It cannot be expected to be done by {then}{earliest}{paid}."
    chance = by.estimate.chance_within(seconds_between(answer.now, by.target))
    more = by.estimate.dollars.middle - own.dollars.middle
    extra = f"{format_money(more)} more than as the budget pays" if round(more * 100) > 0 else "no more than anyway"
    return (
        f"To be done by {then} it takes {name(by.estimate.way.option)}, {extra}, and then is in {_in_ten(chance)}: set "
        f'spec.targetCompletionTime: "{format_second(by.target)}", as -o manifest does.'
    )


def _in_ten(chance: float) -> str:
    tenths = round(chance * 10)
    return "nearly all cases" if tenths >= 10 else "few cases" if tenths < 1 else f"about {tenths} of 10 cases"


_SHOWN: Final = 5


def _delays_sentence(delays: Sequence[Delay]) -> str:
    if not delays:
        return "No other job would end later."
    told = [
        f"{each.job} would wait"
        if each.seconds is None
        else f"{each.job} would end {format_duration(each.seconds)} later"
        for each in delays[:_SHOWN]
    ]
    more = f", and {count(len(delays) - _SHOWN, 'other job')} like that" if len(delays) > _SHOWN else ""
    return f"Of other jobs, {names(told)}{more}."


def _budget_sentence(answer: QuoteAnswer) -> str:
    """Return the effect on the budget's later jobs. Empty if the rate stays the same and the budget still suffices."""
    after_it, before = answer.explanation.budget, answer.before
    if after_it is None or before is None:
        return ""
    job, told = answer.explanation.job, list[str]()
    if (then := output.rate(after_it.rate)) != (now := output.rate(before.rate)):
        told.append(f"would pay {then} per job-hour saved instead of {now}")
    if after_it.feasible is not before.feasible:
        told.append("would be too small for the cheapest options of all its jobs, so that jobs queue")
    return f"Budget {job.budget} {names(told)}." if told else ""


def _rests_on(answer: QuoteAnswer) -> DocumentTable:
    columns = (TableColumn("WHAT"), TableColumn("HOW MUCH", elastic=True), TableColumn("KNOWN"))
    own = answer.own
    assert own is not None
    figures = [(each.what, each.much, each.known) for each in counted(own.way, answer.explanation)]
    return DocumentTable(columns, tuple(row(*each) for each in (*figures, *_spreads(own))))


def _spreads(own: Estimate) -> Iterable[tuple[str, str, str]]:
    """Yield the sources of uncertainty in the intervals: job sizes, interruptions and waits."""
    known = "assumed: no job of the budget has completed"
    if round(own.jobs) or round(own.others):
        known = f"measured, {count(round(own.jobs), 'job')} of its class and {round(own.others)} of others"
    yield "jobs differ", f"by a factor of {_factor(own.size, own):.2g} from what is expected, in 9 of 10 cases", known
    if own.spot:
        yield "interruptions", f"their number varies its time by a factor of {_factor(own.spot, own):.2g}", "computed"
    if own.queue:
        yield "waits", f"vary its time by a factor of {_factor(own.queue, own):.2g}", "assumed: by as much as they last"


def _factor(variance: float, own: Estimate) -> float:
    return replace(own.life, mean=0.0, variance=variance).of(1.0).high


def _meaning(answer: QuoteAnswer) -> Iterable[Block]:
    text = (
        "Nine of ten such jobs cost and end within the interval, each by itself. What is submitted later is not known, "
        "and prices and pools are taken to stay."
    )
    yield Paragraph(text, Tone.FAINT)
    own = answer.own
    if own is not None and not own.starts:
        yield Paragraph(
            "Nobody knows when it would start, so the quote that is kept with the job names no end.", Tone.CHANGED
        )
    if answer.kept is not None:
        keep = ("To keep the quote with the job: charterer quote -f FILE -o manifest | kubectl apply -f -",)
        yield Items(tuple(Item("-", text) for text in keep))


def quote_json(answer: QuoteAnswer) -> Mapping[str, JsonValue]:
    """Return the whole answer, with seconds as numbers and dollars as decimal strings."""
    told, by = job_now(answer.explanation), answer.by
    return {
        "at": format_second(answer.now),
        "namespace": answer.explanation.job.namespace,
        "name": answer.explanation.job.name,
        "canRun": bool(answer.estimates),
        **copied(told, "reason message"),
        "choices": {each.choice.name.lower(): _choice_json(each, answer) for each in answer.estimates},
        "by": None
        if by is None
        else {
            "target": format_second(by.target),
            "met": by.met,
            "earliest": None if by.earliest is None else format_second(by.earliest),
            "choice": None if by.estimate is None else _choice_json(by.estimate, answer),
            "chance": None
            if by.estimate is None
            else round(by.estimate.chance_within(seconds_between(answer.now, by.target)), 3),
        },
        "delays": [copied(each, "job seconds") for each in answer.delays],
        "quote": None if answer.kept is None else _spec(answer.kept),
    }


def _choice_json(each: Estimate, answer: QuoteAnswer) -> JsonValue:
    return {
        **option_json(each.way.option),
        "cost": {end: dollars_json(getattr(each.dollars, end)) for end in ("low", "middle", "high")},
        "seconds": copied(each.seconds, "low middle high"),
        "secondsAreFrom": "now" if each.starts else "its start",
        "costOfEmptyGPUs": dollars_json(each.way.empty),
        "counts": [copied(figure, "what howMuch=much known") for figure in counted(each.way, answer.explanation)],
        "spread": [{"what": what, "howMuch": much, "known": known} for what, much, known in _spreads(each)],
    }


def _spec(quote: JobQuote) -> dict[str, Any]:
    return dump(QuoteSpec.from_domain(quote))


# The command.


@dataclass(frozen=True, slots=True)
class Quoted:
    """An answer, and the job's manifest with the quote in its spec. ``warnings`` has a sentence each."""

    answer: QuoteAnswer
    manifest: Mapping[str, Any]
    warnings: tuple[str, ...]


def quoted(
    cluster: ClusterOptions,
    reading: ClusterReading,
    sources: Sequence[ManifestSource],
    namespace: str,
    by: Instant | Weekday | None,
) -> Quoted:
    """Quote the only TrainingJob among the objects.

    Raises ClickException if there is not exactly one, or it already exists in the cluster or is interactive.
    """
    planned, left_out = planned_and_left_out(sources)
    jobs = [source for source in planned if source.raw.get("kind") == "TrainingJob"]
    if len(jobs) != 1:
        raise click.ClickException(
            f"a quote is of one TrainingJob, and the files have {len(jobs)}: name them one by one"
        )
    written = written_jobs(planned, reading.state, namespace, reading.now)
    (key,) = written
    if key in reading.state.jobs:
        raise click.ClickException(
            f"there is a TrainingJob {key.namespace}/{key.name} already, and charterer explain {key.name} "
            f"-n {key.namespace} says what is left of it; for a quote of another one, give it another name"
        )
    changed = with_trials(cluster, apply_objects(reading.state, planned, namespace, reading.now), written)
    snapshot = snapshot_of(changed.state, reading.now)
    job_id = changed.state.jobs[key].job.id
    if snapshot.jobs[job_id].interactive is not None:
        raise click.ClickException(
            f"TrainingJob {key.namespace}/{key.name} is interactive: it has no end, and so no quote"
        )
    without = replace(snapshot, jobs={other: job for other, job in snapshot.jobs.items() if other != job_id})
    with announce_when_slow("planning"):
        answer = quote_job(snapshot, without, job_id, by)
    return Quoted(answer, _manifest(jobs[0].raw, key, answer), (*changed.warnings, *left_out))


def _manifest(raw: Mapping[str, Any], key: ObjectKey, answer: QuoteAnswer) -> Mapping[str, Any]:
    """Return the job's manifest with its quote, and with the target time if the job can meet it."""
    spec = dict(raw.get("spec") or {})
    if answer.by is not None and answer.by.met:
        spec["targetCompletionTime"] = format_second(answer.by.target)
    if answer.kept is not None:
        spec["quote"] = _spec(answer.kept)
    return {**raw, "metadata": {**raw["metadata"], "namespace": key.namespace}, "spec": spec}


class ByType(click.ParamType[Instant | Weekday]):
    """A time, or a day of the week."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Instant | Weekday:
        """The instant, or the day."""
        if isinstance(value, str) and value.capitalize() in tuple(Weekday):
            return Weekday(value.capitalize())
        return TimeType().convert(value, param, ctx)


_FORMATS: Final = (*FORMATS, "manifest")


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="The TrainingJob, and what else would be applied with it, as SpeedupProfile or GPUPool (YAML; - is stdin).",
)
@click.option("--by", type=ByType(), help="When it should be done: 2026-12-04T18:00:00Z, or a day: friday, to its end.")
@click.option(
    "-n",
    "--namespace",
    shell_complete=namespace_names,
    help="Of objects in files that name none. Default: the context's.",
)
@click.option(
    "-o",
    "--output",
    "shown",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="Format; manifest: the TrainingJob with its quote, as JSON for kubectl apply.",
)
@cluster_options
def quote(
    files: tuple[Path, ...],
    by: Instant | Weekday | None,
    namespace: str | None,
    shown: str,
    cluster: ClusterOptions,
) -> None:
    """Show what a job would cost and when it would end, before it is submitted. Changes nothing.

    It shows three choices: the cheapest, the one that the budget pays for, and the fastest. For each it shows the
    interval in which nine of ten outcomes lie, the basis of the estimate, and which other jobs would end later.

    \b
      charterer quote -f job.yaml
      charterer quote -f job.yaml --by friday
      charterer quote -f job.yaml -o json | jq .choices.budget.cost
      charterer quote -f job.yaml -o manifest | kubectl apply -f -    # the job keeps it, and its end says what came

    Exit code: 0; 1 for an error; 5 if the job cannot run, with the reason; 6 if it cannot be expected to be done by the
    time that --by says.
    """
    sources = manifest_sources(files)
    reading = read(cluster)
    found = quoted(cluster, reading, sources, namespace or reading.namespace, by)
    answer = found.answer
    if shown == "manifest":
        show_troubles(answer, (reading.trouble, *found.warnings))
        if answer.estimates:
            click.echo(json.dumps(found.manifest, indent=2))
    else:
        document = with_warnings(quote_document(answer), (reading.trouble, *found.warnings))
        emit(document, {**quote_json(answer), "nobodyActs": reading.trouble or None, "warnings": found.warnings}, shown)
    if answer.exit_code:
        raise click.exceptions.Exit(answer.exit_code)


def show_troubles(answer: QuoteAnswer, warnings: Iterable[str]) -> None:
    """Print warnings and the reason why the job cannot run on stderr, because stdout has the manifest."""
    for warning in filter(None, warnings):
        click.echo(f"Warning: {warning}", err=True)
    if not answer.estimates:
        told = job_now(answer.explanation)
        click.echo(f"The job cannot run ({told.reason}): {told.message}", err=True)
