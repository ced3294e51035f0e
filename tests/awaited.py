"""What tests need beside Python and the test bed: each waits for its own while ``make test`` still makes it.

A test that needs something of a name has one of the name's fixtures, or the mark ``@pytest.mark.needs("karpenter")``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.testbed import promises

Found = TypeVar("Found")

_FIXTURES = {
    "cluster": "nodes",
    "jax_python": "training",
    "job_controllers": "job-controllers",
    "jupyter_python": "training",
    "karpenter_installed": "karpenter",
    "kuberay": "kuberay",
    "kueue": "kueue",
    "no_cluster": "nodes",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}
_LONGEST = 1800.0
"""Seconds that a test may wait for what is being made, beside its own time."""


def needs(item: pytest.Item) -> set[str]:
    """What is still being made of what the test needs. Every worker of pytest-xdist gives the same answer."""
    fixtures = getattr(item, "fixturenames", ())
    marked = {name for mark in item.iter_markers("needs") for name in mark.args}
    named = marked | {name for fixture, name in _FIXTURES.items() if fixture in fixtures}
    return {name for name in named if promises.given(name)}


def give_time(item: pytest.Item, usual: float) -> None:
    """Let the test take longer by the time it may wait; ``usual``: what it may take without a mark of its own."""
    if needs(item):
        own = item.get_closest_marker("timeout")
        seconds = own.args[0] if own is not None and own.args else usual
        item.add_marker(pytest.mark.timeout(seconds + _LONGEST), append=False)


def have(name: str, find: Callable[[], Found | None], absent: str) -> Found:
    """What is found, once what is being made of this name is there.

    The test fails where it could not be made, with the reason, and is skipped where nobody makes it, with ``absent``.
    """
    _wait(name)
    found = find()
    if found is None:
        pytest.skip(absent)
    return found


def present(name: str, missing: Callable[[], str | None]) -> None:
    """The same for what gives the reason why it is not there."""
    _wait(name)
    if reason := missing():
        pytest.skip(reason)


def _wait(name: str) -> None:
    if (why := promises.wait(name)) is not None:
        pytest.fail(f"{name} could not be made: {why}", pytrace=False)
