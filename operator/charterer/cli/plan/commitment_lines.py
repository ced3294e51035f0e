"""The lines of ``charterer plan`` on commitments: what was used of each this month, and what a node less or more is."""

from __future__ import annotations

from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.budget import Budget
from charterer.domain.money import ZERO, Money
from charterer.ledger.commitment_use import CommitmentUse, commitment_uses
from charterer.report.document import Block, Heading, Item, Items


def commitment_blocks(report: PlanReport) -> list[Block]:
    """A line for each commitment of which a node was billed this month; nothing without any."""
    found = [
        Item("-", use_in_words(use))
        for solution in report.solutions
        for use in commitment_uses(solution.budget, report.snapshot)
    ]
    return [Heading("What was used of commitments this month"), Items(tuple(found))] if found else []


def use_in_words(use: CommitmentUse) -> str:
    """What was used of one commitment, and what a node less or more would have changed."""
    return (
        f"{use.pool}: {use.used} used ({use.used_gpu_hours:,.0f} GPU-hours), {use.unused} not used "
        f"({use.unused_gpu_hours:,.0f} GPU-hours); a node less would have {_effect(use.node_less)}, and one more "
        f"{_effect(use.node_more)}, by the nodes that are on record"
    )


def commitments_json(budget: Budget, report: PlanReport) -> JsonValue:
    """The same, exactly."""
    return [
        {
            "pool": use.pool,
            "used": use.used.decimal(),
            "unused": use.unused.decimal(),
            "usedGpuHours": use.used_gpu_hours,
            "unusedGpuHours": use.unused_gpu_hours,
            "nodeLessSaves": use.node_less.decimal(),
            "nodeMoreSaves": use.node_more.decimal(),
        }
        for use in commitment_uses(budget, report.snapshot)
    ]


def _effect(saved: Money) -> str:
    return f"saved {saved}" if saved >= ZERO else f"cost {-saved} more"
