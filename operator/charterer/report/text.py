"""Documents as text: aligned columns, optionally wrapped to a width, optionally coloured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from charterer.report.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Item,
    Items,
    Paragraph,
    Picture,
    TableCell,
    TableColumn,
    Tone,
)
from charterer.sentences import visible

_GAP = "  "
_LEAST_ELASTIC = 24
"""Least width of an elastic column in characters; on a narrower screen the terminal breaks the lines."""

_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "1",
    Tone.FAINT: "2",
    Tone.GOOD: "32",
    Tone.CHANGED: "33",
    Tone.BAD: "31",
}
"""Select Graphic Rendition of ECMA-48."""


class TextRenderer:
    """``width`` None: one unbroken line for each row, for programs that read them.

    Much of the text is foreign, such as what a container printed; characters that a terminal obeys become escapes.
    """

    def __init__(self, width: int | None, *, colour: bool) -> None:
        self._width = width
        self._colour = colour

    def render(self, document: Document) -> str:
        """The document with a line break at its end; title and pictures are left out."""
        parts = [self._block(block) for block in document.blocks if not isinstance(block, Picture)]
        return "\n".join(part for part in parts if part) + "\n"

    def _block(self, block: Block) -> str:
        match block:
            case Heading(text):
                return f"\n{self._styled(visible(text), Tone.STRONG)}"
            case Paragraph(text, tone):
                return "\n".join(self._styled(line, tone) for line in self._wrapped(text, 0))
            case Items(items):
                return "\n".join(self._item(item) for item in items)
            case DocumentTable():
                return self._table(block)
            case Picture():
                return ""

    def _item(self, item: Item) -> str:
        indent = len(item.sign) + 3
        lines = self._wrapped(item.text, indent)
        begun = [f"  {item.sign} {lines[0]}", *(" " * indent + line for line in lines[1:])]
        return "\n".join(self._styled(line, item.tone) for line in begun)

    def _wrapped(self, text: str, indent: int) -> list[str]:
        text = visible(text)
        if self._width is None:
            return [text]
        return wrap(text, max(self._width - indent, _LEAST_ELASTIC), break_long_words=False) or [""]

    def _table(self, table: DocumentTable) -> str:
        shown = [tuple(TableCell(visible(cell.text), cell.tone) for cell in row) for row in table.rows]
        table = replace(table, rows=tuple(shown))
        kept = self._columns(table)
        columns = [table.columns[at] for at in kept]
        rows = [[row[at] for at in kept] for row in table.rows]
        widths = [_widest(column, [row[at].text for row in rows]) for at, column in enumerate(columns)]
        self._squeeze(columns, widths)
        head = self._line([TableCell(column.title, Tone.FAINT) for column in columns], columns, widths)
        return "\n".join([head, *(self._row(row, columns, widths) for row in rows)])

    def _columns(self, table: DocumentTable) -> list[int]:
        """The shown columns: optional ones are dropped from the right until the rest fits."""
        kept = list(range(len(table.columns)))
        if self._width is None:
            return kept
        needs = [
            _LEAST_ELASTIC if column.elastic else _widest(column, [row[at].text for row in table.rows])
            for at, column in enumerate(table.columns)
        ]
        for at in reversed([at for at, column in enumerate(table.columns) if column.optional]):
            if sum(needs[column] for column in kept) + len(_GAP) * (len(kept) - 1) <= self._width:
                break
            kept.remove(at)
        return kept

    def _squeeze(self, columns: Sequence[TableColumn], widths: list[int]) -> None:
        """Narrow the elastic columns until the table fits."""
        if self._width is None:
            return
        for at, column in enumerate(columns):
            if column.elastic:
                others = sum(widths) - widths[at] + len(_GAP) * (len(widths) - 1)
                widths[at] = min(widths[at], max(self._width - others, _LEAST_ELASTIC))

    def _row(self, row: Sequence[TableCell], columns: Sequence[TableColumn], widths: Sequence[int]) -> str:
        """A row of as many lines as its longest sentence needs."""
        split = [
            wrap(cell.text, max(width, 1), break_long_words=False) or [""] if column.elastic else [cell.text]
            for cell, column, width in zip(row, columns, widths, strict=True)
        ]
        height = max(len(lines) for lines in split)
        return "\n".join(
            self._line(
                [
                    TableCell(lines[at] if at < len(lines) else "", cell.tone)
                    for lines, cell in zip(split, row, strict=True)
                ],
                columns,
                widths,
            )
            for at in range(height)
        )

    def _line(self, cells: Sequence[TableCell], columns: Sequence[TableColumn], widths: Sequence[int]) -> str:
        padded = [
            (cell.text.rjust(width) if column.right else cell.text.ljust(width), cell.tone)
            for cell, column, width in zip(cells, columns, widths, strict=True)
        ]
        while padded and not padded[-1][0].strip():
            padded.pop()
        if padded:
            padded[-1] = padded[-1][0].rstrip(), padded[-1][1]
        return _GAP.join(self._styled(text, tone) for text, tone in padded)

    def _styled(self, text: str, tone: Tone) -> str:
        style = _STYLES[tone]
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style and text.strip() else text


def _widest(column: TableColumn, texts: Sequence[str]) -> int:
    return max(len(text) for text in (column.title, *texts))
