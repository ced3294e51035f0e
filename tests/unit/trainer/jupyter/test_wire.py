"""The connection of a kernel and its worker: who is spoken to, and what happens when it breaks."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from charterer_trainer.jupyter.listener import Listener
from charterer_trainer.jupyter.wire import Link, LinkError, Message, tls_context
from tests.cluster.notebooks import write_keys

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_keys(tmp_path_factory.mktemp("keys"))


@asynccontextmanager
async def served(keys: Path, serve: Serve) -> AsyncIterator[Link]:
    """A connection to what ``serve`` does."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls_context(keys, server=True))
    link = await Link.dial("127.0.0.1", server.sockets[0].getsockname()[1], tls_context(keys, server=False))
    try:
        yield link
    finally:
        await link.close()
        server.close()


async def test_messages_come_whole_and_in_order(keys: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        for _ in range(2):
            await link.send(await link.receive())

    async with served(keys, echo) as link:
        large = bytes(range(256)) * 9_000
        await link.send(Message("one", {"text": "ü" * 300_000}, [b"", large]))
        await link.send(Message("two"))
        first, second = await link.receive(), await link.receive()
    assert (first.kind, first.fields["text"], [bytes(part) for part in first.parts]) == (
        "one",
        "ü" * 300_000,
        [b"", large],
    )
    assert (second.kind, second.parts) == ("two", [])


@pytest.mark.parametrize("mine", ["no certificate", "another certificate"])
async def test_nobody_without_the_key_is_answered(keys: Path, tmp_path: Path, mine: str) -> None:
    lost: list[bool] = []
    listener = Listener(0, keys, lambda: None, lambda: lost.append(True))
    context = tls_context(write_keys(tmp_path / "other"), server=False)
    context.verify_mode = ssl.CERT_NONE
    if mine == "no certificate":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((LinkError, OSError)):  # noqa: PT012
        link = await Link.dial("127.0.0.1", listener.port, context)
        await link.send(Message("run", {"source": "1"}))
        await link.receive()
    assert listener.inbox.empty()
    assert lost == []
    link = await Link.dial("127.0.0.1", listener.port, tls_context(keys, server=False))
    assert (await link.receive()).kind == "hello"  # and the place is still free
    await link.close()


async def test_a_worker_with_another_certificate_is_not_spoken_to(keys: Path, tmp_path: Path) -> None:
    listener = Listener(0, write_keys(tmp_path / "other"), lambda: None, lambda: None)
    with pytest.raises(ssl.SSLCertVerificationError):
        await Link.dial("127.0.0.1", listener.port, tls_context(keys, server=False))


async def test_a_second_kernel_is_told_that_the_worker_is_taken(keys: Path) -> None:
    lost = threading.Event()
    listener = Listener(0, keys, lambda: None, lost.set)
    context = tls_context(keys, server=False)
    first = await Link.dial("127.0.0.1", listener.port, context)
    assert (await first.receive()).kind == "hello"
    second = await Link.dial("127.0.0.1", listener.port, context)
    assert (await second.receive()).kind == "taken"
    await second.close()
    assert not lost.is_set()
    await first.close()
    assert await asyncio.to_thread(lost.wait, 30)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"", "the connection was lost"),
        (b'{"kind": "run"', "the connection was lost"),
        (b'{"kind": "run", "parts": [10]}\nhalf', "lost midway"),
        (b'{"kind": "run", "parts": [-1]}\n', "no message"),
        (b'{"kind": "run", "parts": ["x"]}\n', "no message"),
        (b'{"kind": "run", "parts": []}\n', "no message"),
        (b'{"kind": "run", "parts": [3]}\n[1,', "no message"),
        (b"[]\n", "no message"),
        (b"GET / HTTP/1.1\n", "no message"),
        (b'{"kind": "run", "parts": [100, 2000000]}\n', "is longer than 1000000"),
    ],
)
async def test_what_breaks_off_or_is_no_message_is_refused(keys: Path, sent: bytes, problem: str) -> None:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0, ssl=tls_context(keys, server=True))
    port, context = server.sockets[0].getsockname()[1], tls_context(keys, server=False)
    link = Link(*await asyncio.open_connection("127.0.0.1", port, ssl=context), longest_parts=1_000_000)
    with pytest.raises(LinkError, match=problem):
        await link.receive()
    await link.close()
    server.close()
