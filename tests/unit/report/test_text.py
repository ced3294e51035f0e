"""Documents in a terminal and in a pipe."""

from __future__ import annotations

import pytest

from charterer.tools.documents.document import (
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
    row,
)
from charterer.tools.documents.html import TextRenderer, page

COLUMNS = (
    TableColumn("NAME"),
    TableColumn("COST", right=True),
    TableColumn("ZONE", optional=True),
    TableColumn("WHY", elastic=True),
)
TABLE = DocumentTable(
    COLUMNS,
    (
        row("a", "$1.00", "us-east", "because it is the cheapest way to finish in time"),
        row("longer", TableCell("$100.00", Tone.BAD), "eu", "no"),
    ),
)
DOCUMENT = Document(
    "title",
    (
        Heading("Head"),
        Paragraph("Some words <here>."),
        Items((Item("+", "rent two nodes", Tone.GOOD),)),
        TABLE,
        Picture('<?xml version="1.0"?><svg></svg>', "what it shows"),
    ),
)


def lines(width: int | None, *, colour: bool = False) -> list[str]:
    return TextRenderer(width, colour=colour).render(DOCUMENT).splitlines()


def test_in_a_pipe_every_row_is_one_line_without_colour_or_trailing_blanks() -> None:
    assert lines(None) == [
        "",
        "Head",
        "Some words <here>.",
        "  + rent two nodes",
        "NAME       COST  ZONE     WHY",
        "a         $1.00  us-east  because it is the cheapest way to finish in time",
        "longer  $100.00  eu       no",
    ]


def test_on_a_screen_sentences_are_wrapped_under_each_other() -> None:
    assert lines(54)[4:] == [
        "NAME       COST  ZONE     WHY",
        "a         $1.00  us-east  because it is the cheapest",
        "                          way to finish in time",
        "longer  $100.00  eu       no",
    ]


def test_on_a_narrow_screen_optional_columns_go_first() -> None:
    assert lines(45)[4] == "NAME       COST  WHY"
    assert max(map(len, lines(45))) <= 45


def test_colour_marks_whole_cells_and_leaves_the_alignment_as_it_is() -> None:
    coloured = lines(None, colour=True)
    assert coloured[3] == "\x1b[32m  + rent two nodes\x1b[0m"
    assert "\x1b[31m$100.00\x1b[0m" in coloured[-1]
    assert coloured[-1].replace("\x1b[31m", "").replace("\x1b[0m", "") == lines(None)[-1]


@pytest.mark.parametrize("width", [None, 200])
def test_what_a_terminal_would_obey_is_shown_instead(width: int | None) -> None:
    """A termination message that clears the screen, rings, turns the line around and hides characters."""
    evil = "\x1b[2J\x07\x9b1m\r\x7f\u202eokay\u2066\u200b\ufeff"
    shown = r"\u001b[2J\u0007\u009b1m\u000d\u007f\u202eokay\u2066\u200b\ufeff"
    blocks = (
        Heading(evil),
        Paragraph(evil),
        Items((Item("+", evil),)),
        DocumentTable(COLUMNS, (row(evil, "", "", evil),)),
    )
    text = TextRenderer(width, colour=False).render(Document(evil, blocks))
    assert text.count(shown) == 5
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 has 1 cells for 4 columns"):
        DocumentTable(COLUMNS, (row("a"),))


def test_a_page_escapes_texts_and_carries_pictures_with_their_words() -> None:
    html = page(DOCUMENT, "by charterer & me")
    assert "Some words &lt;here&gt;." in html
    assert "by charterer &amp; me" in html
    assert '<figure role="img" aria-label="what it shows">\n<svg></svg>' in html
    assert "<?xml" not in html
    assert '<td class="right bad">$100.00</td>' in html
