"""What ``charterer explain`` shows, as a document."""

from __future__ import annotations

from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.controller.status.jobs import job_state
from charterer.domain.ids import Rate
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.job_cost import job_cost
from charterer.domain.plan import Verdict
from charterer.domain.time import seconds_between
from charterer.policy.budgets.demand import DEFAULT_WORK_SECONDS
from charterer.policy.budgets.reasons import format_duration, format_money, name
from charterer.policy.explain.alternatives import Alternative, Alternatives, LeftAlone, Rank, WinningChange
from charterer.report.document import (
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

_TONES = {Rank.CHOSEN: Tone.STRONG, Rank.BETTER: Tone.CHANGED, Rank.WORSE: Tone.FAINT}


def explain_document(thought: PlanReport, job: Job, options: Alternatives | None, *, every: bool) -> Document:
    """The answer for one job; ``every``: also the options that nothing speaks for."""
    verdict = thought.plan.jobs.get(job.id)
    blocks: list[Block] = [Paragraph(headline(thought, job), Tone.STRONG)]
    if job.finish is None and verdict is not None:
        blocks.append(Paragraph(_reason(job, verdict)))
    for problem in thought.snapshot.problems:
        if (problem.kind, problem.namespace, problem.name) == ("TrainingJob", job.namespace, job.name):
            blocks.append(Paragraph(f"{problem.field}: {problem.message}", Tone.CHANGED))
    if job.resize is ResizePolicy.NEVER and job.allocation is not None and job.finish is None:
        blocks.append(Paragraph("Its resizePolicy is Never: it keeps what it has, whatever would be better."))
    if options is not None:
        blocks += [
            Paragraph(said) for said in (_pays(thought, job), _mixes(thought, job), work_left(job, options)) if said
        ]
        blocks += _options(options, every=every)
        blocks += [Paragraph(_no_option(one)) for one in options.left_alone]
        blocks += _changes(thought, job, options)
    return Document(f"charterer explain {job.namespace}/{job.name}", tuple(blocks))


def headline(thought: PlanReport, job: Job) -> str:
    """What the job is doing, or how it ended, in one sentence."""
    spent = job_cost(job, thought.snapshot.rentals, thought.snapshot.now)
    cost = f", {spent} so far" if spent.micros else ""
    whole = f"TrainingJob {job.namespace}/{job.name}"
    if job.finish is not None:
        took = format_duration(seconds_between(job.created, job.finish.at))
        last = f", last on {name(job.records[-1].option)}" if job.records else ""
        runs = f"{len(job.records)} run{'' if len(job.records) == 1 else 's'}"
        because = f" ({job.finish.reason}: {job.finish.message})" if job.finish.kind == "Failed" else ""
        ended = (
            f"{formatting.when(job.finish.at)}, {took} after it was submitted, in {runs}{last}; its GPUs cost {spent}"
        )
        return f"{whole} is {job.finish.kind}{because}: {ended}. Nothing is decided about it any more."
    done = f", {job.progress.fraction:.0%} done" if job.progress and job.progress.fraction is not None else ""
    if job.allocation is None:
        waited = format_duration(seconds_between(job.created, thought.snapshot.now))
        return f"{whole} is {job_state(job)}{done}, submitted {waited} ago{cost}."
    where = f"on {name(job.allocation.option)} (run {job.allocation.run})"
    return f"{whole} is {job_state(job)} {where}{done}{cost}."


def _reason(job: Job, verdict: Verdict) -> str:
    begins = "Why" if job.allocation is not None else "It waits" if job.wants_to_run else "It gets no GPUs"
    return f"{begins} ({verdict.reason.why}): {verdict.reason.message}."


def _pays(thought: PlanReport, job: Job) -> str:
    budget = thought.plan.budgets.get(job.budget) if job.budget is not None else None
    if budget is None:
        return ""
    counts = (
        ""
        if job.weight == 1.0
        else f"; it counts {job.weight:g} times, so {formatting.rate(budget.rate)} x {job.weight:g}"
    )
    said = f"Budget {job.budget} pays up to {formatting.rate(budget.rate)} per job-hour saved{counts}."
    own = next((one.own(job) for one in thought.standings if one.budget.id == job.budget), None)
    if own is not None:
        said += f" For this job its targetCompletionTime takes {formatting.rate(Rate(own.worth))}."
    return said if budget.feasible else f"{said} It is too small for the cheapest options of all its jobs: jobs queue."


def _mixes(thought: PlanReport, job: Job) -> str:
    """Of a class that takes several paths, so that what is scarce is used exactly."""
    standing = next(one for one in thought.standings if one.budget.id == job.budget)
    share = standing.share(job)
    if share is None or not share.mixes:
        return ""
    others = ", ".join(f"{lot.part:.0%} of them {name(lot.path[0])}" for lot in share.lots[1:])
    used = "the budget is" if not standing.scarce else "budget and pools are"
    begins = f"{name(share.path[0])}, and {others}"
    return f"New jobs of its class begin on {begins}: at these rates all are as good, and so {used} just used."


def work_left(job: Job, options: Alternatives) -> str:
    """What is left to do, and how that is known."""
    left = options.position.left
    if not options.known_work:
        known = "a size that nobody declared or measured"
        if left == DEFAULT_WORK_SECONDS:
            known = "what is taken where nobody declared or measured it"
    elif job.progress is not None and job.progress.fraction is not None:
        known = f"by the {job.progress.fraction:.0%} that it reported at {formatting.when(job.progress.at)}"
    else:
        known = "the mean of its class; it has not reported any progress"
    return f"Work left: {format_duration(left)} on the class's reference option, {known}."


def _options(options: Alternatives, *, every: bool) -> list[Block]:
    columns = (
        TableColumn(""),
        TableColumn("OPTION"),
        TableColumn("$/H", right=True),
        TableColumn("TIME LEFT", right=True),
        TableColumn("COST LEFT", right=True),
        TableColumn("PER HOUR SAVED", right=True),
        TableColumn("VERDICT"),
        TableColumn("SPEED IS", optional=True),
        TableColumn("NODES", optional=True),
    )
    shown = [one for one in options.rows if every or one.rank is not Rank.WORSE]
    hidden = len(options.rows) - len(shown)
    blocks: list[Block] = [
        Heading("Its options, cheapest first"),
        DocumentTable(columns, tuple(_row(one) for one in shown)),
    ]
    if hidden:
        text = f"and {hidden} that {'is' if hidden == 1 else 'are'} both slower and dearer: --all shows them"
        blocks.append(Paragraph(text, Tone.FAINT))
    return blocks


def _no_option(one: LeftAlone) -> str:
    """Why a width is not among the options."""
    said = f": {one.message}" if one.message else ""
    if one.until is None:
        return f"{one.gpus} GPUs ({one.gpu_type}) are no option: a run of this job failed there{said}."
    until = formatting.when(one.until)
    return f"{one.gpus} GPUs ({one.gpu_type}) are no option until {until}: a run of its class failed there{said}."


def _row(one: Alternative) -> tuple[TableCell, ...]:
    tone = _TONES.get(one.rank, Tone.PLAIN)
    cells = row(
        "*" if one.rank is Rank.CHOSEN else "",
        name(one.option),
        formatting.hourly(one.option.price)
        + (f" + {formatting.hourly(one.room_price)}" if one.room_price.micros_per_hour else ""),
        format_duration(one.seconds),
        format_money(one.dollars),
        "-" if one.per_hour_saved is None else format_money(one.per_hour_saved),
        str(one.rank),
        _known(one),
        str(one.nodes),
    )
    return tuple(TableCell(cell.text, tone) for cell in cells)


def _known(one: Alternative) -> str:
    """What its speed rests on, with how many reports there were of it."""
    return f"{one.basis}, {one.reports} report{'' if one.reports == 1 else 's'}" if one.reports else str(one.basis)


def _changes(thought: PlanReport, job: Job, options: Alternatives) -> list[Block]:
    if not options.changes:
        return []
    items = tuple(Item("-", change_in_words(change, thought, job, options)) for change in options.changes)
    return [Heading("What alone would have to change"), Items(items)]


def change_in_words(change: WinningChange, thought: PlanReport, job: Job, options: Alternatives) -> str:
    """For one option: the rate, the price or the work left with which it would win."""
    assert job.budget is not None
    frontier, budget = thought.frontiers[job.budget], thought.plan.budgets[job.budget]
    faster = change.rate > budget.rate
    need = (
        f"the budget pays {formatting.rate(change.rate)} per job-hour saved instead of {formatting.rate(budget.rate)}"
    )
    if faster and not frontier.empty:
        need += f" (in the long run that takes about {formatting.whole(frontier.amount_for(change.rate))} a month)"
    ways = [need]
    if change.node_price is not None:
        quote = thought.snapshot.pools[change.to.pool].quote
        now = "" if quote is None else f" instead of {quote.price}"
        ways.append(f"a node of {change.to.pool} costs {change.node_price}{now}")
    if change.work is not None:
        ways.append(
            f"{format_duration(change.work)} of work are left instead of {format_duration(options.position.left)}"
        )
    return f"{name(change.to)} would win if {', or if '.join(ways)}."
