"""Renders documents as terminal text, or as one self-contained HTML page without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from textwrap import wrap

from charterer.sentences import visible
from charterer.tools.documents.document import (
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

# Text: aligned columns, optionally wrapped to a width and coloured.


_GAP = "  "
_LEAST_ELASTIC = 24
"""Minimum width of an elastic column in characters. On a narrower screen the terminal wraps the lines."""

_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "1",
    Tone.FAINT: "2",
    Tone.GOOD: "32",
    Tone.CHANGED: "33",
    Tone.BAD: "31",
}
"""Select Graphic Rendition codes of ECMA-48."""


class TextRenderer:
    """Renders text for ``width`` characters. None means one unbroken line for each row, for programs.

    Much of the text comes from elsewhere, such as a container's output, so control characters are escaped.
    """

    def __init__(self, width: int | None, *, colour: bool) -> None:
        self._width = width
        self._colour = colour

    def render(self, document: Document) -> str:
        """Return the document with a line break at its end, without title and pictures."""
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
        """Return the columns to show. Optional columns are dropped from the right until the others fit."""
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
        """Return a row, with as many lines as its longest wrapped sentence."""
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


_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:2rem auto;max-width:88rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;margin:.5rem 0;display:block;overflow-x:auto}
th{text-align:left;font-weight:600;color:#555;border-bottom:2px solid #ccc}
th,td{padding:.25rem .7rem .25rem 0;vertical-align:top}th{vertical-align:bottom}
td{border-bottom:1px solid #eee}.right{text-align:right;font-variant-numeric:tabular-nums}td.right{white-space:nowrap}
.elastic{min-width:11rem}.strong{font-weight:600}.faint{color:#666}
.good{color:#00664c}.changed{color:#8a5a00}.bad{color:#a33c00;font-weight:600}
ul{list-style:none;padding:0}li .sign{display:inline-block;width:1.6rem;font-family:ui-monospace,monospace}
figure{margin:1rem 0}figure svg{max-width:100%;height:auto}figcaption{color:#555;font-size:.9rem}
@page{margin:10mm}
@media print{body{font-size:9px;line-height:1.35;margin:0;max-width:none;padding:0}p,ul,figure{margin:.3rem 0}
h1{font-size:14px}h2{font-size:11px;margin:.6rem 0 .2rem}th,td{padding:.08rem .6rem .08rem 0}figcaption{font-size:9px}}
"""


def page(document: Document, made: str) -> str:
    """Return the HTML page. ``made`` names the program and the time."""
    title = escape(document.title)
    body = "\n".join(_block(block) for block in document.blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{title}</h1>\n<p class="faint">{escape(made)}</p>\n{body}\n</body>\n</html>\n'
    )


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Paragraph(text, tone):
            return f'<p class="{tone}">{escape(text)}</p>'
        case Items(items):
            lines = (
                f'<li class="{item.tone}"><span class="sign">{escape(item.sign)}</span>{escape(item.text)}</li>'
                for item in items
            )
            return f"<ul>\n{chr(10).join(lines)}\n</ul>"
        case DocumentTable(columns, rows):
            head = "".join(f'<th class="{_class(column)}">{escape(column.title)}</th>' for column in columns)
            lines = ("".join(_cell(cell, column) for cell, column in zip(row, columns, strict=True)) for row in rows)
            body = "\n".join(f"<tr>{line}</tr>" for line in lines)
            return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        case Picture(svg, caption):
            drawing = svg[svg.index("<svg") :]  # without the XML declaration, which must begin a document
            words = escape(caption)
            shown = f"{drawing}\n<figcaption>{words}</figcaption>"
            return f'<figure role="img" aria-label="{words}">\n{shown}</figure>'


def _cell(cell: TableCell, column: TableColumn) -> str:
    return f'<td class="{_class(column)} {cell.tone}">{escape(cell.text)}</td>'


def _class(column: TableColumn) -> str:
    return "right" if column.right else "elastic" if column.elastic else ""
