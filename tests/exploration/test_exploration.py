"""Every course of rentals that is short, and many long ones, keep the laws of ``Course``."""

from __future__ import annotations

import pytest

from tests import lanes
from tests.exploration.explorer import ORDERS, Explorer


@pytest.mark.parametrize("orders", ORDERS)
def test_no_course_pays_for_a_machine_twice_or_not_at_all(orders: str) -> None:
    explorer = Explorer(orders)
    found = explorer.breadth_first(lanes.examples(2_000)) or explorer.walk(lanes.examples(1_200))
    if found is not None:
        found.error.add_note(found.as_test(orders))
        raise found.error
