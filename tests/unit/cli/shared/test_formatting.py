"""Numbers as people read them."""

from __future__ import annotations

import pytest

from charterer.cli.shared.formatting import note, percent
from charterer.policy.solve.exchange_rate import BudgetFit


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0%"), (0.0004, "under 1%"), (0.014, "1%"), (0.53, "53%"), (0.9996, "over 99%"), (1.0, "100%")],
)
def test_a_part_is_never_said_to_be_none_or_all_where_it_is_not(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_where_pools_are_too_small_no_amount_is_said_to_be_more_than_can_be_used() -> None:
    assert note(BudgetFit.SURPLUS, 1.0) == "more than can be used: nothing faster is worth its price"
    told = "pools are too small if jobs keep coming at this rate: they have room for 60% of them"
    assert note(BudgetFit.SURPLUS, 0.6) == note(BudgetFit.MET, 0.6) == told
    assert note(BudgetFit.INFEASIBLE, 0.6).startswith("too small if jobs keep coming at this rate: it pays for 60%")
