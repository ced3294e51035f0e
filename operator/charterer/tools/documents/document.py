"""A document as a value, which ``text`` renders for a terminal and ``html`` as a page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """The meaning of a text; each medium shows it in its own way, and none by colour alone."""

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
    """``elastic`` columns hold sentences and give way to a narrow screen; ``optional`` ones are left out there."""

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
    """One line of a list; ``sign`` stands before it, such as + for what is added."""

    sign: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """Rows of as many cells as there are columns; ValueError otherwise."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG for media that show pictures; ``caption`` says in words what it shows."""

    svg: str
    caption: str


Block = Heading | Paragraph | Items | DocumentTable | Picture


@dataclass(frozen=True, slots=True)
class Document:
    """Blocks from top to bottom."""

    title: str
    blocks: tuple[Block, ...]


def row(*cells: str | TableCell) -> tuple[TableCell, ...]:
    """A row of a table; plain strings are plain cells."""
    return tuple(cell if isinstance(cell, TableCell) else TableCell(cell) for cell in cells)
