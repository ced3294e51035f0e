"""Amounts in another currency, discounts that end, and commitments."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import Case, Json, make


def _in_euros(currency: str = "EUR", **rate: Any) -> Json:
    return make("GPUBudget", currency=currency, currencyRate={"perDollar": "0.92", "asOf": "2026-11-01", **rate})


MONEY_ACCEPTED: dict[str, Json] = {
    "amounts in euros": _in_euros(),
    "amounts in a currency of which a dollar costs many": _in_euros("IDR", perDollar="16301.123456"),
}
_RESERVED = {"until": "2027-01-01T00:00:00Z", "budget": "research"}
MONEY_REFUSED: dict[str, Json] = {
    "a negative amount": make("GPUBudget", amount="-1"),
    "an amount that is no number": make("GPUBudget", amount="lots"),
    "an amount below a micro-dollar": make("GPUBudget", amount="0.0000001"),
    "a time zone that the database has not": make("GPUBudget", timeZone="Europe/Atlantis"),
    "an offset in place of a time zone": make("GPUBudget", timeZone="+01:00"),
    "a weight of zero": make("GPUBudget", weights=[{"priorityClassName": "high", "weight": 0}]),
    "two weights of one class": make("GPUBudget", weights=[{"priorityClassName": "a", "weight": 1}] * 2),
    "more carried over than there is": make("GPUBudget", carryOverPercent=101),
    "a negative exploration": make("GPUBudget", explorationPercent=-1),
    "a negative number of moves": make("GPUBudget", moves={"maxPerJobPerDay": -1}),
    "a negative cost": make("TrainingJob", maxCost="-5"),
    "a commitment for ever": make("GPUPool", price={"hourly": "9.80", "committed": {"budget": "research"}}),
    "a commitment that nobody pays": make(
        "GPUPool", price={"hourly": "9.80", "committed": {"until": "2027-01-01T00:00:00Z"}}
    ),
    "what a dollar costs in dollars": _in_euros("USD"),
    "a dollar that costs nothing": _in_euros(perDollar="0.00"),
    "a dollar that costs a million": _in_euros(perDollar="1000000"),
    "what a dollar costs without quotes": _in_euros(perDollar=0.92),
    "a rate of no day": _in_euros(asOf="yesterday"),
    "a currency in small letters": _in_euros("eur"),
}
MONEY_CASES = (
    Case(
        "GPUBudget",
        "currencyRate says what a dollar costs in another currency: give it if currency is not USD, such as "
        '{perDollar: "0.92", asOf: "2026-11-01T00:00:00Z"}, and leave it out otherwise',
        _in_euros(),
        make("GPUBudget", currency="EUR"),
    ),
    Case(
        "GPUBudget",
        "write the units of the currency that a dollar costs, from 0.1 to less than a million, as digits in quotes, "
        'such as "0.92"',
        _in_euros(perDollar="0.1"),
        _in_euros(perDollar="0.01"),
    ),
    Case(
        "GPUPool",
        "adjustmentUntil is the end of an adjustment: give one, or leave it out",
        make("GPUPool", price={"adjustment": "-28%", "adjustmentUntil": "2027-01-01T00:00:00Z"}),
        make("GPUPool", price={"hourly": "9.80", "adjustmentUntil": "2027-01-01T00:00:00Z"}),
    ),
    Case(
        "GPUPool",
        "committed nodes are paid at hourly: give what one costs an hour, or leave committed out",
        make("GPUPool", price={"hourly": "9.80", "committed": _RESERVED}),
        make("GPUPool", price={"adjustment": "-28%", "committed": _RESERVED}),
    ),
)
