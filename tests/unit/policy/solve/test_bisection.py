"""Where a condition begins to hold."""

from __future__ import annotations

import pytest

from charterer.policy.solve.hull import bisect


@pytest.mark.parametrize("ends", [(1e-3, 1e3), (1e3, 1e-3), (0.0, 1e3)])
def test_the_ends_close_in_on_where_the_condition_begins_to_hold(ends: tuple[float, float]) -> None:
    above = ends[1] > ends[0]
    fails, holds = bisect(*ends, lambda value: (value >= 7.0) is above, 50)
    assert fails == pytest.approx(7.0)
    assert holds == pytest.approx(7.0)
    assert (fails < 7.0 <= holds) if above else (holds < 7.0 <= fails)
