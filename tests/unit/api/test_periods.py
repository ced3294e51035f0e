"""A GPUBudget's period and grant, as they are read: each mistake is one error that names field, value and remedy."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from charterer.api.models.gpubudget import GPUBudgetSpec
from charterer.domain.time import Grant, Period

DAYS = {"from": "2027-01-01", "until": "2027-09-30"}


def read(**spec: Any) -> GPUBudgetSpec:
    return GPUBudgetSpec.model_validate({"amount": "60000", **spec})


def test_a_budget_is_for_months_unless_it_says_otherwise() -> None:
    assert (read().period, read().grant) == (Period.MONTH, None)
    assert read(period="Week").period is Period.WEEK


def test_both_days_are_part_of_a_grant() -> None:
    spec = read(period="Grant", grant=DAYS)
    assert spec.grant is not None
    assert spec.grant.to_domain() == Grant(date(2027, 1, 1), date(2027, 9, 30))
    assert spec.grant.to_domain().days == 273
    assert spec.model_dump(mode="json", by_alias=True)["grant"] == DAYS


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"period": "Month", "grant": DAYS}, "period is Month: grant says from which day to which day"),
        ({"period": "Grant"}, "period is Grant: grant says from which day to which day"),
        (
            {"period": "Grant", "grant": {"from": "2027-09-30", "until": "2027-01-01"}},
            "from is 2027-09-30 and until is 2027-01-01: until must be the day of from or a later one",
        ),
        (
            {"period": "Grant", "grant": {"from": "2027-01-01", "until": "2046-12-31"}},
            "a grant lasts at most ten years (3653 days): make until earlier, or use period Year",
        ),
        (
            {"period": "Grant", "grant": {"from": "1999-01-01", "until": "2000-01-01"}},
            "from and until must be days of the years 2000 to 2999",
        ),
        ({"period": "Grant", "grant": {"from": "2027-02-29", "until": "2027-09-30"}}, "grant.from"),
        (
            {"period": "Grant", "grant": DAYS, "carryOverPercent": 5},
            "carryOverPercent is 5: carryOverPercent must be 0",
        ),
        ({"period": "Fortnight"}, "'Week', 'Month', 'Quarter', 'Year' or 'Grant'"),
    ],
)
def test_a_mistake_is_one_error(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read(**spec)
    assert refused.value.error_count() == 1
    assert said in str(refused.value)


def test_a_grant_may_last_ten_years() -> None:
    grant = read(period="Grant", grant={"from": "2027-01-01", "until": "2036-12-31"}).grant
    assert grant is not None
    assert grant.to_domain().days == 3_653
