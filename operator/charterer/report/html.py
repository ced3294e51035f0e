"""Documents as one self-contained HTML page: styles and pictures are embedded, and there is no script."""

from __future__ import annotations

from html import escape

from charterer.report.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Items,
    Paragraph,
    Picture,
    TableCell,
    TableColumn,
)

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
"""


def page(document: Document, made: str) -> str:
    """The page; ``made``: by which program and when."""
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
            drawing = svg[svg.index("<svg") :]  # without the XML declaration, which may only begin a document
            words = escape(caption)
            shown = f"{drawing}\n<figcaption>{words}</figcaption>"
            return f'<figure role="img" aria-label="{words}">\n{shown}</figure>'


def _cell(cell: TableCell, column: TableColumn) -> str:
    return f'<td class="{_class(column)} {cell.tone}">{escape(cell.text)}</td>'


def _class(column: TableColumn) -> str:
    return "right" if column.right else "elastic" if column.elastic else ""
