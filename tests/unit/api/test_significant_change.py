"""Which changes of a status are worth a write."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api.metadata import differs_by


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (1.0, 1.019),
        ("1.00", "1.01"),
        ({"a": [1.0, {"b": 2.0}]}, {"a": [1.01, {"b": 2.0}]}),
        ("word", "word"),
        (None, None),
        ({"a": 1, "asOf": "yesterday"}, {"a": 1, "asOf": "today"}),
        ({"a": 1, "asOf": "yesterday"}, {"a": 1}),
    ],
)
def test_what_moved_by_less_than_the_ratio_is_the_same(new: Any, old: Any) -> None:
    assert not differs_by(0.02, new, old, {"asOf"})
    assert not differs_by(0.02, old, new, {"asOf"})


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (1.0, 1.03),
        ("1.00", "1.03"),
        (0.0, 1e-9),
        (None, 0.0),
        ("word", "other word"),
        (True, False),
        ([1.0], [1.0, 1.0]),
        ({"a": {"b": 1.0}}, {"a": {"b": 2.0}}),
        ({"a": 1}, {}),
        ([1.0], {"a": 1.0}),
    ],
)
def test_more_than_that_another_word_and_another_shape_are_new(new: Any, old: Any) -> None:
    assert differs_by(0.02, new, old, {"asOf"})
    assert differs_by(0.02, old, new, {"asOf"})
