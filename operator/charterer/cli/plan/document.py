"""The document that ``charterer plan`` shows."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.plan.action_blocks import actions_now
from charterer.cli.plan.capacity_lines import capacity_blocks
from charterer.cli.plan.class_table import class_blocks
from charterer.cli.plan.commitment_lines import commitment_blocks
from charterer.cli.plan.difference import difference_blocks
from charterer.cli.plan.family_rows import family_in_words, in_tree_order
from charterer.cli.plan.money_table import more_or_less_blocks
from charterer.cli.plan.overview import overview_blocks
from charterer.cli.plan.plan_answer import PlanAnswer
from charterer.cli.plan.spent_table import spent_blocks
from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.controller.status.jobs import job_state
from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, JobId, Rate
from charterer.domain.job import Job
from charterer.domain.money import ZERO, Price
from charterer.domain.plan import ForecastVerdict, Limit, PoolVerdict
from charterer.domain.reasons.phrases import name
from charterer.domain.snapshot import NO_LIMITS, Snapshot
from charterer.domain.time import after
from charterer.ledger.balance import current_rate
from charterer.policy.budgets.reasons import late, of_first_month, of_share
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import Frontier, mean_seconds
from charterer.policy.explain.month_sums import MonthSums
from charterer.policy.nodes.operator_limits import OperatorRoom, in_words
from charterer.policy.options.pool_selection import no_pool
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
from charterer.sentences import count

_INDENT = "\u00a0" * 2
"""Before the name of a budget that is below another one; a page shows it, too."""


def plan_document(answer: PlanAnswer, jobs: int, pictures: Sequence[Picture] | None = None) -> Document:
    """The plan, or the difference that a what-if makes. At most ``jobs`` jobs are shown (0: all).

    With ``pictures``, for a page: they come first, under a sentence on each budget.
    """
    report = answer.report
    blocks: list[Block] = [*overview_blocks(answer, pictures)]
    if answer.before is None:
        blocks += actions_now(report.actions)
    else:
        blocks += difference_blocks(answer, answer.before)
    blocks += _budgets(report)
    blocks += spent_blocks(report)
    blocks += commitment_blocks(report)
    blocks += _operator(report.snapshot)
    blocks += _pools(report)
    blocks += class_blocks(report.classes)
    blocks += _jobs(answer, jobs)
    blocks += more_or_less_blocks(report)
    blocks += capacity_blocks(report)
    blocks += _problems(report)
    return Document("charterer plan", tuple(blocks))


# --- budgets, classes, jobs -------------------------------------------------------------------------------------------


def _budgets(report: PlanReport) -> list[Block]:
    columns = (
        TableColumn("BUDGET"),
        TableColumn("MODE", optional=True),
        TableColumn("AMOUNT", right=True),
        TableColumn("SPENT", right=True),
        TableColumn("FORECAST", right=True),
        TableColumn("IN 9 OF 10 MONTHS", right=True, optional=True),
        TableColumn("ALLOWS/H", right=True, optional=True),
        TableColumn("NOW/H", right=True),
        TableColumn("LONG RUN/H", right=True, optional=True),
        TableColumn("PAYS/H-SAVED", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("STATE", elastic=True),
    )
    rows = []
    for depth, solution in in_tree_order(report):
        budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
        family, indent = verdict.with_descendants, _INDENT * depth
        if family is not None:
            sums = (str(family.amount), str(family.spent), *_forecast(family.forecast), "-", "-", "-", "-", "-")
            rows.append(row(f"{indent}{budget.id}", budget.mode, *sums, family_in_words(budget, family)))
            if budget.selector.nothing:
                continue
            indent += _INDENT
        state, tone = budget_state(solution, report.frontiers[budget.id])
        rows.append(
            row(
                f"{indent}{budget.id}{' itself' if family is not None else ''}",
                budget.mode,
                str(budget.amount),
                str(verdict.spent),
                *_forecast(verdict.forecast),
                formatting.hourly(verdict.allowed),
                formatting.hourly(current_rate(budget.id, report.snapshot.rentals.values())),
                formatting.hourly(verdict.planned),
                formatting.rate(verdict.rate),
                formatting.duration(mean_seconds(solution)),
                TableCell(state, tone),
            )
        )
    sentences = [
        f"{solution.budget.id} pays {_for_time(rate)}"
        for solution in report.solutions
        if (rate := report.plan.budgets[solution.budget.id].rate) is not None
    ]
    lines = [Paragraph("; ".join(sentences) + ".")] if sentences else []
    loans = [
        Paragraph(f"{loan.lender} lends {loan.borrower} {loan.amount} this month, which it is not forecast to need.")
        for name, verdict in report.plan.budgets.items()
        for loan in verdict.loans
        if loan.borrower == name
    ]
    firsts = [
        Paragraph(f"{solution.budget.id}: {words}.")
        for solution in report.solutions
        if (words := of_first_month(solution.budget, report.snapshot.now))
    ]
    currencies = [Paragraph(words) for solution in report.solutions if (words := _in_currency(solution, report))]
    table = DocumentTable(columns, tuple(rows))
    return [Heading("Budgets"), *lines, table, *_meaning(rows), *_sums(report), *firsts, *loans, *currencies]


def _in_currency(solution: BudgetSolution, report: PlanReport) -> str:
    """The amount and what was spent in the currency of the budget's owner; empty for dollars."""
    budget = solution.budget
    if budget.currency is None:
        return ""
    spent = budget.currency.amount(report.plan.budgets[budget.id].spent)
    amount = budget.currency.amount(budget.amount)
    return f"{budget.id}: the amount is {amount} and {spent} are spent, at {budget.currency}."


def _forecast(forecast: ForecastVerdict | None) -> tuple[str, str]:
    if forecast is None:
        return "no history", "-"
    return str(forecast.expected), f"{formatting.whole(forecast.low)} to {formatting.whole(forecast.high)}"


def _sums(report: PlanReport) -> list[Block]:
    """What the forecasts are made of."""
    return [
        Paragraph(_sum_in_words(budget, sums))
        for budget, sums in report.sums.items()
        if sums.jobs or sums.spent != ZERO
    ]


def _sum_in_words(budget: BudgetId, sums: MonthSums) -> str:
    text = f"{budget}: {sums.spent} spent, {sums.in_sight} for {count(sums.jobs, 'job')} in sight, "
    if sums.commitments != ZERO:
        text += f"{sums.commitments} for nodes that are paid for whether they are used or not, "
    if not sums.assumed:
        return f"{text}{sums.to_come} for jobs expected to come."
    return (
        f"{text}{sums.to_come} for jobs to come, assumed: there is no history yet. If nothing else comes, the month "
        f"ends at {sums.without_more_jobs}."
    )


def _for_time(rate: Rate) -> str:
    return f"up to {formatting.rate(rate)} per job-hour saved" if rate else "only for the cheapest options"


def _meaning(rows: Sequence[tuple[TableCell, ...]]) -> list[Paragraph]:
    """The meaning of the table's words."""
    words = (
        "ALLOWS/H is what a budget may spend an hour now, NOW/H what its rented nodes cost, and LONG RUN/H what its "
        "jobs' options spend if jobs come as they are expected. PAYS/H-SAVED is the most that it pays to end a job one "
        "hour earlier; it follows from the amount and the load. MEAN JOB is the time from submission to completion, in "
        "the long run."
    )
    return [Paragraph(words, Tone.FAINT)] if rows else []


def budget_state(solution: BudgetSolution, frontier: Frontier) -> tuple[str, Tone]:
    """A sentence on how the budget relates to its load and to its parent, and its tone."""
    fault = solution.inputs.tree.faults.get(solution.budget.id)
    if fault is not None:
        return fault.sentence(), Tone.BAD
    state, tone = _state_of_load(solution, frontier)
    part = of_share(solution.budget)
    return f"{state}; {part}" if part else state, tone


def _state_of_load(solution: BudgetSolution, frontier: Frontier) -> tuple[str, Tone]:
    needs = "" if not frontier.told else f"the cheapest options of its jobs need {frontier.cheapest} a month"
    if solution.budget.penniless:
        return f"the amount is 0: nothing can be rented{'; ' if needs else ''}{needs}", Tone.BAD
    if no_pool(solution.budget, solution.inputs.snapshot.pools):
        return "can rent nothing: spec.poolSelector selects no GPUPool", Tone.BAD
    if frontier.empty:
        jobs = [job for job in solution.inputs.snapshot.jobs.values() if job.budget == solution.budget.id]
        if unfinished := sum(not job.finish for job in jobs):
            these = "its only job cannot" if unfinished == 1 else f"none of its {unfinished} jobs can"
            return f"{these} be given GPUs: see WHY", Tone.BAD
        return "no jobs, and no profile says that any are expected", Tone.FAINT
    if not frontier.told and solution.feasible:
        return "no history yet: how many jobs come is assumed", Tone.PLAIN
    kept_up = frontier.cheapest.dollars <= solution.allowed * frontier.period_seconds
    if not solution.feasible:
        allowed = Price.per_second(solution.allowed)
        why = "; the jobs that are there cost more than that" if kept_up or not needs else f"; {needs}"
        return f"too small for what is left of the month ({allowed}): jobs queue{why}", Tone.BAD
    if not kept_up:
        return f"no job has to wait for money now, but if jobs keep coming at this rate, {needs}", Tone.PLAIN
    if solution.surplus:
        room = frontier.at(solution.budget.amount).room
        why = "nothing faster is worth its price" if room else "pools have no room for more"
        return f"more than can be used: {why}", Tone.PLAIN
    observes = ", only observes" if solution.budget.mode is Mode.OBSERVE else ""
    small = frontier.cheapest > solution.budget.amount
    whole = f"; a whole month of such jobs needs {frontier.cheapest}" if small else ""
    return f"used in full{observes}{whole}", Tone.PLAIN


def _operator(snapshot: Snapshot) -> list[Block]:
    """The operator's own limits, and what counts against them."""
    if snapshot.limits == NO_LIMITS:
        return []
    room = OperatorRoom(snapshot)
    has = f"it has {count(room.nodes, 'node')}, which cost up to {room.hourly}"
    return [Paragraph(f"The operator's own limits are {in_words(snapshot.limits)} in all; {has}.")]


def _pools(report: PlanReport) -> list[Block]:
    """A line for each pool that is smaller than the demand for it, and for each that gives nodes late."""
    small = [pool_in_words(name, verdict) for name, verdict in sorted(report.plan.pools.items())]
    late_ones = [f"pool {late(name, wait).sentence()}" for name, wait in report.late_pools.items()]
    found = (("Pools that are too small", small), ("Pools whose nodes come late", late_ones))
    return [
        block
        for title, lines in found
        if lines
        for block in (Heading(title), Items(tuple(Item("!", line) for line in lines)))
    ]


def pool_in_words(name: str, verdict: PoolVerdict) -> str:
    """The limit that binds, and the worth of one more node."""
    nodes = count(verdict.nodes, "node")
    match verdict.limit:
        case Limit.MAX_NODES:
            full = f"all {nodes} of spec.maxNodes are wanted" if verdict.nodes != 1 else "its only node is wanted"
        case Limit.STOCK:
            full = f"the cloud has no more than {nodes} now"
        case Limit.QUOTA:
            full = f"the cloud's quota allows no more than {nodes}"
        case Limit.OPERATOR:
            full = f"the operator's own limits allow no more than {nodes}"
    if not verdict.node_scarcity.micros_per_hour:
        return f"pool {name}: {full}, and jobs have to wait for it"
    least, waits = ("at least ", "; jobs have to wait for it") if verdict.short else ("", "")
    worth = f"{least}{verdict.node_scarcity} beyond its price"
    if verdict.node_scarcity > verdict.payable:
        worth = f"more than the {verdict.payable} that its budget may spend"
    return f"pool {name}: {full}; one more node is worth {worth}{waits}"


def shown_jobs(report: PlanReport, before: PlanReport | None = None) -> list[Job]:
    """The unfinished jobs: those that are not as ``before``, with an action, waiting, running, in this order."""
    known = report.snapshot.jobs if before is None else before.snapshot.jobs
    with_action = {action.subject for action in report.actions}

    def order(job: Job) -> tuple[bool, bool, bool, int, JobId]:
        no_action = f"{job.namespace}/{job.name}" not in with_action
        return known.get(job.id) == job, no_action, job.allocation is not None, job.created, job.id

    return sorted((job for job in report.snapshot.jobs.values() if job.finish is None), key=order)


def _jobs(answer: PlanAnswer, most: int) -> list[Block]:
    report, jobs = answer.report, shown_jobs(answer.report, answer.before)
    if not jobs:
        return [Heading("Jobs"), Paragraph("No job runs or waits.")]
    columns = (
        TableColumn("JOB"),
        TableColumn("STATE"),
        TableColumn("HAS", optional=True),
        TableColumn("WANT"),
        TableColumn("LEFT", right=True),
        TableColumn("ENDS ABOUT", optional=True),
        TableColumn("WHY", elastic=True),
    )
    rows = [_job(job, report) for job in jobs[: most or None]]
    blocks: list[Block] = [Heading("Jobs"), DocumentTable(columns, tuple(rows))]
    if len(rows) < len(jobs):
        blocks.append(Paragraph(f"and {len(jobs) - len(rows)} more: --jobs 0 or -o json shows all", Tone.FAINT))
    return blocks


def _job(job: Job, report: PlanReport) -> tuple[TableCell, ...]:
    verdict = report.plan.jobs.get(job.id)
    left = None if verdict is None else verdict.remaining_seconds
    return row(
        f"{job.namespace}/{job.name}",
        job_state(job),
        "-" if job.allocation is None else name(job.allocation.option),
        "-" if verdict is None or verdict.option is None else name(verdict.option),
        formatting.duration(left),
        "-"
        if left is None or verdict is None
        else formatting.when(after(report.snapshot.now, verdict.starts_in + left)),
        "" if verdict is None else verdict.reason.message,
    )


def _problems(report: PlanReport) -> list[Block]:
    if not report.snapshot.problems:
        return []
    lines = []
    for problem in report.snapshot.problems:
        name_and_field = "/".join(filter(None, (problem.namespace, problem.name))), problem.field
        lines.append(f"{problem.kind} {' '.join(filter(None, name_and_field))}: {problem.message}")
    return [Heading("Problems"), Items(tuple(Item("!", line) for line in lines))]
