"""How many connections are open at a time, and which is closed for a new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.server.http import HttpServer, ServerLimits, health_app, serve
from charterer.server.listener import ConnectionTable

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=80), st.integers(1, 6))
def test_there_are_never_more_connections_than_allowed_and_the_busiest_address_gives_way(
    course: list[tuple[str, bool]], limit: int
) -> None:
    table, opened = ConnectionTable[int](limit), dict[int, str]()
    for number, (address, opens) in enumerate(course):
        if not opens:
            gone = next((key for key, at in opened.items() if at == address), -1)
            opened.pop(gone, None)
            table.remove(gone, address)
            continue
        opened[number] = address
        surplus = table.add(number, address)
        if surplus is not None:
            counts = [list(opened.values()).count(at) for at in opened.values()]
            mine = [key for key, at in opened.items() if at == opened[surplus]]
            assert len(mine) == max(counts)
            assert surplus == mine[0]
            del opened[surplus]
        assert len(table) == len(opened) <= limit


@pytest.fixture
async def narrow() -> AsyncIterator[HttpServer]:
    """A server of three connections that waits a long time for requests."""
    site = await serve(health_app({}, {}), "127.0.0.1", 0, limits=ServerLimits(3, request_seconds=300.0))
    yield site
    await site.close()


async def test_a_request_is_answered_however_many_connections_bring_none(narrow: HttpServer) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", narrow.port) for _ in range(60)]
    reader, writer = await asyncio.open_connection("127.0.0.1", narrow.port)
    writer.write(GET)
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    closed = [await reader.read() for reader, _ in silent[:57]]
    assert closed == [b""] * 57
    for _, writer in silent:
        writer.close()


async def test_a_server_that_is_closed_closes_its_connections() -> None:
    site = await serve(health_app({}, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(GET[:20])
    await asyncio.gather(site.close(), reader.read())
    writer.close()
