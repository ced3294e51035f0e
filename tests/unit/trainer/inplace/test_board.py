"""A board over TCP: what is no request, and bounds of what a member says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from charterer_trainer.inplace.board import Board, BoardServer, ask
from tests.patience import PATIENCE

KEY = "of-the-run"
GO: dict[str, object] = {"generation": 1, "word": "go", "index": 0, "value": "finished"}


def until(state: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not state():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_requests_that_make_no_sense_do_not_end_the_board() -> None:
    server = BoardServer(Board(), 0, lambda: KEY)
    try:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(ConnectionResetError):
            ask(address, KEY, generation="?", word="ready")
        assert ask(address, KEY, generation=1, word="ready", index=4, value="x", count=1)["values"] == {"4": "x"}
    finally:
        server.close()


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"generation": 1e400, "word": "go", "index": null, "lately": 0, "awaited": "", "count": 0, "seconds": 0}',
        "[]",
        "1",
        "",
    ],
)
def test_what_is_no_request_is_not_answered_and_leaves_nothing(line: str) -> None:
    server = BoardServer(Board(), 0, lambda: KEY)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(f"{KEY} {line}\n".encode())
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b""
        assert ask(f"127.0.0.1:{server.port}", KEY, generation=1, word="ping")["values"] == {}
    finally:
        server.close()


@pytest.mark.parametrize(
    "said",
    [
        {"generation": 10**18},
        {"generation": -2},
        {"index": 10**12},
        {"word": "w" * 1_000},
        {"word": ["go"]},
        {"lately": 1e9},
        {"count": -2},
    ],
)
def test_what_a_member_says_is_bounded(said: dict[str, object]) -> None:
    board = Board()
    server = BoardServer(board, 0, lambda: KEY)
    try:
        board.say(1, "go", 0, "kept")
        with pytest.raises(OSError, match="no answer"):
            ask(f"127.0.0.1:{server.port}", KEY, **{**GO, **said})
        assert board.hear(1, "go", 1, 0) == {0: "kept"}
    finally:
        server.close()


def test_a_board_keeps_a_bounded_number_of_bytes() -> None:
    board = Board()
    for number in range(16):
        board.say(1, f"word{number}", 0, "x" * 4_000_000)
    with pytest.raises(ValueError, match="bytes"):
        board.say(1, "one more", 0, "x" * 4_000_000)
    board.say(1, "word3", 0, "shorter")
    board.say(1, "one more", 0, "x" * 3_000_000)
    board.say(9, "later", 0, "x" * 4_000_000)


def test_a_wait_is_bounded() -> None:
    heard: list[float] = []

    class Noting(Board):
        def hear(self, generation: int, word: str, count: int, seconds: float) -> dict[int, object]:
            heard.append(seconds)
            return {}

    server = BoardServer(Noting(), 0, lambda: KEY)
    try:
        ask(f"127.0.0.1:{server.port}", KEY, generation=1, word="x", seconds=86_400.0)
        assert heard == [600.0]
    finally:
        server.close()


def test_strangers_who_say_nothing_keep_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer_trainer.inplace.board._MOST_STRANGERS", 4)
    server = BoardServer(Board(), 0, lambda: KEY)
    strangers = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(12)]
    try:
        assert ask(f"127.0.0.1:{server.port}", KEY, generation=1, word="ping") == {"values": {}}
        assert [stranger.recv(100) for stranger in strangers[:8]] == [b""] * 8
    finally:
        server.close()
        for stranger in strangers:
            stranger.close()


def test_more_members_than_threads_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer_trainer.inplace.board._MOST_CONNECTIONS", 1)
    waits, goes_on = threading.Event(), threading.Event()

    class Waiting(Board):
        def hear(self, generation: int, word: str, count: int, seconds: float) -> dict[int, object]:
            if word == "wait":
                waits.set()
                goes_on.wait(PATIENCE)
            return {}

    server = BoardServer(Waiting(), 0, lambda: KEY)
    first = threading.Thread(target=answers, args=(server.port, "wait"))
    try:
        first.start()
        assert waits.wait(PATIENCE)
        assert not answers(server.port, "ping")
        goes_on.set()
        until(lambda: answers(server.port, "ping"))
    finally:
        goes_on.set()
        first.join()
        server.close()


def answers(port: int, word: str) -> bool:
    with suppress(OSError):
        return bool(ask(f"127.0.0.1:{port}", KEY, generation=1, word=word) == {"values": {}})
    return False
