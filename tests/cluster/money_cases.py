"""Amounts in another currency, periods and grants, discounts that end, and commitments."""

from __future__ import annotations

from typing import Any

from charterer.api.models.gpubudget import GRANT_WITH_ITS_PERIOD, NOTHING_AFTER_A_GRANT, PERIOD_ONCE
from tests.cluster.crd_cases import Case, Json, make


def _in_euros(currency: str = "EUR", **rate: Any) -> Json:
    return make("GPUBudget", currency=currency, currencyRate={"perDollar": "0.92", "asOf": "2026-11-01", **rate})


def _granted(first: str, last: str, name: str = "x", **changes: Any) -> Json:
    return make("GPUBudget", name, period="Grant", grant={"from": first, "until": last}, **changes)


_YEAR_2027 = _granted("2027-01-01", "2027-12-31", "rule-period", timeZone="Europe/Berlin")


MONEY_ACCEPTED: dict[str, Json] = {
    "a grant of one day": _granted("2028-02-29", "2028-02-29"),
    "an amount a week": make("GPUBudget", period="Week", carryOverPercent=100),
    "an amount a year": make("GPUBudget", period="Year"),
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
    "a period that there is not": make("GPUBudget", period="Decade"),
    "a grant that begins on a day that there is not": _granted("2027-02-29", "2027-12-31"),
    "a grant without its last day": make("GPUBudget", period="Grant", grant={"from": "2027-01-01"}),
    "a grant until an hour": _granted("2027-01-01", "2027-12-31T12:00:00Z"),
    "what a dollar costs in dollars": _in_euros("USD"),
    "a dollar that costs nothing": _in_euros(perDollar="0.00"),
    "a dollar that costs a million": _in_euros(perDollar="1000000"),
    "what a dollar costs without quotes": _in_euros(perDollar=0.92),
    "a rate of no day": _in_euros(asOf="yesterday"),
    "a currency in small letters": _in_euros("eur"),
}
MONEY_CASES = (
    *(
        Case("GPUBudget", GRANT_WITH_ITS_PERIOD, _granted("2027-01-01", "2027-12-31"), wrong)
        for wrong in (
            make("GPUBudget", period="Month", grant={"from": "2027-01-01", "until": "2027-12-31"}),
            make("GPUBudget", period="Grant"),
        )
    ),
    Case(
        "GPUBudget",
        "until must be the day of from or a later one: both days are part of the grant",
        _granted("2027-01-02", "2027-01-02"),
        _granted("2027-01-02", "2027-01-01"),
    ),
    Case(
        "GPUBudget",
        "a grant lasts at most ten years (3653 days): make until earlier, or use period Year",
        _granted("2027-01-01", "2036-12-31"),
        _granted("2027-01-01", "2046-12-31"),
    ),
    *(
        Case(
            "GPUBudget",
            "from and until must be days of the years 2000 to 2999",
            _granted("2000-01-01", "2000-01-01"),
            wrong,
        )
        for wrong in (_granted("1999-12-31", "2000-01-01"), _granted("2999-12-31", "3000-01-01"))
    ),
    Case(
        "GPUBudget",
        NOTHING_AFTER_A_GRANT,
        _granted("2027-01-01", "2027-12-31", carryOverPercent=0),
        _granted("2027-01-01", "2027-12-31", carryOverPercent=50),
    ),
    *(
        Case("GPUBudget", PERIOD_ONCE, {**_YEAR_2027, "spec": {**_YEAR_2027["spec"], "amount": "1"}}, wrong, _YEAR_2027)
        for wrong in (
            _granted("2027-01-01", "2028-06-30", "rule-period", timeZone="Europe/Berlin"),
            _granted("2027-01-01", "2027-12-31", "rule-period", timeZone="Asia/Tokyo"),
            make("GPUBudget", "rule-period", period="Year", timeZone="Europe/Berlin"),
        )
    ),
    Case(
        "GPUBudget",
        PERIOD_ONCE,
        make("GPUBudget", "rule-period", period="Week", timeZone="Asia/Tokyo"),
        make("GPUBudget", "rule-period", timeZone="Europe/Berlin"),
        before=make("GPUBudget", "rule-period", period="Week", timeZone="Europe/Berlin"),
    ),
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
