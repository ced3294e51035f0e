"""The style of all pictures: colours for colour-blind readers, plain axes, and files that are reproducible.

matplotlib is the extra ``report``: it is imported when the first picture is drawn, which the operator never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
GREEN: Final = "#009E73"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
ORANGE: Final = "#E69F00"
GREY: Final = "#7F7F7F"
"""With the colours above: the palette of Okabe and Ito."""
DASHES: Final = ((0, ()), (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
"""Dashes of lines: they differ without colour, too."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P")

FORMATS: Final = ("svg", "png")


class CannotDraw(Exception):
    """No picture can be made; the message says what to do."""


def file_format(file: PurePath) -> str:
    """``svg`` or ``png``, by the file's suffix; CannotDraw for any other."""
    suffix = file.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise CannotDraw(f"{file}: a picture is written as .svg or .png; end the file's name in one of them")
    return suffix


def find_matplotlib() -> None:
    """CannotDraw where it is not installed; it is not imported, which would take a second."""
    if find_spec("matplotlib") is None:
        raise CannotDraw("pictures need matplotlib: pip install matplotlib")


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of ``width`` by ``height`` inches in the project's style. CannotDraw: no matplotlib."""
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
        }
    ):
        yield Figure(figsize=(width, height), layout="constrained")


def encoded(figure: Figure, as_format: str) -> bytes:
    """The picture as the content of a file; the same figure always gives the same SVG."""
    stream = BytesIO()
    figure.savefig(stream, format=as_format, dpi=150, metadata={"Date": None} if as_format == "svg" else None)
    return stream.getvalue()
