"""The table of ``charterer plan`` that says what more or less money would buy."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.policy.explain.frontier import FrontierPoint
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.report.document import (
    Block,
    DocumentTable,
    Heading,
    Paragraph,
    TableCell,
    TableColumn,
    Tone,
)


def more_or_less_blocks(report: PlanReport) -> list[Block]:
    """Rows of amounts for each budget with a history, and the amounts between which money makes a difference."""
    heading = Heading("What more or less money would buy, in the long run")
    frontiers = {budget: frontier for budget, frontier in report.frontiers.items() if frontier.told}
    unknown: list[Block] = [
        Paragraph(f"{budget}: {NO_HISTORY}.", Tone.FAINT)
        for budget, frontier in report.frontiers.items()
        if not frontier.empty and not frontier.told
    ]
    if not frontiers:
        return [heading, *unknown] if unknown else []
    blocks: list[Block] = [
        heading,
        Paragraph("A row is an amount for every month from now on, whatever was spent of this one so far.", Tone.FAINT),
    ]
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
    rows = [_row(budget, point) for budget, frontier in frontiers.items() for point in telling(frontier.times())]
    blocks.append(DocumentTable(columns, tuple(rows)))
    for budget, frontier in frontiers.items():
        ends = (
            f"they queue below {frontier.cheapest} a month; above {frontier.fastest} nothing faster is worth it"
            if frontier.at(frontier.cheapest).room
            else "pools have no room for all of them on their cheapest options, whatever the amount"
        )
        blocks.append(Paragraph(f"{budget}: if jobs keep coming at this rate, {ends}.", Tone.FAINT))
    return [*blocks, *unknown]


def telling(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points without those that repeat a neighbour: of amounts too small only the largest, and of those that leave
    money over only the smallest. The budget's own amount is always there.
    """
    small = [point.factor for point in points if point.fit is BudgetFit.INFEASIBLE]
    over = [point.factor for point in points if point.fit is BudgetFit.SURPLUS]
    repeated = {*small[:-1], *over[1:]} - {1.0}
    return [point for point in points if point.factor not in repeated]


NO_HISTORY = "there is no history yet, so what more or less money would buy is not known"
"""Said of a budget of which nothing tells how many jobs come."""


def _row(budget: BudgetId, point: FrontierPoint) -> tuple[TableCell, ...]:
    tone = Tone.STRONG if point.factor == 1.0 else Tone.PLAIN
    texts = (
        budget,
        f"{point.factor:g}" if point.factor else "-",
        str(Money(point.amount.micros)),
        str(point.spend),
        formatting.duration(point.mean_seconds),
        formatting.rate(point.rate),
        formatting.minutes_per_dollar(point.seconds_per_dollar),
        note(point.fit, point.served, room=point.room),
    )
    return tuple(TableCell(text, tone) for text in texts)


def note(fit: BudgetFit, served: float, *, room: bool) -> str:
    """A remark on how an amount, and the pools' room, fit the load; empty where there is none."""
    if fit is not BudgetFit.INFEASIBLE and not room:
        return "pools are too small for that: jobs would have other options, or wait"
    match fit:
        case BudgetFit.INFEASIBLE:
            return f"too small if jobs keep coming at this rate: it pays for {formatting.percent(served)} of them"
        case BudgetFit.SURPLUS:
            return "more than can be used: nothing faster is worth its price"
        case _:
            return ""
