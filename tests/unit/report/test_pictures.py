"""Pictures: the formats, and that the same values always give the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from charterer.domain.profile import Amdahl
from charterer.policy.explain.frontier import Frontier
from charterer.policy.planner import solve_budgets
from charterer.report.frontier import FrontierCurve, draw
from charterer.report.pictures import CannotDraw, file_format
from tests.worlds import World


def frontier(amount: str = "40000") -> Frontier:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.95, 1.0), work_hours=40, arrivals_per_hour=0.5)
    world.job("one", gpus=(1, 8, 64), profile="sft")
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    return Frontier(solution)


def test_the_same_frontier_is_the_same_svg() -> None:
    curve = FrontierCurve("research", frontier(), frontier("20000"))
    assert draw([curve], "svg") == draw([curve], "svg")


@pytest.mark.parametrize("amount", ["0", "10", "40000", "10000000"])
def test_any_amount_can_be_drawn(amount: str) -> None:
    assert draw([FrontierCurve("research", frontier(amount))], "png").startswith(b"\x89PNG")


def test_without_a_curve_there_is_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="no budget with jobs"):
        draw([], "svg")


def test_the_suffix_says_the_format_and_others_are_refused_by_name() -> None:
    assert [file_format(Path(name)) for name in ("a.svg", "b.PNG")] == ["svg", "png"]
    with pytest.raises(CannotDraw, match=r"plan\.pdf: a picture is written as \.svg or \.png"):
        file_format(Path("plan.pdf"))
