"""Conditions are always ones that the API server takes."""

from __future__ import annotations

import pytest

from charterer.api.names import ConditionType
from charterer.controller.status.conditions import condition
from tests.factory.times import T0


@pytest.mark.parametrize("reason", ["", "no stock", "a" * 129, "StockOut\n", "9Lives"])
def test_a_recorded_reason_that_is_no_word_is_shown_as_unspecified(reason: str) -> None:
    """A pool's or a finished job's reason is read from its status, which somebody may have edited."""
    shown = condition(ConditionType.READY, False, reason, "the cloud has none left", T0, 1)
    assert (shown.reason, shown.message) == ("Unspecified", "the cloud has none left")


def test_a_word_is_shown_as_it_is() -> None:
    assert condition(ConditionType.READY, False, "StockOut", "", T0, 1).reason == "StockOut"
