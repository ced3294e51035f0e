"""The difference that a what-if makes to a plan."""

from __future__ import annotations

from charterer.cli.plan.action_blocks import action_items, summary
from charterer.cli.plan.money_table import NO_HISTORY
from charterer.cli.plan.plan_answer import AmountEffect, PlanAnswer
from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.ids import BudgetId
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import mean_seconds
from charterer.report.document import (
    Block,
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


def difference_blocks(answer: PlanAnswer, before: PlanReport) -> list[Block]:
    report, added, dropped = answer.report, answer.added, answer.dropped
    blocks: list[Block] = [Heading("What if"), Items(tuple(Item("*", change) for change in answer.changes))]
    blocks += effect_paragraphs(answer)
    if added:
        blocks += [
            Heading("Then Charterer would also do now"),
            action_items(added),
            Paragraph(summary(added) + ".", Tone.STRONG),
        ]
    if dropped:
        blocks += [Heading("And it would not do"), action_items(dropped)]
    if not added and not dropped:
        blocks.append(Paragraph("It would do the same as without that.", Tone.STRONG))
    solutions_before = {solution.budget.id: solution for solution in before.solutions}
    columns = (
        TableColumn("BUDGET"),
        TableColumn(""),
        TableColumn("AS IT IS", right=True),
        TableColumn("WHAT IF", right=True),
    )
    rows, unchanged = [], 0
    for solution in report.solutions:
        solution_before = solutions_before.get(solution.budget.id)
        figures_before = {} if solution_before is None else dict(_figures(solution_before, before))
        figures = [(title, figures_before.get(title, "-"), figure) for title, figure in _figures(solution, report)]
        changed = [figure for figure in figures if figure[1] != figure[2]]
        unchanged += not changed
        for number, (title, figure_before, figure) in enumerate(changed):
            cell = TableCell(figure, Tone.STRONG)
            rows.append(row(solution.budget.id if not number else "", title, figure_before, cell))
    blocks.append(Heading("The difference"))
    if rows:
        blocks.append(DocumentTable(columns, tuple(rows)))
    if unchanged:
        blocks.append(Paragraph(f"{count(unchanged, 'budget')} {is_or_are(unchanged)} as before.", Tone.FAINT))
    return blocks


def effect_paragraphs(answer: PlanAnswer) -> list[Block]:
    """A sentence on each budget that is asked about at another amount."""
    return [Paragraph(_in_words(effect), Tone.STRONG) for effect in answer.effects]


def _in_words(effect: AmountEffect) -> str:
    """Hours first, then dollars; without a history, what is known of the jobs in sight."""
    money = f"{effect.budget}: {abs(effect.part):.0%} {'more' if effect.part > 0.0 else 'less'} money"
    if effect.more_spent is None:
        jobs = f"{effect.changed} of {count(effect.jobs, 'job')} in sight would have other GPUs now"
        return f"{money}: {jobs}; {NO_HISTORY}."
    spent = "as much is spent"
    if abs(effect.more_spent.dollars) >= _LEAST_DOLLARS:
        more = effect.more_spent.micros > 0
        amount = formatting.whole(effect.more_spent if more else -effect.more_spent)
        spent = f"{amount} {'more' if more else 'less'} is spent"
    return f"{money}: {_sooner(effect)} for the rest of this month, and {spent} by its end."


def _sooner(effect: AmountEffect) -> str:
    if effect.seconds is None:
        return "jobs queue" if effect.seconds_before is not None else "jobs still queue"
    if effect.seconds_before is None:
        return f"jobs no longer queue, and take {formatting.duration(effect.seconds)} on average"
    saved = effect.seconds_before - effect.seconds
    if abs(saved) < _LEAST_SECONDS:
        return "jobs end as early as now" if effect.part < 0.0 else "jobs end no earlier: nothing faster is worth it"
    return f"jobs end {formatting.duration(abs(saved))} {'earlier' if saved > 0.0 else 'later'} on average"


_LEAST_SECONDS = 1.0
_LEAST_DOLLARS = 0.5
"""Differences below which nothing has changed."""


def _figures(solution: BudgetSolution, report: PlanReport) -> list[tuple[str, str]]:
    verdict = report.plan.budgets[solution.budget.id]
    frontier = report.frontiers[solution.budget.id]
    told = frontier.told or frontier.empty
    return [
        ("pays per job-hour saved, at most", formatting.rate(verdict.rate)),
        ("mean completion time of a job", _mean_time(solution, told=told)),
        ("spends per hour in the long run", formatting.hourly(verdict.planned) if told else _NO_HISTORY),
        ("forecast for the month", _NO_HISTORY if verdict.forecast is None else str(verdict.forecast.expected)),
        ("smallest budget that suffices", "-" if frontier.empty else str(frontier.cheapest) if told else _NO_HISTORY),
        ("nodes to rent now", str(_rented(report, solution.budget.id))),
    ]


_NO_HISTORY = "no history"
"""Said instead of a figure that would rest on assumed arrivals."""


def _mean_time(solution: BudgetSolution, *, told: bool) -> str:
    if not solution.feasible:
        return "jobs queue"
    return formatting.duration(mean_seconds(solution)) if told else _NO_HISTORY


def _rented(report: PlanReport, budget: BudgetId) -> int:
    commands = (*report.plan.commands, *report.plan.observed_commands)
    return sum(getattr(command, "budget", None) == budget for command in commands)
