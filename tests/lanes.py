"""The lanes of tests, which ``--lane`` of pytest chooses: those of ``make check``, ``make test``, ``make test-long``.

- ``check``: tests that need nothing but Python, neither ``long`` nor ``slow``, with a tenth of the random examples.
- ``test``: all but those marked ``repeats``.
- ``rest``: what ``test`` has and ``check`` has not, for a run after that of ``check``.
- ``long``: all of them, with as many random examples as their settings say. It is the lane of a plain ``pytest``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest


class Lane(StrEnum):
    """A value of ``--lane``."""

    CHECK = "check"
    TEST = "test"
    REST = "rest"
    LONG = "long"


PROGRAMS = frozenset(
    {
        "browser",
        "cluster",
        "control_plane",
        "jax_python",
        "job_controllers",
        "jupyter_python",
        "karpenter_installed",
        "no_cluster",
        "prometheus",
        "promtool",
        "torch_python",
    }
)
"""Fixtures of programs that are built or installed beside .venv."""

_chosen = Lane.LONG


def choose(name: str) -> None:
    """Run this lane, from before the first test module is imported."""
    global _chosen
    _chosen = Lane(name)


def chosen() -> Lane:
    """The lane of this run."""
    return _chosen


def examples(number: int) -> int:
    """How many random examples a property gets in this lane, of those that ``make test-long`` tries.

    For ``max_examples`` of hypothesis.settings.
    """
    return number if _chosen is Lane.LONG else max(3, number // 10)


def repeats(*values: Any) -> list[Any]:
    """Values of a parameter that show at greater length what its other values show."""
    return [pytest.param(value, marks=pytest.mark.repeats) for value in values]


def belongs(item: pytest.Item, lane: Lane) -> bool:
    """Whether the lane has the test."""
    if lane is Lane.LONG:
        return True
    if item.get_closest_marker("repeats"):
        return False
    return lane is Lane.TEST or _is_quick(item) == (lane is Lane.CHECK)


def _is_quick(item: pytest.Item) -> bool:
    """Whether ``make check`` has time and all that is needed for it."""
    return not (item.get_closest_marker("long") or item.get_closest_marker("slow") or needs_programs(item))


def needs_programs(item: pytest.Item) -> bool:
    """Whether it needs more than Python: a control plane, or other programs that are built or installed."""
    fixtures = getattr(item, "fixturenames", ())
    marked = item.get_closest_marker("programs") or item.get_closest_marker("needs")
    return bool(marked or not PROGRAMS.isdisjoint(fixtures))
