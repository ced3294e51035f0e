"""Where the members of a group meet: a board in each process, on which the others write a word and wait for words.

The board of the member with the lowest index is the meeting point of a generation, so no process is needed for ever. A
request is a line of JSON over TCP, and so is its answer; like the frameworks' own stores it trusts the pods' network.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

PORT_VARIABLE = "CHARTERER_GROUP_PORT"
DEFAULT_PORT = 29_600
_MAX_LINE_BYTES = 4_194_304
_CONNECT_SECONDS = 5.0
"""Within which a board answers. On a busy machine a process needs some; one that has ended refuses at once."""
_KEPT_GENERATIONS = 4


def own_port(environ: Mapping[str, str] = os.environ) -> int:
    """The port on which every process of the group listens: CHARTERER_GROUP_PORT, or 29600."""
    return int(environ.get(PORT_VARIABLE) or DEFAULT_PORT)


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of ``host``, ``host:port`` or ``[IPv6 address]:port``; without a port it is that of this process."""
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return host, int(rest[1:]) if rest.startswith(":") else own_port()
    host, colon, port = address.rpartition(":")
    return (host, int(port)) if colon and ":" not in host else (address, own_port())


class Board:
    """What the members have said: per generation and word, a value of each index, and when it was said last."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._said: dict[tuple[int, str], dict[int, tuple[Any, float]]] = {}

    def say(self, generation: int, word: str, index: int, value: object = None) -> None:
        """That member says it, again or for the first time."""
        with self._changed:
            self._said.setdefault((generation, word), {})[index] = (value, time.monotonic())
            for key in [key for key in self._said if key[0] < generation - _KEPT_GENERATIONS]:
                del self._said[key]
            self._changed.notify_all()

    def forget(self, generation: int, word: str) -> None:
        """Nobody has said it."""
        with self._changed:
            self._said.pop((generation, word), None)

    def hear(self, generation: int, word: str, count: int, seconds: float) -> dict[int, Any]:
        """The values by index, once ``count`` members have said it or after that many seconds, whatever there is."""
        key = (generation, word)
        with self._changed:
            self._changed.wait_for(lambda: len(self._said.get(key, ())) >= count, seconds)
            return {index: value for index, (value, _) in self._said.get(key, {}).items()}

    def lately(self, generation: int, word: str, seconds: float) -> set[int]:
        """The members that have said it within the last seconds."""
        with self._changed:
            now = time.monotonic()
            return {index for index, (_, at) in self._said.get((generation, word), {}).items() if now - at <= seconds}


class BoardServer:
    """Serves a board to the other processes until this one ends."""

    def __init__(self, board: Board, port: int) -> None:
        """OSError when the port is taken."""
        self._board = board
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._socket = socket.create_server(("", port), family=family, backlog=1_024, dualstack_ipv6=dual)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, name="charterer-board", daemon=True).start()

    def close(self) -> None:
        """Serve no more requests."""
        if self._socket.fileno() >= 0:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.05)  # out of files, or the peer was gone before it was accepted
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                connection.settimeout(_CONNECT_SECONDS)
                asked = json.loads(lines.readline(_MAX_LINE_BYTES))
                connection.sendall(json.dumps(self._reply(asked)).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError):
            return

    def _reply(self, asked: Mapping[str, Any]) -> dict[str, object]:
        generation, word = int(asked["generation"]), str(asked["word"])
        if asked["index"] is not None:
            self._board.say(generation, word, int(asked["index"]), asked["value"])
        if asked["lately"]:
            return {"indexes": sorted(self._board.lately(generation, word, float(asked["lately"])))}
        awaited = str(asked["awaited"] or word)
        values = self._board.hear(generation, awaited, int(asked["count"]), float(asked["seconds"]))
        return {"values": {str(index): value for index, value in values.items()}}


def ask(address: str, **fields: Any) -> dict[str, Any]:
    """One request to the board at that address; OSError when there is none, or no answer in time.

    ``generation`` and ``word``: what it is about. ``index`` and ``value``: say the word. ``lately``: who has said it
    within so many seconds. Otherwise wait until ``count`` members have said it (or ``awaited``, another word), for at
    most ``seconds``.
    """
    request = {"index": None, "value": None, "lately": 0, "awaited": "", "count": 0, "seconds": 0.0, **fields}
    with socket.create_connection(host_and_port(address), timeout=_CONNECT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_CONNECT_SECONDS + request["seconds"])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline(_MAX_LINE_BYTES)
    try:
        answer = json.loads(line)
    except ValueError:
        raise ConnectionResetError(f"the board at {address} gives no answer") from None
    return answer if isinstance(answer, dict) else {}
