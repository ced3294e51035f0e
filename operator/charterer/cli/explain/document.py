"""The document that ``charterer explain`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import JobState
from charterer.cli.explain.assumed import assumed_speeds_sentence
from charterer.cli.explain.counted import counted_blocks
from charterer.cli.explain.empty_gpus import empty_gpus_sentence
from charterer.cli.explain.explanation import Explanation
from charterer.cli.explain.one_more_node import in_words, more_nodes
from charterer.cli.explain.regrouping import regrouping_sentence
from charterer.cli.explain.sessions import sessions_sentence
from charterer.cli.explain.slices import slice_sentences
from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.controller.snapshot.problems import PROFILE_NAME
from charterer.controller.status.job_limits import own_limits
from charterer.controller.status.jobs import job_state, why_word
from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.money import Money
from charterer.domain.plan import Allocate, Verdict
from charterer.domain.reasons.phrases import as_variant, format_duration, format_money, name
from charterer.domain.time import Instant, seconds_between
from charterer.policy.budgets.demand import DEFAULT_WORK_SECONDS
from charterer.policy.budgets.reasons import late
from charterer.policy.explain.alternatives import Alternative, Alternatives, Rank, WinningChange
from charterer.policy.explain.left_alone import LeftAlone
from charterer.policy.explain.ruled_out import RuledOut
from charterer.policy.explain.speed_evidence import Basis
from charterer.policy.nodes.pool_quota import LaunchWait
from charterer.policy.options.ceiling import FACTOR
from charterer.policy.options.pool_selection import left_out
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
from charterer.sentences import count, is_or_are

LIMITS: Final[Mapping[str, str]] = {
    ConditionType.ON_TARGET: "Its targetCompletionTime",
    ConditionType.WITHIN_MAX_COST: "Its maxCost",
}
"""A job's own limits, by the type of their condition."""
TONES: Final[Mapping[str, Tone]] = {Rank.CHOSEN: Tone.STRONG, Rank.BETTER: Tone.CHANGED, Rank.WORSE: Tone.FAINT}
"""How an option is shown, by its rank."""


def explain_document(explanation: Explanation, *, every: bool) -> Document:
    """The answer for one job; ``every``: also the options that are both slower and dearer than the chosen one."""
    report, job, options = explanation.report, explanation.job, explanation.options
    blocks: list[Block] = [Paragraph(summary(report, job), Tone.STRONG)]
    if job.finish is None and explanation.verdict is not None:
        blocks.append(Paragraph(_reason(explanation, explanation.verdict, starts=_starts(explanation))))
    problems = report.problems_of(job)
    blocks += [Paragraph(f"{problem.field}: {problem.message}.", Tone.CHANGED) for problem in problems]
    told = "" if explanation.verdict is None else explanation.verdict.reason.message
    for limit in (limit for limit in limits_of(explanation) if limit.message != told):
        tone = Tone.CHANGED if limit.status is ConditionStatus.FALSE else Tone.PLAIN
        blocks.append(Paragraph(f"{LIMITS[limit.type]}: {limit.message}.", tone))
    blocks += held_up_blocks(explanation.held_up)
    if change := regrouping_sentence(job):
        blocks.append(Paragraph(change))
    if used := sessions_sentence(job):
        blocks.append(Paragraph(used))
    if job.resize is ResizePolicy.NEVER and job.allocation is not None and job.finish is None:
        blocks.append(Paragraph("Its resizePolicy is Never: it keeps what it has, even if another option is better."))
    if options is not None:
        work = work_left(job, options)
        sentences = (
            _pays(explanation),
            _mixes(explanation),
            empty_gpus_sentence(explanation.node),
            work,
            _unknown_speed(explanation, options),
            assumed_speeds_sentence(options.assumed),
        )
        blocks += [Paragraph(sentence) for sentence in sentences if sentence]
        blocks += _options(options, report.snapshot.gpu_types, every=every)
        blocks += counted_blocks(options.chosen, explanation)
        blocks += [Paragraph(in_words(more, job)) for more in more_nodes(explanation)]
        blocks += [Paragraph(f"{late(name, wait).sentence()}.") for name, wait in late_pools(explanation).items()]
        blocks += [Paragraph(_left_alone(width)) for width in options.left_alone]
        blocks += [Paragraph(told) for told in slice_sentences(explanation)]
        blocks += [Paragraph(f"Variant {unused.name} is no option: {unused.why}.") for unused in options.unused]
        blocks += _other_pools(explanation)
        blocks += _changes(explanation, options)
    blocks += _ruled_out(explanation.ruled_out)
    return Document(f"charterer explain {job.namespace}/{job.name}", tuple(blocks))


def held_up_blocks(told: Iterable[ToldBottleneck]) -> list[Block]:
    """What holds the job's run up, a paragraph each."""
    return [Paragraph(f"{found.kind}: {found.message}.", Tone.CHANGED) for found in told]


def summary(report: PlanReport, job: Job) -> str:
    """The job's present state, or its end, in one sentence."""
    now = report.snapshot.now
    return headline(job, job_state(job), job_cost(job, report.snapshot.rentals, now), now)


def headline(job: Job, state: JobState, spent: Money, now: Instant) -> str:
    """The same, if its state and cost are known."""
    cost = f", {spent} so far" if spent.micros else ""
    subject = f"TrainingJob {job.namespace}/{job.name}"
    if job.finish is not None:
        took = format_duration(seconds_between(job.created, job.finish.at))
        last = f", last on {name(job.records[-1].option)}" if job.records else ""
        runs = count(len(job.records), "run")
        because = "" if job.finish.done else f" ({job.finish.reason}: {job.finish.message})"
        ended = (
            f"{formatting.when(job.finish.at)}, {took} after it was submitted, in {runs}{last}; its GPUs cost {spent}"
        )
        return f"{subject} is {job.finish.kind}{because}: {ended}."
    done = f", {job.progress.fraction:.0%} done" if job.progress and job.progress.fraction is not None else ""
    if job.allocation is None:
        waited = format_duration(seconds_between(job.created, now))
        return f"{subject} is {state}{done}, submitted {waited} ago{cost}."
    where = f"on {name(job.allocation.option)} (run {job.allocation.run})"
    return f"{subject} is {state} {where}{done}{cost}."


def limits_of(explanation: Explanation) -> Sequence[Condition]:
    """The conditions of the job's targetCompletionTime and maxCost, where it has them."""
    job, snapshot = explanation.job, explanation.report.snapshot
    return own_limits(job, explanation.verdict, job_cost(job, snapshot.rentals, snapshot.now), snapshot.now)


def _starts(explanation: Explanation) -> bool:
    """Whether the plan gives GPUs to the job, which has none."""
    return explanation.job.allocation is None and any(
        isinstance(command, Allocate) and command.job == explanation.job.id and command.allocation is not None
        for command in explanation.report.plan.commands
    )


def _reason(explanation: Explanation, verdict: Verdict, *, starts: bool) -> str:
    job = explanation.job
    waits = "It starts now" if starts else "It waits" if job.wants_to_run else "It gets no GPUs"
    begin = waits if job.allocation is None else "Why"
    return f"{begin} ({why_word(job, verdict, explanation.report.problems_of(job))}): {verdict.reason.message}."


def _pays(explanation: Explanation) -> str:
    job, budget = explanation.job, explanation.budget
    if budget is None:
        return ""
    if budget.rate is None:
        return f"Budget {job.budget} has no money: its spec.amount is 0."
    weight = (
        ""
        if job.weight == 1.0
        else f"; its weight is {job.weight:g}, so for it {formatting.rate(budget.rate)} x {job.weight:g}"
    )
    text = f"Budget {job.budget} pays up to {formatting.rate(budget.rate)} per job-hour saved{weight}."
    if paid := _for_target(explanation):
        text += f" For this job, because of its targetCompletionTime, it pays {paid}."
    elif most := _at_most(explanation):
        asked = f"{FACTOR:g} times what an hour of it costs as asked for"
        text += f" For this job it pays at most {most}, {asked}."
    return text if budget.feasible else f"{text} It is too small for the cheapest options of all its jobs: jobs queue."


def _at_most(explanation: Explanation) -> str:
    """The most that the budget pays to end this job an hour earlier; empty where its own rate is not above that."""
    budget, solution = explanation.budget, explanation.solution
    assignment = None if solution is None else solution.assignment(explanation.job)
    if budget is None or budget.rate is None or assignment is None or assignment.group.most >= budget.rate:
        return ""
    return formatting.rate(Rate(assignment.group.worth(budget.rate)))


def _for_target(explanation: Explanation) -> str:
    """The price of an hour of this job that its target needs; empty where the budget's own rate is enough."""
    job, solution = explanation.job, explanation.solution
    if solution is None or solution.deadline_values(job) is None:
        return ""
    need = solution.deadline_needs[job.id]
    return "any price" if need.at_any_price else formatting.rate(Rate(need.worth))


def _mixes(explanation: Explanation) -> str:
    """For a class whose jobs take several paths, so that pools that are too small are used in full."""
    solution = explanation.solution
    assignment = None if solution is None else solution.assignment(explanation.job)
    if solution is None or assignment is None or not assignment.mixes:
        return ""
    begin = " and ".join(
        f"{formatting.percent(part.fraction)} of them on {name(part.path[0])}" for part in assignment.assigned_paths
    )
    return f"New jobs of its class begin {begin}: with this mix the pools that are too small are used in full."


def work_left(job: Job, options: Alternatives) -> str:
    """The work left, and how it is known."""
    left = options.position.left
    if not options.known_work:
        if left == DEFAULT_WORK_SECONDS:
            return f"Work left: not known; {format_duration(left)} on the class's reference option are assumed."
        source = "a size that nobody declared or measured"
    elif job.progress is not None and job.progress.fraction is not None:
        source = f"from the {job.progress.fraction:.0%} that it reported at {formatting.when(job.progress.at)}"
    else:
        source = "the mean of its class; the job has not reported any progress"
    return f"Work left: {format_duration(left)} on the class's reference option, {source}."


def _unknown_speed(explanation: Explanation, options: Alternatives) -> str:
    """A sentence on how the job's speed becomes known, where no option's speed is."""
    job, snapshot = explanation.job, explanation.report.snapshot
    if any(option.basis is not Basis.ASSUMED for option in options.rows):
        return ""
    if any(problem.field == PROFILE_NAME for problem in explanation.report.problems_of(job)):
        return ""  # it says what to do
    profile = snapshot.profiles.get(job.class_id)
    types = () if profile is None else {curve.gpu_type for phase in profile.phases for curve in phase.curves}
    if types:
        only = f"SpeedupProfile {job.class_id.name} has curves of {', '.join(sorted(types))} only"
        return f"{only}, and no pool among its options has that GPU type: see the column TYPE of kubectl get gpupools."
    if not job.class_id.has_profile:
        return "It names no class, so nothing is learned of its speed: set spec.profileName (docs/progress.md)."
    declared = f"SpeedupProfile {job.class_id.name} declares one"
    return f"No speedup curve is known until jobs of its class report (docs/progress.md), or {declared}."


def _options(options: Alternatives, gpu_types: Mapping[PoolId, str], *, every: bool) -> list[Block]:
    wholes = any(option.empty for option in options.rows)
    columns = (
        TableColumn(""),
        TableColumn("OPTION"),
        TableColumn("$/H", right=True),
        TableColumn("TIME LEFT", right=True),
        TableColumn("COST LEFT", right=True),
        *((TableColumn("EMPTY GPUS", right=True),) if wholes else ()),
        TableColumn("PER HOUR SAVED", right=True),
        TableColumn("VERDICT"),
        TableColumn("SPEED IS", optional=True),
        TableColumn("NODES", optional=True),
    )
    shown = options.rows if every else _worth_showing(options.rows, gpu_types)
    hidden = len(options.rows) - len(shown)
    blocks: list[Block] = [
        Heading("Its options, cheapest first"),
        DocumentTable(columns, tuple(_row(option, wholes=wholes) for option in shown)),
    ]
    if hidden:
        them = "it" if hidden == 1 else "them"
        text = f"and {hidden} that {is_or_are(hidden)} both slower and dearer: --all shows {them}"
        blocks.append(Paragraph(text, Tone.FAINT))
    return blocks


def _worth_showing(rows: Sequence[Alternative], gpu_types: Mapping[PoolId, str]) -> Sequence[Alternative]:
    """The options that are not both slower and dearer, and of a GPU type that has only such the cheapest one."""
    types = {gpu_types.get(each.option.pool) for each in rows if each.rank is not Rank.WORSE}
    shown = []
    for each in rows:  # cheapest first
        if each.rank is not Rank.WORSE or gpu_types.get(each.option.pool) not in types:
            shown.append(each)
            types.add(gpu_types.get(each.option.pool))
    return shown


def _ruled_out(found: Sequence[RuledOut]) -> list[Block]:
    """The options of a job that may have none of them."""
    if not found:
        return []
    columns = (
        TableColumn("OPTION"),
        TableColumn("$/H", right=True),
        TableColumn("TIME LEFT", right=True, optional=True),
        TableColumn("COST LEFT", right=True, optional=True),
        TableColumn("RULED OUT BY", elastic=True),
    )
    rows = tuple(
        row(
            f"any on {each.pool}" if each.option is None else name(each.option),
            "-" if each.option is None else formatting.hourly(each.option.price),
            formatting.duration(each.seconds),
            "-" if each.dollars is None else format_money(each.dollars),
            each.why,
        )
        for each in found
    )
    return [Heading("Its options, cheapest first, and what rules each of them out"), DocumentTable(columns, rows)]


def late_pools(explanation: Explanation) -> Mapping[PoolId, LaunchWait]:
    """The pools of its options that are expected to give it a node late."""
    rows = () if explanation.options is None else explanation.options.rows
    waited_for = {option.option.pool for option in rows if option.launch_delay}
    return {name: wait for name, wait in explanation.report.late_pools.items() if name in waited_for}


def _left_alone(width: LeftAlone) -> str:
    """Why a width is not among the options."""
    message = f": {width.message}" if width.message else ""
    what = f"{count(width.gpus, 'GPU')} ({width.gpu_type}){as_variant(width.variant)}"
    gpus = f"{what} {is_or_are(width.gpus)} no option"
    if width.until is None:
        return f"{gpus}: a run of this job failed there{message}."
    return f"{gpus} until {formatting.when(width.until)}: a run of its class failed there{message}."


def _other_pools(explanation: Explanation) -> list[Block]:
    """The pools that are not open to the job because its budget does not select them."""
    solution = explanation.solution
    others = None if solution is None else left_out(solution.budget, explanation.report.snapshot.pools)
    return [] if others is None else [Paragraph(f"{others.sentence()}.")]


def _row(option: Alternative, *, wholes: bool) -> tuple[TableCell, ...]:
    """``wholes``: whether jobs choose with what of nodes stays empty (ADR 83)."""
    tone = TONES.get(option.rank, Tone.PLAIN)
    cells = row(
        "*" if option.rank is Rank.CHOSEN else "",
        name(option.option),
        formatting.hourly(option.option.price),
        format_duration(option.seconds),
        format_money(option.dollars),
        *((format_money(option.empty),) if wholes else ()),
        "-" if option.per_hour_saved is None else format_money(option.per_hour_saved),
        str(option.rank),
        _basis(option),
        f"{option.nodes}; stays: {option.held}" if option.held else str(option.nodes),
    )
    return tuple(TableCell(cell.text, tone) for cell in cells)


def _basis(option: Alternative) -> str:
    """The evidence for the speed, with the number of reports."""
    return f"{option.basis}, {count(option.reports, 'report')}" if option.reports else str(option.basis)


def _changes(explanation: Explanation, options: Alternatives) -> list[Block]:
    if not options.changes:
        return []
    items = tuple(Item("-", change_sentence(change, explanation, options)) for change in options.changes)
    return [Heading("What would make another option win"), Items(items)]


def change_sentence(change: WinningChange, explanation: Explanation, options: Alternatives) -> str:
    """The rate, the price or the work left at which another option would win."""
    report, job, budget = explanation.report, explanation.job, explanation.budget
    assert job.budget is not None
    assert budget is not None
    frontier = report.frontiers[job.budget]
    rate, paid = budget.rate or Rate(0.0), _for_target(explanation) or _at_most(explanation)
    need = f"the budget pays {formatting.rate(change.rate)} per job-hour saved instead of {formatting.rate(rate)}"
    if paid:
        of_job = formatting.rate(Rate(change.rate * job.weight))
        need = f"for this job the budget pays {of_job} per job-hour saved instead of {paid}"
    elif change.rate > rate and frontier.told:
        need += f" (in the long run that takes about {formatting.whole(frontier.amount_for(change.rate))} a month)"
    ways = [need]
    if change.node_price is not None:
        quote = report.snapshot.pools[change.to.pool].quote
        now = "" if quote is None else f" instead of {quote.price}"
        ways.append(f"a node of {change.to.pool} costs {change.node_price}{now}")
    if change.work is not None:
        ways.append(
            f"{format_duration(change.work)} of work are left instead of {format_duration(options.position.left)}"
        )
    return f"{name(change.to)} would win if {', or if '.join(ways)}."
