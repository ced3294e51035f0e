"""Whether a test failed, for fixtures that check less at the end of one that did."""

from __future__ import annotations

import pytest

_FAILED = pytest.StashKey[bool]()


def remember(item: pytest.Item, report: pytest.TestReport) -> None:
    """Take in what a phase of the test reported."""
    if report.when == "call":
        item.stash[_FAILED] = report.failed


def failed(item: pytest.Item) -> bool:
    """True as well while the test has not come to its end."""
    return item.stash.get(_FAILED, True)
