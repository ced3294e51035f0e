"""The costs of a month as JSON: dollars are decimal strings."""

from __future__ import annotations

from charterer.cli.costs.answer import BudgetMonth, CostsAnswer
from charterer.cli.costs.cost_sums import PURPOSE, CostSum, SumKey, purpose
from charterer.cli.shared.output import JsonValue
from charterer.domain.money import ZERO
from charterer.domain.time import format_instant


def costs_json(answer: CostsAnswer) -> JsonValue:
    """The whole answer."""
    return {
        "month": answer.month,
        "by": list(answer.keys),
        "record": answer.place or None,
        "budgets": [_budget(found) for found in answer.budgets],
        "costs": [_sum(answer, *each) for found in answer.budgets for each in found.sums],
    }


def _budget(found: BudgetMonth) -> JsonValue:
    ledger = found.ledger
    known = ledger is not None and ledger.spent is not None
    return {
        "name": found.budget,
        "timeZone": found.time_zone,
        "start": None if ledger is None else format_instant(ledger.start),
        "end": None if ledger is None else format_instant(ledger.end),
        "open": None if ledger is None else ledger.is_open,
        "amount": None if ledger is None or ledger.amount is None else ledger.amount.decimal(),
        "spent": None if ledger is None or ledger.spent is None else ledger.spent.decimal(),
        "opening": (ZERO if ledger is None else ledger.opening).decimal(),
        "onRecord": found.on_record.decimal(),
        "stillOpen": found.still_open.decimal(),
        "notOnRecord": found.not_on_record.decimal() if known else None,
    }


def _sum(answer: CostsAnswer, key: SumKey, found: CostSum) -> JsonValue:
    named: dict[str, JsonValue] = dict(zip(answer.keys, key.cells, strict=True))
    if key.cause is not None:
        named[PURPOSE] = purpose(key.cause)
    if answer.shares_waste:
        named |= {"own": found.cost.decimal(), "waste": found.waste.decimal()}
    return {
        "budget": key.budget,
        **named,
        "dollars": (found.cost + found.waste).decimal(),
        "stillOpen": found.open_cost.decimal(),
        "gpuHours": round(found.gpu_seconds / 3600, 6) if answer.place else None,
    }
