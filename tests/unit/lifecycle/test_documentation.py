"""docs/development/lifecycle.md names the stages and steps that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from charterer.domain import steps
from charterer.domain.rental import RentalPhase
from charterer.lifecycle import pool, rental
from charterer.lifecycle.run import STAGES

PAGE = (Path(__file__).resolve().parents[3] / "docs/development/lifecycle.md").read_text()


def section(heading: str) -> str:
    """The text from the heading to the next one."""
    return PAGE.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]


def test_the_stages_of_a_run_are_listed_in_the_order_in_which_they_are_asked() -> None:
    assert re.findall(r"^\d+\. \*\*(.+?)\*\*", section("A run"), re.MULTILINE) == list(STAGES)


def rows(heading: str) -> list[list[str]]:
    """The cells of each row of the section's first table, without its head."""
    table = section(heading).split("\n|---", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def test_the_rows_of_a_pool_are_listed_in_the_order_in_which_they_are_asked() -> None:
    assert [name for name, *_ in rows("A pool")] == list(pool.ROWS)


def test_the_rows_of_a_rental_are_listed_by_phase_in_the_order_in_which_they_are_asked() -> None:
    asked = [(name, [phase for phase in RentalPhase if phase in phases]) for name, (phases, _) in rental.ROWS.items()]
    listed = [(name, [RentalPhase(phase) for phase in phases.split(", ")]) for name, phases, *_ in rows("A rental")]
    assert listed == asked


@pytest.mark.parametrize(
    ("heading", "union"),
    [
        ("A pool", get_args(steps.PoolStep)),
        ("Pools of a set", get_args(steps.PoolSetStep)),
        ("A rental", get_args(steps.RentalStep)),
        ("A budget", get_args(steps.BudgetStep)),
        ("The record of costs", (steps.CostRecordStep,)),
        ("A run", get_args(steps.RunStep)),
        ("Guards", (steps.GuardStep,)),
    ],
)
def test_every_step_is_in_the_section_of_its_object(heading: str, union: tuple[type, ...]) -> None:
    text = section(heading)
    assert [step.__name__ for step in union if not re.search(rf"\b{step.__name__}\b", text)] == []
