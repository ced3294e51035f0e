"""Pictures: the formats, and that the same values always give the same file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.lines import Line2D

from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from charterer.policy.planner import solve_budgets
from charterer.tools.documents.frontier import FrontierCurve, draw
from charterer.tools.documents.pictures import CannotDraw, file_format
from charterer.tools.frontier import Frontier
from tests.lanes import repeats
from tests.picture_text import unreadable, written_figures
from tests.worlds import World


@cache
def frontier(amount: str = "40000", hours: float = 40.0, arrivals: float = 0.5) -> Frontier:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.95, 1.0), work_hours=hours, arrivals_per_hour=arrivals)
    world.job("one", gpus=(1, 8, 64), profile="sft")
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    return Frontier(solution)


def test_the_same_frontier_is_the_same_svg() -> None:
    curve = FrontierCurve("research", frontier(), frontier("20000"))
    assert draw([curve], "svg") == draw([curve], "svg")


@pytest.mark.parametrize("amount", ["0", "10", *repeats("40000"), "10000000"])
def test_any_amount_can_be_drawn(amount: str) -> None:
    assert draw([FrontierCurve("research", frontier(amount))], "png").startswith(b"\x89PNG")


def shown(curve: FrontierCurve) -> str:
    return draw([curve], "svg").decode()


def test_amounts_are_written_in_three_digits_and_every_diagram_names_its_budget() -> None:
    text = shown(FrontierCurve("nlp", frontier("1036800")))
    for words in (
        "$259k",
        "$518k",
        "$1.04M",
        "$2.07M",
        "$4.15M",
        "nlp: what money buys",
        "nlp: what one more dollar saves",
    ):
        assert f">{words}<" in text
    assert "e+" not in "".join(re.findall(r"<text[^>]*>([^<]*)", text))


def test_where_the_amount_has_no_point_the_picture_says_why() -> None:
    assert ">the amount, $10: jobs queue<" in shown(FrontierCurve("nlp", frontier("10")))
    assert ">the amount is $0<" in shown(FrontierCurve("nlp", frontier("0")))
    assert ">the amount, $40.0k<" in shown(FrontierCurve("nlp", frontier("40000")))


@pytest.mark.parametrize(("hours", "unit"), [(0.2, "minutes"), (40.0, "hours"), (1000.0, "days")])
def test_times_are_drawn_in_a_unit_of_their_size(hours: float, unit: str) -> None:
    assert f"mean completion time ({unit})" in shown(FrontierCurve("nlp", frontier("400000", hours, 0.5 * 40 / hours)))


@pytest.mark.parametrize("amount", ["0", *repeats("10", "40000", "1036800"), "999999999"])
def test_every_word_can_be_read_whatever_the_amount_and_the_name(amount: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = written_figures(monkeypatch)
    names = ("nlp", "research-and-development-in-the-north", 40 * "budget")
    draw([FrontierCurve(name, frontier(amount), frontier("20000")) for name in names], "svg")
    assert [unreadable(figure) for figure in figures] == [[]]


@pytest.mark.parametrize("amount", ["20000", *repeats("40000", "60000", "150000")])
def test_ticks_are_plain_numbers_and_there_are_several(amount: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = FrontierCurve("nlp", frontier(amount))
    assert "\N{MULTIPLICATION SIGN}" not in shown(curve)
    figures = written_figures(monkeypatch)
    draw([curve], "svg")
    (figure,) = figures
    low, high = figure.axes[1].get_ylim()
    assert 2 <= sum(low <= tick <= high for tick in figure.axes[1].get_yticks()) <= 12


def test_every_word_of_a_legend_has_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = written_figures(monkeypatch)
    draw([FrontierCurve("nlp", frontier(amount)) for amount in ("0", "10", "40000")], "svg")
    (figure,) = figures
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        drawn = [not isinstance(handle, Line2D) or np.size(handle.get_xdata()) > 0 for handle in handles]
        assert all(drawn), labels


def test_where_jobs_queue_at_all_amounts_the_diagram_says_so_and_has_no_scale() -> None:
    text = shown(FrontierCurve("nlp", frontier("10")))
    assert ">jobs queue at all of these amounts<" in text
    assert ">0.02<" not in text


def test_both_lines_of_a_what_if_are_named_in_both_diagrams() -> None:
    text = shown(FrontierCurve("nlp", frontier("40000"), frontier("20000")))
    assert [text.count(f">{words}<") for words in ("as it is", "what-if")] == [2, 2]


@pytest.mark.parametrize("asked", ["24000", *repeats("20000000", "1"), "0"])
def test_another_amount_is_a_point_on_the_same_line(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = FrontierCurve("nlp", frontier("40000"), asked=Money.parse(asked))
    text = shown(curve)
    assert text.count(">as it is, $40.0k") == 2
    assert text.count(">what if") == 2
    figures = written_figures(monkeypatch)
    draw([curve], "svg")
    (figure,) = figures
    assert unreadable(figure) == []
    for axes in figure.axes:
        assert sum(np.size(line.get_xdata()) > 2 for line in axes.lines) == 1
        low, high = axes.get_xlim()
        assert low <= 40_000 <= high
        assert low <= (float(asked) or 40_000) <= high


def test_without_a_curve_there_is_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="no budget with jobs"):
        draw([], "svg")


def test_the_suffix_says_the_format_and_others_are_refused_by_name() -> None:
    assert [file_format(Path(name)) for name in ("a.svg", "b.PNG")] == ["svg", "png"]
    with pytest.raises(CannotDraw, match=r"plan\.pdf: a picture is written as \.svg or \.png"):
        file_format(Path("plan.pdf"))
