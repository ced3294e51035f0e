"""Who gets the page: whoever has the token, by its own address, with GET; and what a browser may do with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from charterer.tools.commands.dashboard.command import MOST_CLIENTS, PageServer
from charterer.tools.commands.dashboard.documents import Board, encode
from tests.patience import PATIENCE


@pytest.fixture
async def board() -> Board:
    made = Board()
    made.show(encode({"plan": {"at": "now"}}))
    return made


@pytest.fixture
async def server(board: Board) -> AsyncIterator[PageServer]:
    made = PageServer(board)
    await made.start(0)
    yield made
    await made.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as made:
        yield made


def without_token(server: PageServer) -> str:
    return server.url.rsplit("/", 2)[0] + "/"


@pytest.mark.parametrize("file", ["", "dashboard.js", "lanes.js", "charts.js", "dashboard.css", "uPlot.iife.min.js"])
async def test_every_answer_forbids_what_the_page_does_not_need(
    server: PageServer, session: aiohttp.ClientSession, file: str
) -> None:
    async with session.get(server.url + file) as answer:
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["", "parts", "x/", "x/parts", "x/dashboard.js", "é/"])
async def test_without_the_token_there_is_nothing(
    server: PageServer, session: aiohttp.ClientSession, path: str
) -> None:
    async with session.get(without_token(server) + path) as answer:
        assert answer.status == 403
        assert "open the address that charterer dashboard has printed" in await answer.text()
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


async def test_two_servers_have_different_long_tokens(server: PageServer, board: Board) -> None:
    other = PageServer(board)
    await other.start(0)
    await other.close()
    tokens = [urlsplit(each.url).path.strip("/") for each in (server, other)]
    assert tokens[0] != tokens[1]
    assert min(map(len, tokens)) >= 40


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "0.0.0.0:{port}", "[::1]:{port}"])
async def test_another_name_of_the_host_is_refused_even_with_the_token(
    server: PageServer, session: aiohttp.ClientSession, host: str
) -> None:
    named = host.format(port=urlsplit(server.url).port)
    async with session.get(server.url, headers={"Host": named}) as answer:
        assert answer.status == 403
        assert f"this page is at {urlsplit(server.url).netloc} only" in await answer.text()


async def test_localhost_is_this_machine(server: PageServer, session: aiohttp.ClientSession) -> None:
    async with session.get(server.url, headers={"Host": f"localhost:{urlsplit(server.url).port}"}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_nothing_but_get_is_answered(server: PageServer, session: aiohttp.ClientSession, method: str) -> None:
    async with session.request(method, server.url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("file", ["server.py", "..%2fserver.py", "%2e%2e/server.py", "nothing"])
async def test_no_other_file_is_served(server: PageServer, session: aiohttp.ClientSession, file: str) -> None:
    async with session.get(server.url + file) as answer:
        assert answer.status in (403, 404)


async def first_message(answer: aiohttp.ClientResponse) -> object:
    async for line in answer.content:
        if line.startswith(b"data: "):
            return json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream ended")


async def test_a_stream_begins_with_all_parts(server: PageServer, session: aiohttp.ClientSession) -> None:
    async with session.get(server.url + "parts") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert await first_message(answer) == {"plan": {"at": "now"}}


async def nobody(board: Board) -> None:
    """Wait until no page is connected."""
    async with asyncio.timeout(PATIENCE):
        while board.clients:  # noqa: ASYNC110 - a server tells nobody
            await asyncio.sleep(0.01)


async def test_the_stream_of_a_client_that_goes_is_over(
    server: PageServer, session: aiohttp.ClientSession, board: Board
) -> None:
    async with session.get(server.url + "parts") as answer:
        await first_message(answer)
        assert board.clients == 1
        answer.close()
    await nobody(board)


async def test_a_client_that_does_not_read_holds_up_nobody_and_is_sent_only_the_latest(board: Board) -> None:
    server = PageServer(board)
    await server.start(0)
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {address.path}parts HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
    await reader.readuntil(b"data: ")
    size, times = 200_000, 500
    for number in range(times):
        board.show(encode({"plan": f"{number:06}" * (size // 6)}))
        for _ in range(4):
            await asyncio.sleep(0)
    board.show(encode({"plan": "the end"}))
    received = 0
    async with asyncio.timeout(PATIENCE):
        while not (text := await reader.read(2**20)).endswith(b'"the end"}\n\n\r\n'):
            received += len(text)
    assert received < size * times / 4
    writer.close()
    await server.close()


async def test_too_many_pages_are_refused_and_a_closed_one_makes_room(
    server: PageServer, session: aiohttp.ClientSession, board: Board
) -> None:
    streams = [await session.get(server.url + "parts") for _ in range(MOST_CLIENTS)]
    for stream in streams:
        await first_message(stream)
    async with session.get(server.url + "parts") as answer:
        assert answer.status == 503
        assert "close one" in await answer.text()
    for stream in streams:
        stream.close()
    await nobody(board)
    async with session.get(server.url + "parts") as answer:
        assert answer.status == 200


async def test_a_server_with_open_streams_closes_at_once(board: Board) -> None:
    server = PageServer(board)
    await server.start(0)
    async with aiohttp.ClientSession() as session, session.get(server.url + "parts") as answer:
        await first_message(answer)
        async with asyncio.timeout(PATIENCE / 2):  # without being told to, aiohttp would wait for a minute
            await server.close()
    await nobody(board)


@pytest.mark.parametrize(
    "line",
    [
        "OPTIONS * HTTP/1.1",
        "CONNECT {address} HTTP/1.1",
        "GET http://{address}/ HTTP/1.1",
        "GET http://other/x HTTP/1.1",
        "GET //x HTTP/1.1",
        "GET /%ff%fe/ HTTP/1.1",
        "GET /x HTTP/9.9",
        "GET / HTTP/1.1\r\nX-Odd: \x00\x01",
        "GET / HTTP/1.1\r\nContent-Length: -1",
        "\x16\x03\x01",
    ],
)
async def test_odd_requests_are_refused_and_nothing_is_said_on_the_terminal(
    server: PageServer, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    address = urlsplit(server.url).netloc
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(f"{line.format(address=address)}\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode("latin-1"))
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    assert answer.split(b" ", 2)[1][:1] == b"4", answer
    assert capfd.readouterr().err == ""


async def test_connections_that_say_nothing_are_closed(board: Board) -> None:
    server = PageServer(board, request_seconds=0.05)
    await server.start(0)
    address = urlsplit(server.url)
    for sent in (b"", b"GET / HT"):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            await reader.read()
        writer.close()
    await server.close()


async def test_silent_connections_keep_nobody_out_and_are_not_kept_without_number(
    server: PageServer, session: aiohttp.ClientSession
) -> None:
    address = urlsplit(server.url)
    silent = [await asyncio.open_connection(address.hostname, address.port) for _ in range(300)]
    async with session.get(server.url) as answer:
        assert answer.status == 200
    async with asyncio.timeout(PATIENCE):
        for reader, _ in silent[:150]:
            assert await reader.read() == b""
    for _, writer in silent:
        writer.close()
