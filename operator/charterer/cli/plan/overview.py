"""The top of the page of ``charterer plan``: a sentence on each budget, and its picture."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.plan.difference import effect_paragraphs
from charterer.cli.plan.plan_answer import PlanAnswer
from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.money import Money
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import FrontierPoint
from charterer.report.document import Block, Paragraph, Picture, Tone
from charterer.sentences import count

_MORE, _LESS = 1.2, 0.8
"""Multiples of the amount that the sentence tells of: a fifth more, and a fifth less."""


def overview_blocks(answer: PlanAnswer, pictures: Sequence[Picture] | None) -> list[Block]:
    """What a what-if changes, or else a sentence on each budget, and the pictures; nothing for media that show none."""
    if pictures is None:
        return []
    report = answer.report
    sentences = (Paragraph(_sentence(solution, report), Tone.STRONG) for solution in report.solutions)
    return [*(effect_paragraphs(answer) or sentences), *pictures]


def _sentence(solution: BudgetSolution, report: PlanReport) -> str:
    budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
    aim = budget.in_period_of(solution.now).aim
    part = f" ({formatting.percent(verdict.spent.micros / aim.micros)})" if aim.micros else ""
    spent = f"{budget.id} has spent {verdict.spent} of {aim}{part} this month"
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
    return f"a job takes {formatting.duration(point.mean_seconds)} on average"


def _change(now: FrontierPoint, then: FrontierPoint) -> str:
    if now.mean_seconds is None or then.mean_seconds is None:
        return "they queue" if then.mean_seconds is None else _takes(then)
    saved = now.mean_seconds - then.mean_seconds
    if abs(saved) < 0.01 * now.mean_seconds:
        return "it takes as long"
    return f"{formatting.duration(abs(saved))} {'less' if saved > 0.0 else 'more'}"
