"""The document of ``charterer explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from charterer.api.models.base import ConditionStatus
from charterer.api.models.trainingjob_status import JobState
from charterer.api.names import ConditionType
from charterer.controller.snapshot.jobs import PROFILE_NAME
from charterer.controller.status.jobs import job_state, own_limits, regrouping, training_pods, why_word
from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.job_records import job_cost
from charterer.domain.money import Money
from charterer.domain.plan import Allocate
from charterer.domain.pod import Pod
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.reasons.phrases import as_variant, format_duration, format_money, name, parts
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.gpu_types import RelativeSpeed, data_sheet, is_shared, may_use, slice_profile, whole_type
from charterer.policy.budgets.demand import DEFAULT_WORK_SECONDS
from charterer.policy.budgets.solution import late
from charterer.policy.explain.alternatives import (
    Alternative,
    Alternatives,
    Basis,
    JobNode,
    LeftAlone,
    Rank,
    WinningChange,
)
from charterer.policy.explain.ruled_out import RuledOut, nodes_not_fitting, parts_not_taken
from charterer.policy.nodes.pool_room import LaunchWait
from charterer.policy.options.market import left_out
from charterer.policy.options.menu import FACTOR
from charterer.policy.options.pair_speeds import ExpectedPart, chooses_partner
from charterer.policy.outlook.outlook import NodeSource
from charterer.policy.outlook.partners import Pair, Partners
from charterer.sentences import count, is_or_are, names
from charterer.tools.commands.explain.answer import Explanation, JobNow, MoreNodes
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.output import percent
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

# Comparison of GPU types for which nobody has measured a speed.


def assumed_speeds_sentence(assumed: Mapping[str, RelativeSpeed]) -> str:
    """Return a sentence that compares GPU types without measured speeds. Empty without assumptions or other types."""
    if len(assumed) < 2:
        return ""
    known = {gpu_type: speed for gpu_type, speed in sorted(assumed.items()) if data_sheet(gpu_type) is not None}
    guessed = {gpu_type: speed for gpu_type, speed in sorted(assumed.items()) if gpu_type not in known}
    if not known:
        return (
            f"Nothing is measured yet, and Charterer knows no data sheet of {names(guessed)}: "
            "whole GPUs count as equally fast."
        )
    fastest = [gpu_type for gpu_type, speed in known.items() if speed.low == 1.0]
    others = [f"{each} is assumed to have {_of_it(speed)}" for each, speed in known.items() if each not in fastest]
    others += [
        f"of {each} Charterer knows no data sheet, so it is guessed from its price to have {_of_it(speed)}"
        for each, speed in guessed.items()
    ]
    if not others:
        return ""
    return f"Nothing is measured yet, so data sheets compare GPU types with {', '.join(fastest)}: {'; '.join(others)}."


def _of_it(speed: RelativeSpeed) -> str:
    return f"{speed.estimate:.0%} of its speed ({speed.low:.0%} to {speed.high:.0%})"


# The quantities that an option's time and cost include, and the basis of each.


_ASSUMED = "assumed"
_EXPECTED = "expected"
_MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Counted:
    """A quantity that an option's time and cost include: its name, its amount, and its basis, such as measured."""

    what: str
    much: str
    known: str


def counted(option: Alternative, explanation: Explanation) -> list[Counted]:
    """List all quantities that the option's time and cost include."""
    chosen, solution = option.option, explanation.solution
    lost = chosen.interruptions
    reports = f", {count(option.reports, 'report')}" if option.reports else ""
    speed = chosen.speed if lost is None else chosen.speed / lost.kept
    found = [Counted("speed", f"{speed:.3g} times the class's reference option", f"{option.basis}{reports}")]
    pool = explanation.report.snapshot.pools.get(chosen.pool)
    if pool is not None and pool.offering is not None:
        kind = "spot" if pool.capacity_type is CapacityType.SPOT else "on-demand"
        nodes = f"{kind} nodes of {count(pool.offering.gpus_per_node, 'GPU')} ({pool.offering.gpu_type})"
        source = "-" if pool.quote is None else pool.quote.source
        found.insert(0, Counted("price", f"{chosen.price}, its share of {nodes}", source))
        if option.nodes not in (NodeSource.HERE, NodeSource.READY):
            starts = pool.known_launches.starts
            declared = f"declared ({format_duration(pool.start_seconds)})"
            known = f"{_MEASURED}, {count(ceil(starts), 'start')}, and {declared}" if starts else "declared"
            start = f"{format_duration(pool.likely_start_seconds)} until a new node is ready"
            found.append(Counted("start", start, known))
    if lost is not None:
        text = (
            f"{lost.per_hour:.2g} an hour, which leave {lost.kept:.0%} of the speed with a checkpoint every "
            f"{format_duration(lost.interval)}"
        )
        found.append(Counted("interruptions", text, _MEASURED if lost.measured else _ASSUMED))
    if option.launch_delay:
        wait = f"{format_duration(option.launch_delay)} until the cloud gives a node"
        late = explanation.report.late_pools.get(chosen.pool)
        found.append(Counted("wait", wait, _MEASURED if late is not None and late.expected.measured else _ASSUMED))
    if option.room_wait:
        found.append(
            Counted("wait", f"{format_duration(option.room_wait)} until jobs that have its GPUs end", _EXPECTED)
        )
    if solution is not None:
        text = f"nodes that start and empty GPUs add {solution.calibration.overhead - 1.0:.0%} to what jobs' GPUs cost"
        known = _MEASURED if solution.calibration.overhead_measured else _ASSUMED
        found.append(Counted("idle GPUs", text, known))
    return found


def counted_blocks(option: Alternative, explanation: Explanation) -> list[Block]:
    """Make a table of all quantities that the option's time and cost include."""
    columns = (TableColumn("WHAT"), TableColumn("HOW MUCH", elastic=True), TableColumn("KNOWN"))
    rows = tuple(row(figure.what, figure.much, figure.known) for figure in counted(option, explanation))
    return [Heading("What the chosen option's figures count"), DocumentTable(columns, rows)]


# Empty GPUs of a job's node.


def empty_gpus_sentence(node: JobNode | None) -> str:
    """Return ``Its node h100-1 has 8 GPUs, 7 are empty: the budget pays $55.00/h.``, or nothing if no GPU is empty."""
    if node is None or not node.empty:
        return ""
    empty = f"{node.empty} {is_or_are(node.empty)} empty"
    if node.rental is not None:
        return f"Its node {node.rental} has {count(node.gpus, 'GPU')}, {empty}: the budget pays {node.price}."
    return f"Its node has {count(node.gpus, 'GPU')}, {empty} unless others come: the budget pays {node.price}."


# More nodes in a full pool.


def in_words(more: MoreNodes, job: Job) -> str:
    """Return the effect as a sentence."""
    nodes = "one more node" if more.nodes == 1 else f"{more.nodes} more nodes"
    text = f"With {nodes} of {more.pool}, "
    if more.option is None:
        text += "nothing would change for it now"
    else:
        text += f"it would {'start' if job.allocation is None else 'go on'} on {name(more.option)}"
    if more.others:
        text += f"; {count(len(more.others), 'other job')} would start ({names(more.others)})"
    return f"{text}."


# Jobs that are resized in place.


def regrouping_sentence(job: Job) -> str:
    """Return how far the resize is, with the joining pods by name, or an empty text without a resize."""
    text, run = regrouping(job), job.current_run
    if not text or run is None or job.allocation is None:
        return ""
    there = {pod.index: pod for pod in run.pods if pod.live and not pod.deleting}
    joining = sorted(set(range(len(job.allocation.placements))) - set(training_pods(job)))
    told = [f"{run.name}-{index} ({_readiness(there.get(index))})" for index in joining]
    return f"It is resized in place: {text}{': ' if told else ''}{', '.join(told)}."


def _readiness(pod: Pod | None) -> str:
    if pod is None:
        return "not made yet"
    return pod.trouble or ("Ready" if pod.ready else str(pod.phase))


# Sessions of an interactive job.


def sessions_sentence(job: Job) -> str:
    """Return busy and idle GPU time with its cost. Empty for other jobs and before the worker's first report."""
    told, usage = job.interactive, None if job.progress is None else job.progress.usage
    if told is None or usage is None:
        return ""
    hourly = "" if job.allocation is None else f", at {Money(job.allocation.option.price.micros_per_hour)} an hour"
    starts = "" if usage.start_seconds is None else f" Its worker starts in {format_duration(usage.start_seconds)}."
    return (
        f"On its GPUs cells ran for {format_duration(usage.busy_seconds)} ({told.busy_cost}) and none for "
        f"{format_duration(usage.idle_seconds)} ({told.idle_cost}){hourly}.{starts}"
    )


# Slices and shared GPUs, and pools that the job cannot use.


def slice_sentences(explanation: Explanation) -> Sequence[str]:
    """Return a sentence for each kind of slice or shared GPU in the options, and for each pool without an option.

    Pools of slices or shared GPUs are omitted if the job does not accept such GPUs.
    """
    solution, options = explanation.solution, explanation.options
    if solution is None or options is None:
        return ()
    pools = solution.inputs.snapshot.pools_of(solution.budget)
    here = [pools[each.option.pool] for each in options.rows if each.option.slice and each.option.pool in pools]
    alone = solution.inputs.unprofitable.get(solution.budget.id, frozenset())
    partners = Partners(solution)
    pairs = [pair for each in options.rows if (pair := partners.best(explanation.job, each.option)) is not None]
    told = [*map(_part, here), *(_beside(explanation.job, pair, solution.inputs.snapshot) for pair in pairs)]
    told += [*parts_not_taken(explanation.job, pools), *nodes_not_fitting(explanation.job, solution)]
    told += [_too_few(pools[name]) for name in sorted(alone) if _takes(explanation.job, pools[name])]
    return tuple(dict.fromkeys(told))


def _beside(job: Job, pair: Pair, snapshot: Snapshot) -> str:
    """Return a sentence that names the job's present or possible partner on a GPU, and the speed that both keep."""
    other = snapshot.jobs[pair.partner]
    name, runs = f"{other.namespace}/{other.name}", job.allocation is not None
    keeps = "keeps" if runs else "would keep"
    told = f"Beside {name} it {keeps} {_part_kept(pair.match.kept)}, and {name} {_part_kept(pair.match.partner_kept)}."
    if runs:
        return told
    if pair.match.saving is None:
        return f"{told} At least one of them would lose, so they do not share a GPU."
    return f"{told} Together they save {Money.of(pair.saved)} until the first of them ends."


def _part_kept(part: ExpectedPart) -> str:
    how = f"{part.reports:,} reports" if part.reports > 1 else "1 report" if part.reports else "expected"
    return f"{percent(part.kept)} of its speed ({how})"


def _takes(job: Job, pool: Pool) -> bool:
    return pool.offering is not None and may_use(
        pool.offering.gpu_type, job.gpu_types, job.widths.slices, job.widths.shared_mib
    )


def _too_few(pool: Pool) -> str:
    profile = "" if pool.offering is None else slice_profile(pool.offering.gpu_type)
    others = "places" if is_shared(profile) else "slices"
    return (
        f"{parts(profile)} on {pool.id} are no option now: too few jobs of the budget would choose them, and the other "
        f"{others} of a node would be paid for nobody."
    )


def _part(pool: Pool) -> str:
    offering = pool.offering
    assert offering is not None
    profile, slices = slice_profile(offering.gpu_type), offering.slices_per_gpu
    if is_shared(profile):
        whole = whole_type(offering.gpu_type)
        told = f"Up to {slices} jobs share a {whole} on {pool.id}. Each pays its part of it"
        others = "those that it would join" if chooses_partner(pool) else "others"
        return f"{told}, and its speed is that which its class has beside {others}."
    return f"A {profile} slice is one of {slices} of a {whole_type(offering.gpu_type)}."


LIMITS: Final[Mapping[str, str]] = {
    ConditionType.ON_TARGET: "Its targetCompletionTime",
    ConditionType.WITHIN_MAX_COST: "Its maxCost",
    ConditionType.WITHIN_QUOTE: "Its quote",
}
"""Subject of the sentence about a limit or the quote, by the type of its condition."""
TONES: Final[Mapping[str, Tone]] = {Rank.CHOSEN: Tone.STRONG, Rank.BETTER: Tone.CHANGED, Rank.WORSE: Tone.FAINT}
"""Tone of an option's row, by the option's rank."""


def explain_document(explanation: Explanation, *, every: bool) -> Document:
    """Make the document for one job. ``every`` includes options that are both slower and dearer than the chosen one."""
    report, job, options = explanation.report, explanation.job, explanation.options
    problems = [f"{problem.field}: {problem.message}" for problem in report.problems_of(job)]
    waits = [explanation.not_starting] if explanation.not_starting and job.finish is None else []
    blocks = first_blocks(job_now(explanation), [*problems, *waits])
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
        blocks += [Paragraph(in_words(more, job)) for more in explanation.more_nodes]
        blocks += [Paragraph(f"{late(name, wait).sentence()}.") for name, wait in late_pools(explanation).items()]
        blocks += [Paragraph(_left_alone(width)) for width in options.left_alone]
        blocks += [Paragraph(told) for told in slice_sentences(explanation)]
        blocks += [Paragraph(f"Variant {unused.name} is no option: {unused.why}.") for unused in options.unused]
        blocks += _other_pools(explanation)
        blocks += _changes(explanation, options)
    blocks += ruled_out_blocks(explanation.ruled_out)
    return Document(f"charterer explain {job.namespace}/{job.name}", tuple(blocks))


def first_blocks(job: JobNow, troubles: Iterable[str], source: Sequence[Block] = ()) -> list[Block]:
    """Return the blocks about the job's present state. ``troubles``: faults of its object or pods.

    ``source``: data source.
    """
    blocks: list[Block] = [Paragraph(job.summary, Tone.STRONG), *source]
    if job.opening:
        blocks.append(Paragraph(f"{job.opening} ({job.reason}): {job.message}."))
    blocks += [Paragraph(f"{trouble}.", Tone.CHANGED) for trouble in troubles]
    for limit in (limit for limit in job.limits if limit.message != job.message):
        tone = Tone.CHANGED if limit.status is ConditionStatus.FALSE else Tone.PLAIN
        blocks.append(Paragraph(f"{LIMITS[limit.type]}: {limit.message}.", tone))
    blocks += [Paragraph(f"{found.kind}: {found.message}.", Tone.CHANGED) for found in job.held_up]
    return [*blocks, Paragraph(job.resizing)] if job.resizing else blocks


def job_now(explanation: Explanation) -> JobNow:
    """Return the present state of the job from the plan."""
    job, verdict, snapshot = explanation.job, explanation.verdict, explanation.report.snapshot
    state, cost = job_state(job), job_cost(job, snapshot.rentals, snapshot.now)
    return JobNow(
        job.namespace,
        job.name,
        state,
        headline(job, state, cost, snapshot.now),
        None if verdict is None else why_word(job, verdict, explanation.report.problems_of(job)),
        None if verdict is None else verdict.reason.message,
        "" if verdict is None else _opening(explanation),
        own_limits(job, verdict, cost, snapshot.now),
        explanation.held_up,
        regrouping_sentence(job),
        job.budget,
    )


def headline(job: Job, state: JobState, spent: Money, now: Instant) -> str:
    """Return one sentence about the job's present state or its end."""
    cost = f", {spent} so far" if spent.micros else ""
    subject = f"TrainingJob {job.namespace}/{job.name}"
    if job.finish is not None:
        took = format_duration(seconds_between(job.created, job.finish.at))
        last = f", last on {name(job.records[-1].option)}" if job.records else ""
        runs = count(len(job.records), "run")
        because = "" if job.finish.done else f" ({job.finish.reason}: {job.finish.message})"
        ended = f"{output.when(job.finish.at)}, {took} after it was submitted, in {runs}{last}; its GPUs cost {spent}"
        return f"{subject} is {job.finish.kind}{because}: {ended}."
    done = f", {job.progress.fraction:.0%} done" if job.progress and job.progress.fraction is not None else ""
    if job.allocation is None:
        waited = format_duration(seconds_between(job.created, now))
        return f"{subject} is {state}{done}, submitted {waited} ago{cost}."
    where = f"on {name(job.allocation.option)} (run {job.allocation.run})"
    return f"{subject} is {state} {where}{done}{cost}."


def _opening(explanation: Explanation) -> str:
    job = explanation.job
    if job.finish is not None:
        return ""
    if job.allocation is not None:
        return "Why"
    starts = any(
        isinstance(command, Allocate) and command.job == job.id and command.allocation is not None
        for command in explanation.report.plan.commands
    )
    return "It starts now" if starts else "It waits" if job.wants_to_run else "It gets no GPUs"


def _pays(explanation: Explanation) -> str:
    job, budget = explanation.job, explanation.budget
    if budget is None:
        return ""
    rate = explanation.rate
    if rate is None:
        return f"Budget {job.budget} has no money: its spec.amount is 0."
    weight = (
        "" if job.weight == 1.0 else f"; its weight is {job.weight:g}, so for it {output.rate(rate)} x {job.weight:g}"
    )
    text = f"Budget {job.budget} pays up to {output.rate(rate)} per job-hour saved{weight}."
    if paid := _for_target(explanation):
        text += f" For this job, because of its targetCompletionTime, it pays {paid}."
    elif most := _at_most(explanation):
        asked = f"{FACTOR:g} times what an hour of it costs as asked for"
        text += f" For this job it pays at most {most}, {asked}."
    if share := next((share for share in budget.shares if share.name == job.share), None):
        who = f"the job is of share {share.name}" if share.name else "the job is of none of its shares"
        text += f" Of its money {share.part:.0%} is sure for such jobs, {share.allowed} now: {who}."
        return (
            text
            if share.feasible
            else f"{text} That is too little for the cheapest options of all of them: they queue."
        )
    return text if budget.feasible else f"{text} It is too small for the cheapest options of all its jobs: jobs queue."


def _at_most(explanation: Explanation) -> str:
    """Return the most that the budget pays to end this job an hour earlier. Empty if that is not more than the budget's
    rate.
    """
    solution = explanation.solution
    assignment = None if solution is None else solution.assignment(explanation.job)
    rate = explanation.rate
    if rate is None or assignment is None or assignment.group.most >= rate:
        return ""
    return output.rate(Rate(assignment.group.worth(rate)))


def _for_target(explanation: Explanation) -> str:
    """Return the rate that the job's target needs, or an empty text if the budget's rate is enough."""
    job, solution = explanation.job, explanation.solution
    if solution is None or solution.deadline_values(job) is None:
        return ""
    need = solution.deadline_needs[job.id]
    return "any price" if need.at_any_price else output.rate(Rate(need.worth))


def _mixes(explanation: Explanation) -> str:
    """Return a sentence if jobs of the class take several paths, because a pool is too small for all of them."""
    solution = explanation.solution
    assignment = None if solution is None else solution.assignment(explanation.job)
    if solution is None or assignment is None or not assignment.mixes:
        return ""
    begin = " and ".join(
        f"{output.percent(part.fraction)} of them on {name(part.path[0])}" for part in assignment.assigned_paths
    )
    return f"New jobs of its class begin {begin}: with this mix the pools that are too small are used in full."


def work_left(job: Job, options: Alternatives) -> str:
    """Return a sentence on the work left and its basis."""
    left = options.position.left
    if not options.known_work:
        if left == DEFAULT_WORK_SECONDS:
            return f"Work left: not known; {format_duration(left)} on the class's reference option are assumed."
        source = "a size that nobody declared or measured"
    elif job.progress is not None and job.progress.fraction is not None:
        source = f"from the {job.progress.fraction:.0%} that it reported at {output.when(job.progress.at)}"
    else:
        source = "the mean of its class; the job has not reported any progress"
    return f"Work left: {format_duration(left)} on the class's reference option, {source}."


def _unknown_speed(explanation: Explanation, options: Alternatives) -> str:
    """Return a sentence on how the job's speed becomes known, or an empty text if the speed of an option is known."""
    job, snapshot = explanation.job, explanation.report.snapshot
    if any(option.basis is not Basis.ASSUMED for option in options.rows):
        return ""
    if any(problem.field == PROFILE_NAME for problem in explanation.report.problems_of(job)):
        return ""  # the problem already says what to do
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
    rows = [(option.rank, _cells(option, wholes=wholes)) for option in shown]
    return options_blocks("Its options, cheapest first", columns, rows, len(options.rows) - len(shown))


def options_blocks(
    heading: str, columns: Sequence[TableColumn], rows: Iterable[tuple[str, Sequence[str]]], hidden: int
) -> list[Block]:
    """Make the table of options. ``rows`` has each option's rank, which marks it, and cells.

    ``hidden`` counts omitted options.
    """
    marked = [
        tuple(TableCell(text, TONES.get(rank, Tone.PLAIN)) for text in ("*" if rank == Rank.CHOSEN else "", *cells))
        for rank, cells in rows
    ]
    blocks: list[Block] = [Heading(heading), DocumentTable((TableColumn(""), *columns), tuple(marked))]
    if hidden:
        them = "it" if hidden == 1 else "them"
        text = f"and {hidden} that {is_or_are(hidden)} both slower and dearer: --all shows {them}"
        blocks.append(Paragraph(text, Tone.FAINT))
    return blocks


def _worth_showing(rows: Sequence[Alternative], gpu_types: Mapping[PoolId, str]) -> Sequence[Alternative]:
    """Select the options that are not both slower and dearer, and the cheapest option of each other GPU type."""
    types = {gpu_types.get(each.option.pool) for each in rows if each.rank is not Rank.WORSE}
    shown = []
    for each in rows:  # in order of cost, the cheapest first
        if each.rank is not Rank.WORSE or gpu_types.get(each.option.pool) not in types:
            shown.append(each)
            types.add(gpu_types.get(each.option.pool))
    return shown


def ruled_out_blocks(found: Sequence[RuledOut]) -> list[Block]:
    """Make the table of a job's options if the job may have none of them."""
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
            "-" if each.option is None else output.hourly(each.option.price),
            output.duration(each.seconds),
            "-" if each.dollars is None else format_money(each.dollars),
            each.why,
        )
        for each in found
    )
    return [Heading("Its options, cheapest first, and what rules each of them out"), DocumentTable(columns, rows)]


def late_pools(explanation: Explanation) -> Mapping[PoolId, LaunchWait]:
    """Return the pools among the options whose next node is expected late."""
    rows = () if explanation.options is None else explanation.options.rows
    waited_for = {option.option.pool for option in rows if option.launch_delay}
    return {name: wait for name, wait in explanation.report.late_pools.items() if name in waited_for}


def _left_alone(width: LeftAlone) -> str:
    """Return why a width is not among the options."""
    message = f": {width.message}" if width.message else ""
    what = f"{count(width.gpus, 'GPU')} ({width.gpu_type}){as_variant(width.variant)}"
    gpus = f"{what} {is_or_are(width.gpus)} no option"
    if width.until is None:
        return f"{gpus}: a run of this job failed there{message}."
    return f"{gpus} until {output.when(width.until)}: a run of its class failed there{message}."


def _other_pools(explanation: Explanation) -> list[Block]:
    """Return a sentence on pools that the job cannot use because its budget does not select them."""
    solution = explanation.solution
    others = None if solution is None else left_out(solution.budget, explanation.report.snapshot.pools)
    return [] if others is None else [Paragraph(f"{others.sentence()}.")]


def _cells(option: Alternative, *, wholes: bool) -> Sequence[str]:
    """Return the cells of a row. ``wholes`` adds the cost of GPUs of a node that stay empty (ADR 11)."""
    return (
        name(option.option),
        output.hourly(option.option.price),
        format_duration(option.seconds),
        format_money(option.dollars),
        *((format_money(option.empty),) if wholes else ()),
        "-" if option.per_hour_saved is None else format_money(option.per_hour_saved),
        str(option.rank),
        _basis(option),
        f"{option.nodes}; stays: {option.held}" if option.held else str(option.nodes),
    )


def _basis(option: Alternative) -> str:
    """Return the basis of the speed, with the number of reports."""
    return f"{option.basis}, {count(option.reports, 'report')}" if option.reports else str(option.basis)


def _changes(explanation: Explanation, options: Alternatives) -> list[Block]:
    if not options.changes:
        return []
    items = tuple(Item("-", change_sentence(change, explanation, options)) for change in options.changes)
    return [Heading("What would make another option win"), Items(items)]


def change_sentence(change: WinningChange, explanation: Explanation, options: Alternatives) -> str:
    """Return the rate, the price or the work left at which another option would be better."""
    report, job = explanation.report, explanation.job
    assert job.budget is not None
    frontier = report.frontiers[job.budget]
    rate, paid = explanation.rate or Rate(0.0), _for_target(explanation) or _at_most(explanation)
    need = f"the budget pays {output.rate(change.rate)} per job-hour saved instead of {output.rate(rate)}"
    if paid:
        of_job = output.rate(Rate(change.rate * job.weight))
        need = f"for this job the budget pays {of_job} per job-hour saved instead of {paid}"
    elif change.rate > rate and frontier.told:
        need += (
            f" (in the long run that takes about {output.whole(frontier.amount_for(change.rate))} {frontier.a_period})"
        )
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
