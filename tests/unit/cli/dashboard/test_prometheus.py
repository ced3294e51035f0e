"""What a Prometheus adds to the page; one that does not answer is a line there, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from charterer.tools.commands.dashboard.documents import PrometheusHistory

Start = Callable[[Any], Any]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def serving(answer: Callable[[web.Request], web.Response]) -> TestServer:
    app = web.Application()

    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app.router.add_get("/api/v1/query_range", handle)
    server = TestServer(app)
    await server.start_server()
    return server


async def test_series_come_by_budget(session: aiohttp.ClientSession) -> None:
    asked: list[str] = []

    def answer(request: web.Request) -> web.Response:
        asked.append(request.query["query"])
        found = {
            "metric": {"budget": "research"},
            "values": [[1750000000, "12.5"], [1750003600, "13"], [1750007200, "NaN"]],
        }
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": [found]}})

    server = await serving(answer)
    clock = [0.0]
    history = PrometheusHistory(str(server.make_url("/")), session, lambda: clock[0])
    said: Any = await history.latest()
    assert said["problem"] is None
    assert said["budgets"]["research"]["spent"] == [[1750000000, 12.5], [1750003600, 13.0]]
    assert set(said["budgets"]["research"]) == {"spent", "hourly", "paysPerHourSaved"}
    assert "max by (budget) (charterer_budget_spent_dollars)" in asked
    await history.latest()
    assert len(asked) == 3
    clock[0] = 301.0
    await history.latest()
    assert len(asked) == 6
    await server.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: web.Response(status=502, text="<h1>bad gateway"), "HTTP 502, and the answer is no JSON"),
        (lambda _: web.Response(text="[" * 20_000), "HTTP 200, and the answer is no JSON"),
        (lambda _: web.json_response({"status": "error", "error": "parse error"}, status=400), "HTTP 400: parse error"),
        (lambda _: web.json_response([1]), "HTTP 200: no success"),
        (lambda _: web.json_response({"status": "success", "data": None}), ""),
    ],
)
async def test_an_answer_that_is_none_is_a_problem(
    session: aiohttp.ClientSession, answer: Callable[[web.Request], web.Response], said: str
) -> None:
    server = await serving(answer)
    problem: Any = await PrometheusHistory(str(server.make_url("/")), session).latest()
    assert problem["budgets"] == {}
    assert problem["problem"].startswith("no history from Prometheus http://127.0.0.1")
    assert said in problem["problem"]
    await server.close()


async def test_a_prometheus_that_is_not_there_is_a_problem(session: aiohttp.ClientSession) -> None:
    problem: Any = await PrometheusHistory("http://127.0.0.1:1", session).latest()
    assert "no history from Prometheus http://127.0.0.1:1: Cannot connect" in problem["problem"]
