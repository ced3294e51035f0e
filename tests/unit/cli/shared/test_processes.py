"""Simulations in parallel processes end when they are to end."""

from __future__ import annotations

import signal
from multiprocessing import active_children

import pytest

from charterer.cli.shared.processes import side_by_side


def _number() -> int:
    return 7


def _fails() -> int:
    raise ValueError("of no use")


def _goes_on_for_ever() -> int:
    while True:
        signal.pause()


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert side_by_side([_number, _number, _number], processes=2) == [7, 7, 7]


def test_when_one_fails_the_others_are_not_waited_for() -> None:
    """As when a person interrupts."""
    with pytest.raises(ValueError, match="of no use"):
        side_by_side([_goes_on_for_ever, _fails], processes=2)
    assert active_children() == []
