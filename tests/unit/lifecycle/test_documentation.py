"""docs/development/lifecycle.md names the stages and steps that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from charterer.domain import steps
from charterer.lifecycle.run import STAGES

PAGE = (Path(__file__).resolve().parents[3] / "docs/development/lifecycle.md").read_text()


def section(heading: str) -> str:
    """The text from the heading to the next one."""
    return PAGE.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]


def test_the_stages_of_a_run_are_listed_in_the_order_in_which_they_are_asked() -> None:
    assert re.findall(r"^\d+\. \*\*(.+?)\*\*", section("A run"), re.MULTILINE) == list(STAGES)


@pytest.mark.parametrize(
    ("heading", "union"),
    [
        ("A pool", get_args(steps.PoolStep)),
        ("Pools of a set", get_args(steps.PoolSetStep)),
        ("A rental", get_args(steps.RentalStep)),
        ("A budget", get_args(steps.BudgetStep)),
        ("A run", get_args(steps.RunStep)),
        ("Guards", (steps.GuardStep,)),
    ],
)
def test_every_step_is_in_the_section_of_its_object(heading: str, union: tuple[type, ...]) -> None:
    text = section(heading)
    assert [step.__name__ for step in union if not re.search(rf"\b{step.__name__}\b", text)] == []
