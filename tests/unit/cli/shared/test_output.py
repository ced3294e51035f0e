"""Where the output goes decides how it looks."""

from __future__ import annotations

import io
import threading

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import Limit, PoolVerdict, Stage
from charterer.tools.commands.shared.output import announce_when_slow, copied, emit, screen_width, wants_colour
from charterer.tools.documents.document import Document, Paragraph, Tone
from tests.patience import PATIENCE


class Terminal(io.StringIO):
    """A terminal; ``written`` is set once anything stands on it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 60 characters as stdout (set in the test itself: pytest sets its own before each)."""
    made = Terminal()
    monkeypatch.setattr("sys.stdout", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return made


DOCUMENT = Document("t", (Paragraph("word " * 20, Tone.GOOD),))


def test_a_terminal_gets_colour_and_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    emit(DOCUMENT, {}, "table")
    first, second = screen.getvalue().splitlines()
    assert first.startswith("\x1b[32mword")
    assert len(second) <= 60 + len("\x1b[32m\x1b[0m")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour()
    emit(DOCUMENT, {}, "table")
    assert "word" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


def test_a_pipe_gets_whole_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", pipe := io.StringIO())
    assert (screen_width(), wants_colour()) == (None, False)
    emit(DOCUMENT, {}, "table")
    assert pipe.getvalue().count("\n") == 1


def test_what_is_being_done_is_shown_only_when_it_takes_long_and_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("charterer.tools.commands.shared.output._ANNOUNCE_AFTER_SECONDS", 0.01)
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    with announce_when_slow("reading"):
        assert screen.written.wait(PATIENCE)
    assert screen.getvalue() == "reading ...\n"
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with announce_when_slow("reading"):
        assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_fields_are_copied_under_their_names_in_camel_case_or_under_the_key_that_is_given() -> None:
    verdict = PoolVerdict(Limit.STOCK, 2, Price(1_500_000), Price(0), short=True, payable=Price(0))
    shown = copied(verdict, "limit nodes nodeScarcity worth=scarcity")
    assert shown == {"limit": "StockOut", "nodes": 2, "nodeScarcity": "0.00", "worth": "1.50"}
    assert list(shown) == ["limit", "nodes", "nodeScarcity", "worth"]
    assert type(shown["limit"]) is str


def test_a_field_of_a_field_is_copied_and_is_null_without_that_one() -> None:
    stage = Stage(0.5, Option(PoolId("a100"), 8, 1.0, Price(16_000_000)))
    assert copied(stage, "option price=option.price") == {
        "option": {"pool": "a100", "gpus": 8, "slice": "", "variant": "", "hourly": "16.00"},
        "price": "16.00",
    }
    assert copied(None, "price=option.price") == {"price": None}
