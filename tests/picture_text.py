"""Words of a picture that cannot be read, because they lie on other words or beyond the picture's edge."""

from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def written_figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved from now on, instead of what would be saved."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *arguments, **options: figures.append(figure))
    return figures


def unreadable(figure: Figure) -> list[str]:
    """Pairs of words that lie on each other, and words that are cut off."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in _shown(figure)]
    whole = Bbox.from_bounds(-1, -1, figure.bbox.width + 2, figure.bbox.height + 2)
    cut = [words for words, box in boxes if not (whole.contains(*box.min) and whole.contains(*box.max))]
    return cut + [f"{here} | {there}" for (here, one), (there, other) in combinations(boxes, 2) if one.overlaps(other)]


def _shown(figure: Figure) -> list[Text]:
    """All words but those of ticks outside of what the axes show."""
    outside = {id(label) for axis in figure.findobj(Axis) for label in _labels_outside(axis)}
    texts: list[Text] = figure.findobj(Text)
    return [text for text in texts if text.get_visible() and text.get_text().strip() and id(text) not in outside]


def _labels_outside(axis: Axis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)]
