"""A document as a value, which ``html`` renders as terminal text or as a page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """The meaning of a text. Each medium has its own style for a tone. No medium shows a tone by colour alone."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    CHANGED = "changed"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class TableCell:
    """One line of text in a table."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. ``elastic`` columns hold sentences and shrink on a narrow screen. Such a screen omits ``optional``
    columns.
    """

    title: str
    right: bool = False
    elastic: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or two."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a list. ``sign`` stands before the text, such as + for an addition."""

    sign: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """A table. Raises ValueError if a row does not have as many cells as there are columns."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG for media with pictures. ``caption`` describes it in words."""

    svg: str
    caption: str


Block = Heading | Paragraph | Items | DocumentTable | Picture


@dataclass(frozen=True, slots=True)
class Document:
    """Blocks from top to bottom."""

    title: str
    blocks: tuple[Block, ...]


def row(*cells: str | TableCell) -> tuple[TableCell, ...]:
    """Make a row of a table. Strings become plain cells."""
    return tuple(cell if isinstance(cell, TableCell) else TableCell(cell) for cell in cells)
