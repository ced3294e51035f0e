"""The worker's connection. It has a thread of its own, so that a computing cell does not delay messages."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import platform
import queue
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from charterer_trainer.jupyter.wire import Link, LinkError, Message, tls_context

_MOST_HANDSHAKES = 64
"""Most simultaneous handshakes. If there are more, the oldest is closed. The kernel's own handshake takes
milliseconds.
"""
_HANDSHAKE_SECONDS = 5.0
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Most bytes that wait to be sent. A cell that writes faster than the network sends is blocked until there are
fewer.
"""


class Listener:
    """Listens for one kernel. ``inbox`` has the kernel's messages "run" and "leave".

    The thread calls ``interrupt`` if the kernel interrupts the running cell, and ``lost`` if the connection is lost.
    After that no message can be sent any more, so the process should end.
    """

    def __init__(self, port: int, keys: Path, interrupt: Callable[[], None], lost: Callable[[], None]) -> None:
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._interrupt = interrupt
        self._on_lost = lost
        self._tls = tls_context(keys, server=True)
        self._link: Link | None = None
        self._outbox: collections.deque[Message] = collections.deque()
        self._waiting_bytes = 0
        self._room = threading.Condition()
        self._wake = asyncio.Event()
        self._kept = threading.Event()
        self._lost = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._listening: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(port,), name="charterer-listener", daemon=True)
        self._thread.start()
        answer = self._listening.get()
        if isinstance(answer, BaseException):
            raise answer
        self.port = answer

    def post(self, message: Message) -> None:
        """Send a message, in the order of calls. After the connection is lost, messages are dropped."""
        if threading.current_thread() is not self._thread:
            with self._room:
                self._room.wait_for(lambda: self._waiting_bytes < _MOST_WAITING_BYTES or self._lost.is_set())
                self._waiting_bytes += _weight(message)
        self._outbox.append(message)
        self._loop.call_soon_threadsafe(self._wake.set)

    def leave(self) -> None:
        """Announce that this process ends. Returns once the kernel has confirmed that it has all values."""
        self.post(Message("leaving"))
        self._kept.wait()

    def _serve(self, port: int) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen(port))

    async def _listen(self, port: int) -> None:
        try:
            dual = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if dual else socket.AF_INET
            server = socket.create_server(("", port), family=family, backlog=1_024, dualstack_ipv6=dual)
        except BaseException as error:
            self._listening.put(error)
            return
        server.setblocking(False)
        self._listening.put(server.getsockname()[1])
        shaking: dict[asyncio.Task[None], socket.socket] = {}
        while True:
            try:
                peer, _ = await self._loop.sock_accept(server)
            except OSError:  # no file descriptors left, or the peer was gone before it was accepted
                await asyncio.sleep(0.05)
                continue
            if len(shaking) >= _MOST_HANDSHAKES:
                _end(shaking.pop(next(iter(shaking))))
            task = self._loop.create_task(self._shake_hands(peer))
            shaking[task] = peer
            task.add_done_callback(lambda done: shaking.pop(done, None))

    async def _shake_hands(self, peer: socket.socket) -> None:
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, self._connected, loop=self._loop)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, peer, ssl=self._tls, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError:  # the peer lacks the key, says nothing, or is gone
            _end(peer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        if self._link is not None:
            await link.send(Message("taken"))
            await link.close()
            return
        self._link = link
        sender = asyncio.ensure_future(self._send_all(link))
        try:
            await link.send(Message("hello", {"python": list(sys.version_info[:2]), "host": platform.node()}))
            while True:
                message = await link.receive()
                if message.kind == "interrupt":
                    self._interrupt()
                elif message.kind == "kept":
                    self._kept.set()
                else:
                    self.inbox.put(message)
        except LinkError:
            pass
        finally:
            sender.cancel()
            with self._room:
                self._lost.set()
                self._room.notify_all()
            if not self._kept.is_set():
                self._on_lost()

    async def _send_all(self, link: Link) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._outbox:
                message = self._joined(self._outbox.popleft())
                try:
                    await link.send(message)
                except LinkError:
                    return

    def _joined(self, first: Message) -> Message:
        """The message, joined with waiting messages that continue the text of the same cell and stream."""
        with self._room:
            self._waiting_bytes -= _weight(first)
            text = [first.fields["content"]["text"]] if _is_text(first) else []
            while text and self._outbox and _same_stream(first, self._outbox[0]):
                following = self._outbox.popleft()
                self._waiting_bytes -= _weight(following)
                text.append(following.fields["content"]["text"])
            self._room.notify_all()
        if len(text) < 2:
            return first
        return Message("output", {**first.fields, "content": {**first.fields["content"], "text": "".join(text)}})


def _end(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


def _is_text(message: Message) -> bool:
    return message.kind == "output" and message.fields["type"] == "stream"


def _same_stream(first: Message, second: Message) -> bool:
    return (
        _is_text(second)
        and first.fields["cell"] == second.fields["cell"]
        and first.fields["content"]["name"] == second.fields["content"]["name"]
    )


def _weight(message: Message) -> int:
    return sum(len(part) for part in message.parts) + (
        len(message.fields["content"]["text"]) if _is_text(message) else 0
    )
