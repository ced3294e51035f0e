"""What ``charterer plan`` shows, as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import Action, ActionKind, ClassRow, PlanReport
from charterer.controller.status.jobs import job_state
from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.plan import Limit, PoolVerdict
from charterer.domain.time import after
from charterer.policy.budgets.reasons import format_money, name
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import Frontier, FrontierPoint, mean_seconds
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.report.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Item,
    Items,
    Paragraph,
    Picture,
    TableCell,
    TableColumn,
    Tone,
    row,
)

_SIGNS: Mapping[ActionKind, tuple[str, Tone]] = {
    ActionKind.RENT: ("+", Tone.GOOD),
    ActionKind.RELEASE: ("-", Tone.BAD),
    ActionKind.START: ("+", Tone.GOOD),
    ActionKind.MOVE: ("~", Tone.CHANGED),
    ActionKind.STOP: ("-", Tone.BAD),
}


def plan_document(
    thought: PlanReport,
    before: PlanReport | None,
    changes: Sequence[str],
    jobs: int,
    past: Sequence[Block] = (),
    pictures: Sequence[Picture] = (),
) -> Document:
    """The plan; with ``before`` the difference that ``changes`` make. At most ``jobs`` jobs are shown (0: all).

    ``past``: what would have been saved.
    """
    blocks: list[Block] = []
    if before is None:
        blocks += _now(thought.actions)
    else:
        blocks += _difference(thought, before, changes)
    blocks += _budgets(thought)
    blocks += _pools(thought)
    blocks += _classes(thought.classes)
    blocks += _jobs(thought, jobs)
    blocks += _more_or_less(thought, pictures)
    blocks += past
    blocks += _problems(thought)
    return Document("charterer plan", tuple(blocks))


# --- what would be done -----------------------------------------------------------------------------------------------


def _now(actions: Sequence[Action]) -> list[Block]:
    enforced = [action for action in actions if not action.observed]
    observed = [action for action in actions if action.observed]
    if not actions:
        return [Paragraph("Nothing to do: nodes and jobs are as Charterer would have them.", Tone.STRONG)]
    blocks: list[Block] = []
    if enforced:
        blocks += [Heading("Charterer would do now"), _items(enforced)]
    if observed:
        blocks += [Heading("Charterer would do this if its budget were not in mode Observe"), _items(observed)]
    return [*blocks, Paragraph(summary(actions) + ".", Tone.STRONG)]


def _items(actions: Iterable[Action]) -> Items:
    return Items(tuple(Item(_SIGNS[one.kind][0], _sentence(one), _SIGNS[one.kind][1]) for one in actions))


def _sentence(action: Action) -> str:
    what = f"{action.kind} {action.subject}" + (f" {action.what}" if action.what else "")
    return f"{what}: {action.why}" if action.why else what


def summary(actions: Iterable[Action]) -> str:
    """How many of each: ``Nodes: 2 to rent, 1 to release; jobs: 3 to start, 0 to move, 0 to stop``."""
    counts: Counter[ActionKind] = Counter()
    for action in actions:
        counts[action.kind] += action.count
    nodes, jobs = (
        ", ".join(f"{counts[kind]} to {kind}" for kind in kinds)
        for kinds in ((ActionKind.RENT, ActionKind.RELEASE), (ActionKind.START, ActionKind.MOVE, ActionKind.STOP))
    )
    return f"Nodes: {nodes}; jobs: {jobs}"


# --- against today ----------------------------------------------------------------------------------------------------


def different(thought: PlanReport, before: PlanReport) -> tuple[list[Action], list[Action]]:
    """Actions that are only in the one, and only in the other."""
    had, has = {action.key for action in before.actions}, {action.key for action in thought.actions}
    more = [action for action in thought.actions if action.key not in had]
    return more, [action for action in before.actions if action.key not in has]


def _difference(thought: PlanReport, before: PlanReport, changes: Sequence[str]) -> list[Block]:
    more, fewer = different(thought, before)
    blocks: list[Block] = [Heading("What if"), Items(tuple(Item("*", change) for change in changes))]
    if more:
        blocks += [
            Heading("Then Charterer would also do now"),
            _items(more),
            Paragraph(summary(more) + ".", Tone.STRONG),
        ]
    if fewer:
        blocks += [Heading("And it would not do what it would do without that"), _items(fewer)]
    if not more and not fewer:
        blocks.append(Paragraph("It would do just the same now.", Tone.STRONG))
    before_of = {standing.budget.id: standing for standing in before.standings}
    columns = (
        TableColumn("BUDGET"),
        TableColumn(""),
        TableColumn("AS IT IS", right=True),
        TableColumn("WHAT IF", right=True),
    )
    rows = []
    for standing in thought.standings:
        old = before_of.get(standing.budget.id)
        was_of = {} if old is None else dict(_figures(old, before))
        for number, (title, new) in enumerate(_figures(standing, thought)):
            was = was_of.get(title, "-")
            tone = Tone.STRONG if new != was else Tone.PLAIN
            rows.append(row(standing.budget.id if not number else "", title, was, TableCell(new, tone)))
    return [*blocks, Heading("The difference"), DocumentTable(columns, tuple(rows))]


def _figures(standing: BudgetSolution, thought: PlanReport) -> list[tuple[str, str]]:
    verdict = thought.plan.budgets[standing.budget.id]
    frontier = thought.frontiers[standing.budget.id]
    return [
        ("pays for a job-hour saved up to", formatting.rate(verdict.rate)),
        (
            "mean completion time of a job",
            formatting.duration(mean_seconds(standing)) if standing.feasible else "jobs queue",
        ),
        ("spends an hour in the long run", formatting.hourly(verdict.planned)),
        ("forecast for the month", str(verdict.forecast)),
        ("smallest budget that suffices", "-" if frontier.empty else str(frontier.cheapest)),
        ("nodes to rent now", str(_rented(thought, standing.budget.id))),
    ]


def _rented(thought: PlanReport, budget: BudgetId) -> int:
    commands = (*thought.plan.commands, *thought.plan.observed_commands)
    return sum(getattr(command, "budget", None) == budget for command in commands)


# --- budgets, classes, jobs -------------------------------------------------------------------------------------------


def _budgets(thought: PlanReport) -> list[Block]:
    columns = (
        TableColumn("BUDGET"),
        TableColumn("MODE", optional=True),
        TableColumn("AMOUNT", right=True),
        TableColumn("SPENT", right=True),
        TableColumn("FORECAST", right=True),
        TableColumn("IN 9 OF 10 MONTHS", right=True, optional=True),
        TableColumn("ALLOWS/H", right=True, optional=True),
        TableColumn("SPENDS/H", right=True, optional=True),
        TableColumn("PAYS/H-SAVED", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("STATE", elastic=True),
    )
    rows = []
    for standing in thought.standings:
        budget, verdict = standing.budget, thought.plan.budgets[standing.budget.id]
        state, tone = budget_state(standing, thought.frontiers[budget.id])
        rows.append(
            row(
                budget.id,
                budget.mode,
                str(budget.amount),
                str(verdict.spent),
                str(verdict.forecast),
                f"{formatting.whole(verdict.forecast_low)} to {formatting.whole(verdict.forecast_high)}",
                formatting.hourly(verdict.allowed),
                formatting.hourly(verdict.planned),
                formatting.rate(verdict.rate),
                formatting.duration(mean_seconds(standing)),
                TableCell(state, tone),
            )
        )
    said = [
        f"{one.budget.id} pays up to {formatting.rate(one.rate)} per job-hour saved"
        for one in thought.standings
        if one.shares
    ]
    lines = [Paragraph("; ".join(said) + ".")] if said else []
    return [Heading("Budgets"), *lines, DocumentTable(columns, tuple(rows))]


def budget_state(standing: BudgetSolution, frontier: Frontier) -> tuple[str, Tone]:
    """How the budget relates to its load, in a sentence."""
    needs = "" if frontier.empty else f"the cheapest options of its jobs need {frontier.cheapest} a month"
    if not standing.budget.amount.micros:
        return f"the amount is 0: nothing can be rented{'; ' if needs else ''}{needs}", Tone.BAD
    if frontier.empty:
        return "no jobs, and no profile says that any are expected", Tone.FAINT
    if not standing.feasible:
        allowed = Price.per_second(standing.allowed)
        return f"too small for what is left of the month ({allowed}): jobs queue; {needs}", Tone.BAD
    if standing.planned < standing.allowed * (1.0 - 1e-9):
        return "more than can be used: every job has its fastest option", Tone.PLAIN
    observes = ", only observes" if standing.budget.mode is Mode.OBSERVE else ""
    return f"used in full{observes}", Tone.PLAIN


def _pools(thought: PlanReport) -> list[Block]:
    """A line for each pool that is too small for what jobs would choose."""
    lines = [pool_in_words(name, verdict) for name, verdict in sorted(thought.plan.pools.items())]
    return [Heading("Pools that are too small"), Items(tuple(Item("!", line) for line in lines))] if lines else []


def pool_in_words(name: str, verdict: PoolVerdict) -> str:
    """Which limit binds, and what one more node would be worth."""
    nodes = f"{verdict.nodes} node{'' if verdict.nodes == 1 else 's'}"
    match verdict.limit:
        case Limit.MAX_NODES:
            full = f"all {nodes} of spec.maxNodes are wanted" if verdict.nodes != 1 else "its only node is wanted"
        case Limit.STOCK:
            full = f"the cloud has no more than {nodes} now"
        case Limit.QUOTA:
            full = f"the cloud's quota allows no more than {nodes}"
    if not verdict.node_scarcity.micros_per_hour:
        return f"pool {name}: {full}, and jobs have to wait for it"
    least, waits = ("at least ", "; jobs have to wait for it") if verdict.short else ("", "")
    return f"pool {name}: {full}; one more node is worth {least}{verdict.node_scarcity} beyond its price{waits}"


def _classes(rows_of: Sequence[ClassRow]) -> list[Block]:
    if not rows_of:
        return []
    columns = (
        TableColumn("BUDGET", optional=True),
        TableColumn("CLASS"),
        TableColumn("JOBS/H", right=True),
        TableColumn("JOB TAKES", right=True),
        TableColumn("JOB COSTS", right=True),
        TableColumn("GIVEN", elastic=True),
    )
    rows = tuple(
        row(
            one.budget,
            formatting.class_name(one.class_id) + (f" (weight {one.weight:g})" if one.weight != 1.0 else ""),
            f"{one.arrivals_per_hour:.3g}",
            formatting.duration(one.seconds),
            format_money(one.dollars),
            formatting.mixed(one.paths),
        )
        for one in rows_of
    )
    return [Heading("What a new job of each class is given"), DocumentTable(columns, rows)]


def shown_jobs(thought: PlanReport) -> list[Job]:
    """The jobs that are not finished: those that something would happen to first, then waiting, then running ones."""
    named = {action.subject for action in thought.actions}

    def order(job: Job) -> tuple[bool, bool, int, JobId]:
        return f"{job.namespace}/{job.name}" not in named, job.allocation is not None, job.created, job.id

    return sorted((job for job in thought.snapshot.jobs.values() if job.finish is None), key=order)


def _jobs(thought: PlanReport, most: int) -> list[Block]:
    jobs = shown_jobs(thought)
    if not jobs:
        return [Heading("Jobs"), Paragraph("No job runs or waits.")]
    columns = (
        TableColumn("JOB"),
        TableColumn("STATE"),
        TableColumn("HAS", optional=True),
        TableColumn("WORTH GIVING"),
        TableColumn("LEFT", right=True),
        TableColumn("ENDS ABOUT", optional=True),
        TableColumn("WHY", elastic=True),
    )
    rows = [_job(job, thought) for job in jobs[: most or None]]
    blocks: list[Block] = [Heading("Jobs"), DocumentTable(columns, tuple(rows))]
    if len(rows) < len(jobs):
        blocks.append(Paragraph(f"and {len(jobs) - len(rows)} more: --jobs 0 or -o json shows all", Tone.FAINT))
    return blocks


def _job(job: Job, thought: PlanReport) -> tuple[TableCell, ...]:
    verdict = thought.plan.jobs.get(job.id)
    left = None if verdict is None else verdict.remaining_seconds
    return row(
        f"{job.namespace}/{job.name}",
        job_state(job),
        "-" if job.allocation is None else name(job.allocation.option),
        "-" if verdict is None or verdict.option is None else name(verdict.option),
        formatting.duration(left),
        "-" if left is None else formatting.when(after(thought.snapshot.now, left)),
        "" if verdict is None else verdict.reason.message,
    )


# --- more or less money -----------------------------------------------------------------------------------------------


def _more_or_less(thought: PlanReport, pictures: Sequence[Picture]) -> list[Block]:
    known = {budget: frontier for budget, frontier in thought.frontiers.items() if not frontier.empty}
    if not known:
        return []
    blocks: list[Block] = [Heading("What more or less money would buy, in the long run")]
    columns = (
        TableColumn("BUDGET"),
        TableColumn("TIMES", right=True),
        TableColumn("A MONTH", right=True),
        TableColumn("SPENDS", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("PAYS/H-SAVED", right=True),
        TableColumn("ONE MORE $ SAVES", right=True),
        TableColumn("", elastic=True),
    )
    rows = [_bought(budget, one) for budget, frontier in known.items() for one in frontier.times()]
    blocks.append(DocumentTable(columns, tuple(rows)))
    for budget, frontier in known.items():
        ends = f"below {frontier.cheapest} a month jobs queue; above {frontier.fastest} nothing faster can be had"
        blocks.append(Paragraph(f"{budget}: {ends}.", Tone.FAINT))
    return [*blocks, *pictures]


def _bought(budget: BudgetId, bought: FrontierPoint) -> tuple[TableCell, ...]:
    tone = Tone.STRONG if bought.factor == 1.0 else Tone.BAD if bought.fit is BudgetFit.INFEASIBLE else Tone.PLAIN
    texts = (
        budget,
        f"{bought.factor:g}" if bought.factor else "-",
        str(Money(bought.amount.micros)),
        str(bought.spend),
        formatting.duration(bought.mean_seconds),
        formatting.rate(bought.rate),
        formatting.minutes_per_dollar(bought.seconds_per_dollar),
        formatting.note(bought.fit, bought.served),
    )
    return tuple(TableCell(text, tone) for text in texts)


def _problems(thought: PlanReport) -> list[Block]:
    if not thought.snapshot.problems:
        return []
    items = tuple(
        Item("!", f"{one.kind} {one.namespace + '/' if one.namespace else ''}{one.name} {one.field}: {one.message}")
        for one in thought.snapshot.problems
    )
    return [Heading("Problems"), Items(items)]
