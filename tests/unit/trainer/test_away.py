"""Training goes on whatever the operator's address does: it refuses, hangs, speaks another protocol or drips."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from tests.unit.trainer.support import Operator, end, line, operator, start

TRAIN = """
import charterer_trainer
noise = charterer_trainer.GradientNoise(64, every=1)
with charterer_trainer.run():
    for step in charterer_trainer.loading(range(200)):
        with charterer_trainer.phase("sync"):
            noise.add(2.0, 32, 1.5, 64)
        charterer_trainer.report(step=step, total_steps=200, batch=64)
        assert not charterer_trainer.should_stop() and charterer_trainer.batch() is None
        charterer_trainer.should_checkpoint()
    print("trained", flush=True)
"""

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the connection and every byte, and never answers."""
    await reader.read()


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ends each connection at once."""


async def speaks_no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a TLS greeting in clear text."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    await writer.drain()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A TLS record of 16 KiB, a byte now and then: no single read waits for long."""
    writer.write(b"\x16\x03\x03\x40\x00")
    while True:
        writer.write(b"\x02")
        await writer.drain()
        await asyncio.sleep(0.05)


async def promises_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Clear HTTP, whose answer of 60 kB never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{")
    await writer.drain()
    await reader.read()


@pytest.fixture
async def charterer(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    async with operator(tmp_path_factory.mktemp("pod")) as told:
        return told


async def test_an_address_that_answers_badly_or_never_holds_nothing_up(charterer: Operator) -> None:
    """All at once, for what is waited for is the last post: three seconds."""

    async def trained(stack: AsyncExitStack, answer: Answer, scheme: str) -> tuple[str, int, str]:
        async def hung_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await answer(reader, writer)
            writer.close()

        server = await stack.enter_async_context(await asyncio.start_server(hung_up, "localhost", 0))
        port = server.sockets[0].getsockname()[1]
        environ = {**charterer.environ, "CHARTERER_PROGRESS_URL": f"{scheme}://localhost:{port}"}
        process = await start(TRAIN, environ)
        shown = await line(process)
        code, errors = await end(process)
        server.close()
        return shown, code, errors

    answers: list[tuple[Answer, str]] = [
        (says_nothing, "https"),
        (hangs_up, "https"),
        (speaks_no_tls, "https"),
        (drips, "https"),
        (promises_much, "http"),
    ]
    async with AsyncExitStack() as stack:
        ends = await asyncio.gather(*(trained(stack, answer, scheme) for answer, scheme in answers))
    by_name = {answer.__name__: end for (answer, _), end in zip(answers, ends, strict=True)}
    assert by_name == {answer.__name__: ("trained", 0, "") for answer, _ in answers}
