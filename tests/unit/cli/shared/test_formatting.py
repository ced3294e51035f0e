"""Numbers as people read them."""

from __future__ import annotations

import pytest

from charterer.tools.commands.shared.output import percent


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0%"), (0.0004, "under 1%"), (0.014, "1%"), (0.53, "53%"), (0.9996, "over 99%"), (1.0, "100%")],
)
def test_a_part_is_never_said_to_be_none_or_all_where_it_is_not(fraction: float, text: str) -> None:
    assert percent(fraction) == text
