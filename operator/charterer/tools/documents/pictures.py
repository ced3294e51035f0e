"""The style of all pictures: colours for colour-blind readers, plain axes, and reproducible files.

Matplotlib is the extra ``report``. It is imported when the first picture is drawn, so the operator never imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox


BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
GREEN: Final = "#009E73"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
ORANGE: Final = "#E69F00"
GREY: Final = "#7F7F7F"
"""These colours are the palette of Okabe and Ito."""
DASHES: Final = ((0, ()), (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
"""Dash styles, so that lines differ without colour, too."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P")

_LABEL: Final = "label"
_SIDES: Final = ((4, 5), (4, -11), (-4, 5), (-4, -11), (12, 12), (12, -18))
"""Offsets of a label from its point in typographic points, the preferred one first."""

FORMATS: Final = ("svg", "png")
_UNITS: Final = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


class CannotDraw(Exception):
    """No picture can be made. The message says what to do."""


def file_format(file: PurePath) -> str:
    """Return ``svg`` or ``png`` by the file's suffix. Raises CannotDraw for any other."""
    suffix = file.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise CannotDraw(f"{file}: a picture is written as .svg or .png; end the file's name in one of them")
    return suffix


def time_unit(longest: float) -> tuple[str, float]:
    """Return the largest unit in which ``longest`` (seconds) is at least 2, and the unit's seconds.

    The smallest unit is the second.
    """
    return next((unit for unit in _UNITS if longest >= 2.0 * unit[1]), _UNITS[-1])


def find_matplotlib() -> None:
    """Raise CannotDraw if matplotlib is not installed. The check does not import matplotlib, which takes a second."""
    if find_spec("matplotlib") is None:
        raise CannotDraw("pictures need matplotlib: pip install matplotlib")


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure of ``width`` by ``height`` inches in the project's style.

    Raises CannotDraw without matplotlib.
    """
    find_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "svg.hashsalt": "charterer",
            "svg.fonttype": "none",
        }
    ):
        yield Figure(figsize=(width, height), layout="constrained")


def label_points(axes: Axes, labels: Sequence[tuple[str, tuple[float, float]]], colour: str) -> None:
    """Write labels beside their points. If a label would overlap, it moves to another side or is hidden.

    ``encoded`` places the labels, because only then do the axes have their final limits and position.
    """
    for text, point in labels:
        axes.annotate(
            text,
            point,
            _SIDES[0],
            textcoords="offset points",
            fontsize=8,
            color=colour,
            gid=_LABEL,
            parse_math=False,
        )


def _lay_labels(figure: Figure) -> None:
    """Move each label to the first side with no overlap within the axes, or hide it."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # freeze the layout, so that the points do not move away from their labels
    for axes in figure.axes:
        taken = _markers(axes)
        for label in [child for child in axes.texts if child.get_gid() == _LABEL]:
            for side in _SIDES:
                label.set_position(side)
                label.set_horizontalalignment("left" if side[0] >= 0 else "right")
                box = label.get_window_extent()
                if not any(box.overlaps(other) for other in taken) and axes.bbox.containsx(box.x1):
                    taken.append(box)
                    break
            else:
                label.set_visible(False)


def _markers(axes: Axes) -> list[Bbox]:
    """Return the boxes of all markers, in pixels."""
    from matplotlib.transforms import Bbox

    boxes = []
    for line in axes.lines:
        if line.get_marker() in MARKERS:
            half = line.get_markersize() / 2 / 72 * axes.figure.dpi
            for x, y in axes.transData.transform(line.get_xydata()):
                boxes.append(Bbox.from_extents(x - half, y - half, x + half, y + half))
    return boxes


def encoded(figure: Figure, as_format: str) -> bytes:
    """Return the picture as a file's content. The same figure always gives the same SVG."""
    _lay_labels(figure)
    stream = BytesIO()
    figure.savefig(stream, format=as_format, dpi=150, metadata={"Date": None} if as_format == "svg" else None)
    return stream.getvalue()
