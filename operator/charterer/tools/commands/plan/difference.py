"""Blocks of ``charterer plan`` about actions, amounts, and the difference that a what-if makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.time import common_word
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.solve.hull import BudgetFit
from charterer.sentences import count, is_or_are
from charterer.tools.commands.plan.answer import AmountEffect, PlanAnswer
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.plan_report import Action, ActionKind, PlanReport
from charterer.tools.documents.document import (
    Block,
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
from charterer.tools.frontier import FrontierPoint, mean_seconds

# The list of actions, each with its subject and its reason.


_SIGNS: Mapping[ActionKind, tuple[str, Tone]] = {
    ActionKind.RENT: ("+", Tone.GOOD),
    ActionKind.RELEASE: ("-", Tone.BAD),
    ActionKind.START: ("+", Tone.GOOD),
    ActionKind.MOVE: ("~", Tone.CHANGED),
    ActionKind.STOP: ("-", Tone.BAD),
}


def actions_now(actions: Sequence[Action]) -> list[Block]:
    enforced = [action for action in actions if not action.observed]
    observed = [action for action in actions if action.observed]
    if not actions:
        return [Paragraph("Nothing to do: nodes and jobs are as Charterer would have them.", Tone.STRONG)]
    blocks: list[Block] = []
    if enforced:
        blocks += [Heading("Charterer would do now"), action_items(enforced)]
    if observed:
        blocks += [Heading("Charterer would do this if its budget were not in mode Observe"), action_items(observed)]
    return [*blocks, Paragraph(summary(actions) + ".", Tone.STRONG)]


def action_items(actions: Iterable[Action]) -> Items:
    return Items(
        tuple(Item(_SIGNS[action.kind][0], _action_sentence(action), _SIGNS[action.kind][1]) for action in actions)
    )


def _action_sentence(action: Action) -> str:
    what = f"{action.kind} {action.subject}" + (f" {action.what}" if action.what else "")
    return f"{what}: {action.why}" if action.why else what


def summary(actions: Iterable[Action]) -> str:
    """Return counts by kind, such as ``Nodes: 2 to rent, 1 to release; jobs: 3 to start, 0 to move, 0 to stop``."""
    counts: Counter[ActionKind] = Counter()
    for action in actions:
        counts[action.kind] += action.count
    nodes, jobs = (
        ", ".join(f"{counts[kind]} to {kind}" for kind in kinds)
        for kinds in ((ActionKind.RENT, ActionKind.RELEASE), (ActionKind.START, ActionKind.MOVE, ActionKind.STOP))
    )
    return f"Nodes: {nodes}; jobs: {jobs}"


# The table of what more or less money would buy.


def more_or_less_blocks(report: PlanReport) -> list[Block]:
    """Make rows of amounts for each budget with a history, and name the range in which the amount matters."""
    heading = Heading("What more or less money would buy, in the long run")
    frontiers = {budget: frontier for budget, frontier in report.frontiers.items() if frontier.told}
    unknown: list[Block] = [
        Paragraph(f"{budget}: {NO_HISTORY}.", Tone.FAINT)
        for budget, frontier in report.frontiers.items()
        if not frontier.empty and not frontier.told
    ]
    if not frontiers:
        return [heading, *unknown] if unknown else []
    word = common_word(report.snapshot.budgets[budget].calendar for budget in frontiers)
    blocks: list[Block] = [
        heading,
        Paragraph(
            f"A row is an amount for every {word} from now on, whatever was spent of this one so far.", Tone.FAINT
        ),
    ]
    columns = (
        TableColumn("BUDGET"),
        TableColumn("TIMES", right=True),
        TableColumn(f"A {word.upper()}", right=True),
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
            f"they queue below {frontier.cheapest} {frontier.a_period}; above {frontier.fastest} nothing faster is "
            "worth it"
            if frontier.at(frontier.cheapest).room
            else "pools have no room for all of them on their cheapest options, whatever the amount"
        )
        blocks.append(Paragraph(f"{budget}: if jobs keep coming at this rate, {ends}.", Tone.FAINT))
    return [*blocks, *unknown]


def telling(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Omit points that repeat a neighbour, but keep the budget's own amount.

    Of amounts that are too small, only the largest is kept. Of amounts larger than the jobs can use, only the smallest
    is kept.
    """
    small = [point.factor for point in points if point.fit is BudgetFit.INFEASIBLE]
    over = [point.factor for point in points if point.fit is BudgetFit.SURPLUS]
    repeated = {*small[:-1], *over[1:]} - {1.0}
    return [point for point in points if point.factor not in repeated]


NO_HISTORY = "there is no history yet, so what more or less money would buy is not known"
"""Text for a budget whose rate of arriving jobs is unknown."""


def _row(budget: BudgetId, point: FrontierPoint) -> tuple[TableCell, ...]:
    tone = Tone.STRONG if point.factor == 1.0 else Tone.PLAIN
    texts = (
        budget,
        f"{point.factor:g}" if point.factor else "-",
        str(Money(point.amount.micros)),
        str(point.spend),
        output.duration(point.mean_seconds),
        output.rate(point.rate),
        output.minutes_per_dollar(point.seconds_per_dollar),
        note(point.fit, point.served, room=point.room),
    )
    return tuple(TableCell(text, tone) for text in texts)


def note(fit: BudgetFit, served: float, *, room: bool) -> str:
    """Return a remark if an amount or the pools are too small or too large for the load, empty otherwise."""
    if fit is not BudgetFit.INFEASIBLE and not room:
        return "pools are too small for that: jobs would have other options, or wait"
    match fit:
        case BudgetFit.INFEASIBLE:
            return f"too small if jobs keep coming at this rate: it pays for {output.percent(served)} of them"
        case BudgetFit.SURPLUS:
            return "more than can be used: nothing faster is worth its price"
        case _:
            return ""


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
    """Make a sentence for each budget whose amount the what-if changes."""
    return [Paragraph(_in_words(effect), Tone.STRONG) for effect in answer.effects]


def _in_words(effect: AmountEffect) -> str:
    """Return a sentence on the change of time and dollars. If the budget has no history, the sentence is about the jobs
    in sight.
    """
    money = f"{effect.budget}: {abs(effect.part):.0%} {'more' if effect.part > 0.0 else 'less'} money"
    if effect.more_spent is None:
        jobs = f"{effect.changed} of {count(effect.jobs, 'job')} in sight would have other GPUs now"
        return f"{money}: {jobs}; {NO_HISTORY}."
    spent = "as much is spent"
    if abs(effect.more_spent.dollars) >= _LEAST_DOLLARS:
        more = effect.more_spent.micros > 0
        amount = output.whole(effect.more_spent if more else -effect.more_spent)
        spent = f"{amount} {'more' if more else 'less'} is spent"
    return f"{money}: {_sooner(effect)} for the rest of this {effect.word}, and {spent} by its end."


def _sooner(effect: AmountEffect) -> str:
    if effect.seconds is None:
        return "jobs queue" if effect.seconds_before is not None else "jobs still queue"
    if effect.seconds_before is None:
        return f"jobs no longer queue, and take {output.duration(effect.seconds)} on average"
    saved = effect.seconds_before - effect.seconds
    if abs(saved) < _LEAST_SECONDS:
        return "jobs end as early as now" if effect.part < 0.0 else "jobs end no earlier: nothing faster is worth it"
    return f"jobs end {output.duration(abs(saved))} {'earlier' if saved > 0.0 else 'later'} on average"


_LEAST_SECONDS = 1.0
_LEAST_DOLLARS = 0.5
"""Changes below these limits count as none."""


def _figures(solution: BudgetSolution, report: PlanReport) -> list[tuple[str, str]]:
    verdict = report.plan.budgets[solution.budget.id]
    frontier = report.frontiers[solution.budget.id]
    told = frontier.told or frontier.empty
    return [
        ("pays per job-hour saved, at most", output.rate(verdict.rate)),
        ("mean completion time of a job", _mean_time(solution, told=told)),
        ("spends per hour in the long run", output.hourly(verdict.planned) if told else _NO_HISTORY),
        (
            f"forecast for the {solution.budget.calendar.word}",
            _NO_HISTORY if verdict.forecast is None else str(verdict.forecast.expected),
        ),
        ("smallest budget that suffices", "-" if frontier.empty else str(frontier.cheapest) if told else _NO_HISTORY),
        ("nodes to rent now", str(_rented(report, solution.budget.id))),
    ]


_NO_HISTORY = "no history"
"""Text that replaces a figure that would depend on assumed arrivals."""


def _mean_time(solution: BudgetSolution, *, told: bool) -> str:
    if not solution.feasible:
        return "jobs queue"
    return output.duration(mean_seconds(solution)) if told else _NO_HISTORY


def _rented(report: PlanReport, budget: BudgetId) -> int:
    commands = (*report.plan.commands, *report.plan.observed_commands)
    return sum(getattr(command, "budget", None) == budget for command in commands)


# The top of the page: a sentence on each budget, and its picture.


_MORE, _LESS = 1.2, 0.8
"""Multiples of the amount that the sentence compares: a fifth more and a fifth less."""


def overview_blocks(answer: PlanAnswer, pictures: Sequence[Picture] | None) -> list[Block]:
    """Make the what-if's effects, or without a what-if a sentence on each budget, and the pictures. Empty if
    ``pictures`` is None.
    """
    if pictures is None:
        return []
    report = answer.report
    sentences = (Paragraph(_budget_sentence(solution, report), Tone.STRONG) for solution in report.solutions)
    return [*(effect_paragraphs(answer) or sentences), *pictures]


def _budget_sentence(solution: BudgetSolution, report: PlanReport) -> str:
    budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
    aim = budget.in_period_of(solution.now).aim
    part = f" ({output.percent(verdict.spent.micros / aim.micros)})" if aim.micros else ""
    spent = f"{budget.id} has spent {verdict.spent} of {aim}{part} this {budget.calendar.word}"
    frontier = report.frontiers[budget.id]
    if frontier.empty or not budget.amount.micros:
        return f"{spent}."
    sums = report.sums[budget.id]
    if sums.assumed:
        ends = f"If nothing else comes, it ends at {sums.without_more_jobs}"
        return f"{spent}, with {count(sums.jobs, 'job')} in sight. {ends}; what comes is not known yet."
    now = frontier.at(budget.amount)
    return (
        f"{spent}. In the long run {_takes(now)} for this amount; "
        f"with a fifth more {_change(now, frontier.at(_times(budget.amount, _MORE)))}, "
        f"with a fifth less {_change(now, frontier.at(_times(budget.amount, _LESS)))}."
    )


def _times(amount: Money, factor: float) -> Money:
    return Money(round(amount.micros * factor))


def _takes(point: FrontierPoint) -> str:
    if point.mean_seconds is None:
        return "jobs queue"
    return f"a job takes {output.duration(point.mean_seconds)} on average"


def _change(now: FrontierPoint, then: FrontierPoint) -> str:
    if now.mean_seconds is None or then.mean_seconds is None:
        return "they queue" if then.mean_seconds is None else _takes(then)
    saved = now.mean_seconds - then.mean_seconds
    if abs(saved) < 0.01 * now.mean_seconds:
        return "it takes as long"
    return f"{output.duration(abs(saved))} {'less' if saved > 0.0 else 'more'}"
