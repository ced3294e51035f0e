"""The picture of a month's jobs: its words can be read, whatever the amounts."""

from __future__ import annotations

import pytest

from charterer.tools.documents.frontier import MonthPoints, draw_month
from tests.picture_text import unreadable, written_figures

CURVE = [(1000.0, 20_000.0), (1500.0, 12_000.0), (2400.0, 8_000.0), (4000.0, 7_000.0), (9000.0, 6_500.0)]


@pytest.mark.parametrize("dollars", [1.0, 3.7e-4, 1000.0])
@pytest.mark.parametrize("seconds", [1.0, 0.001, 100.0])
def test_every_word_of_the_picture_can_be_read(dollars: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(point: tuple[float, float]) -> tuple[float, float]:
        return point[0] * dollars, point[1] * seconds

    named = [
        ("+20%", scaled((2880.0, 7_700.0))),
        ("-20%", scaled((1920.0, 10_000.0))),
        ("today's money", scaled(CURVE[2])),
    ]
    figures = written_figures(monkeypatch)
    draw_month(MonthPoints("research", [scaled(point) for point in CURVE], scaled((2400.0, 12_500.0)), named))
    (figure,) = figures
    assert unreadable(figure) == []


def test_one_point_alone_is_drawn() -> None:
    assert draw_month(MonthPoints("research", [(5.0, 60.0)], (5.0, 60.0), [])).startswith(b"<?xml")
