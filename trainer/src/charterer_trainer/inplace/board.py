"""The rendezvous store of a group. Each process has a board. Members post words with values on a board, and wait until
other members have posted.

The members of a generation meet on the board of the member with the lowest index, so no single process must live for
ever. A request is a line over TCP: the key of the run, a space, and JSON. The answer is a line of JSON. The run's pods
have the key from the operator. A request without the key is ignored. The data of a request with the key are limited in
size.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

PORT_VARIABLE = "CHARTERER_GROUP_PORT"
DEFAULT_PORT = 29_600
_MAX_LINE_BYTES = 4_194_304
_CONNECT_SECONDS = 5.0
"""Seconds within which a board must answer. On a busy machine an answer takes a while. If the process has ended, the
connection is refused at once.
"""
_KEPT_GENERATIONS = 4
_MOST_CONNECTIONS = 4_096
"""Most simultaneous connections of members. Each has a thread and stays open while its member waits for other
members.
"""
_MOST_STRANGERS = 1_024
"""Most simultaneous connections that have not shown the key yet. If there are more, the oldest is closed.

A member shows the key within milliseconds.
"""
_MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of all values on a board."""
_LONGEST_WAIT_SECONDS = 600.0
_LONGEST_WORD = 100
_LARGEST_NUMBER = 999_999_999
"""The largest generation and index."""


def own_port(environ: Mapping[str, str] = os.environ) -> int:
    """The port on which every process of the group listens: CHARTERER_GROUP_PORT, or 29600."""
    return int(environ.get(PORT_VARIABLE) or DEFAULT_PORT)


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of ``host``, ``host:port`` or ``[IPv6 address]:port``. Without a port, this process's own port is
    used.
    """
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return host, int(rest[1:]) if rest.startswith(":") else own_port()
    host, colon, port = address.rpartition(":")
    return (host, int(port)) if colon and ":" not in host else (address, own_port())


class Board:
    """The posted values by generation and word. Each member's index has one value, with the time of its last post."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._said: dict[tuple[int, str], dict[int, tuple[Any, float]]] = {}
        self._sizes: dict[tuple[int, str], dict[int, int]] = {}

    def say(self, generation: int, word: str, index: int, value: object = None) -> None:
        """Post a word and value for member ``index``. A repeated post replaces the value.

        Raises ValueError if the board is full.
        """
        key, size = (generation, word), len(json.dumps(value))
        with self._changed:
            kept = sum([sum(sizes.values()) for sizes in self._sizes.values()])
            if kept + size - self._sizes.get(key, {}).get(index, 0) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            self._said.setdefault(key, {})[index] = (value, time.monotonic())
            self._sizes.setdefault(key, {})[index] = size
            for old in [each for each in self._said if each[0] < generation - _KEPT_GENERATIONS]:
                del self._said[old], self._sizes[old]
            self._changed.notify_all()

    def forget(self, generation: int, word: str) -> None:
        """Remove all values of a word."""
        with self._changed:
            self._said.pop((generation, word), None)
            self._sizes.pop((generation, word), None)

    def hear(self, generation: int, word: str, count: int, seconds: float) -> dict[int, Any]:
        """The values by index, after ``count`` members have posted the word or ``seconds`` have passed."""
        key = (generation, word)
        with self._changed:
            self._changed.wait_for(lambda: len(self._said.get(key, ())) >= count, seconds)
            return {index: value for index, (value, _) in self._said.get(key, {}).items()}

    def lately(self, generation: int, word: str, seconds: float) -> set[int]:
        """The members that have posted the word within the last ``seconds``."""
        with self._changed:
            now = time.monotonic()
            return {index for index, (_, at) in self._said.get((generation, word), {}).items() if now - at <= seconds}


class BoardServer:
    """Serves a board to the other processes until this process ends.

    ``key`` returns the key with which each request must begin. While it returns None, all requests are ignored.
    """

    def __init__(self, board: Board, port: int, key: Callable[[], str | None]) -> None:
        """Start to listen. Raises OSError if the port is taken."""
        self._board = board
        self._key = key
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._strangers: dict[socket.socket, None] = {}
        self._meeting = threading.Lock()
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._socket = socket.create_server(("", port), family=family, backlog=1_024, dualstack_ipv6=dual)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, name="charterer-board", daemon=True).start()

    def close(self) -> None:
        """Stop serving requests."""
        if self._socket.fileno() >= 0:
            self._socket.shutdown(socket.SHUT_RDWR)  # this wakes the thread that waits in accept
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.05)  # no file descriptors left, or the peer was gone before it was accepted
                continue
            with self._meeting:
                if len(self._strangers) >= _MOST_STRANGERS:
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)
                self._strangers[connection] = None
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                connection.settimeout(_CONNECT_SECONDS)
                if self._shows_the_key(connection, lines) and self._places.acquire(blocking=False):
                    try:
                        asked = json.loads(lines.readline(_MAX_LINE_BYTES))
                        connection.sendall(json.dumps(self._reply(asked)).encode() + b"\n")
                    finally:
                        self._places.release()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return  # the peer is gone, or sent no valid request

    def _shows_the_key(self, connection: socket.socket, lines: BinaryIO) -> bool:
        try:
            key = self._key()
            if key is None:
                return False
            begins = f"{key} ".encode()
            return hmac.compare_digest(lines.read(len(begins)), begins)
        finally:
            with self._meeting:
                self._strangers.pop(connection, None)

    def _reply(self, asked: Mapping[str, Any]) -> dict[str, object]:
        generation, word, awaited = _number(asked["generation"]), _word(asked["word"]), _word(asked["awaited"])
        count, seconds, lately = _number(asked["count"]), _seconds(asked["seconds"]), _seconds(asked["lately"])
        if asked["index"] is not None:
            self._board.say(generation, word, _number(asked["index"]), asked["value"])
        if lately:
            return {"indexes": sorted(self._board.lately(generation, word, lately))}
        values = self._board.hear(generation, awaited or word, count, seconds)
        return {"values": {str(index): value for index, value in values.items()}}


def _number(value: object) -> int:
    number = int(str(value))
    if not -1 <= number <= _LARGEST_NUMBER:
        raise ValueError(number)
    return number


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0.0 <= seconds <= _LONGEST_WAIT_SECONDS:
        raise ValueError(seconds)
    return seconds


def _word(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_WORD:
        raise ValueError("no word")
    return value


def ask(address: str, key: str, **fields: Any) -> dict[str, Any]:
    """Send one request to the board at ``address``. Raises OSError if there is no board, or no answer in time.

    ``key`` is the key of the run. ``generation`` and ``word`` say what the request is about. If ``index`` and ``value``
    are given, the word is posted. If ``lately`` is given, the answer lists the members that posted the word within this
    many seconds. Otherwise the request waits until ``count`` members have posted the word (or ``awaited``, another
    word), for at most ``seconds``.
    """
    request = {"index": None, "value": None, "lately": 0, "awaited": "", "count": 0, "seconds": 0.0, **fields}
    request["seconds"] = min(request["seconds"], _LONGEST_WAIT_SECONDS)
    with socket.create_connection(host_and_port(address), timeout=_CONNECT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_CONNECT_SECONDS + request["seconds"])
        connection.sendall(f"{key} {json.dumps(request)}\n".encode())
        with connection.makefile("rb") as lines:
            line = lines.readline(_MAX_LINE_BYTES)
    try:
        answer = json.loads(line)
    except ValueError:
        raise ConnectionResetError(f"the board at {address} gives no answer") from None
    return answer if isinstance(answer, dict) else {}
