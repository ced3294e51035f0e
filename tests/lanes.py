"""The lanes of tests, which ``--lane`` of pytest chooses: those of ``make check``, ``make test``, ``make test-long``.

- ``check``: tests that need nothing but Python, neither ``long`` nor ``slow``, with a tenth of the random examples.
- ``test``: all but those marked ``repeats``.
- ``rest``: what ``test`` has and ``check`` has not, for a run after that of ``check``.
- ``long``: all of them, with as many random examples as their settings say. It is the lane of a plain ``pytest``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

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
        "kuberay",
        "kueue",
        "no_cluster",
        "prometheus",
        "promtool",
        "torch_python",
    }
)
"""Fixtures of programs that are built or installed beside .venv."""
FEW_SLOW: Final = ("exploration", "property", "scenarios", "unit")
"""Folders of tests that are quick, but for some that say so in their own file, by a mark or a fixture's name."""
_TESTS: Final = Path(__file__).parent
_SAYS_SO: Final = re.compile(rf"mark\.(long|slow|programs|needs)\b|\b({'|'.join(sorted(PROGRAMS))})(: |\")")

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


def may_hold(path: Path, lane: Lane) -> bool:
    """Whether a file may have tests of the lane, by its text: to import it takes a hundred times as long."""
    folder = path.relative_to(_TESTS).parts[0] if path.is_relative_to(_TESTS) else ""
    return lane is not Lane.REST or folder not in FEW_SLOW or bool(_SAYS_SO.search(path.read_text()))


def in_no_lane(item: pytest.Item) -> bool:
    """Whether neither `make check` nor the lane after it would run the test: its file does not say what it needs."""
    return not _is_quick(item) and not may_hold(item.path, Lane.REST)


def needs_programs(item: pytest.Item) -> bool:
    """Whether it needs more than Python: a control plane, or other programs that are built or installed."""
    fixtures = getattr(item, "fixturenames", ())
    marked = item.get_closest_marker("programs") or item.get_closest_marker("needs")
    return bool(marked or not PROGRAMS.isdisjoint(fixtures))
