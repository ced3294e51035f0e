"""When the cluster is read: while a page is open, seldom where it is large, and less and less where it fails."""

from __future__ import annotations

import asyncio
import json

import click
import pytest

from charterer.tools.commands.dashboard.command import LEAST_SECONDS, pause_seconds, read_on
from charterer.tools.commands.dashboard.documents import Board, Parts
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("took", "failures", "pause"),
    [(0.1, 0, 5.0), (1.0, 0, 5.0), (3.0, 0, 12.0), (0.1, 1, 5.0), (0.1, 2, 10.0), (0.1, 4, 40.0), (9.0, 50, 60.0)],
)
def test_a_pause_is_long_where_reading_is_dear_or_fails(took: float, failures: int, pause: float) -> None:
    assert pause_seconds(took, failures) == pause


class Cluster:
    """Reads that answer or fail in turn; after the last one nothing is answered. Time passes only in ``sleep``."""

    def __init__(self, *answers: Parts | str) -> None:
        self.answers = list(answers)
        self.slept: list[float] = []
        self.said: list[str] = []
        self.over = asyncio.Event()

    async def read(self) -> Parts:
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise click.ClickException(answer)
        return answer

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self.answers:
            self.over.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    async def run(self, board: Board) -> None:
        reading = asyncio.create_task(read_on(self.read, board, self.said.append, sleep=self.sleep, clock=lambda: 0.0))
        async with asyncio.timeout(PATIENCE):
            await self.over.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def shown(board: Board) -> object:
    return json.loads(await anext(board.messages(60.0)))


async def test_a_failure_is_said_once_and_stands_on_the_page_until_it_works_again() -> None:
    board = Board()
    cluster = Cluster({"plan": 1, "problem": None}, "no answer", "no answer")
    with board.client():
        await cluster.run(board)
    assert cluster.said == ["no answer"]
    assert await shown(board) == {"plan": 1, "problem": "no answer"}
    assert cluster.slept == [5.0, 5.0, 5.0, 10.0]
    cluster = Cluster({"plan": 2, "problem": None})
    with board.client():
        await cluster.run(board)
    assert await shown(board) == {"plan": 2, "problem": None}


async def test_nothing_is_read_while_no_page_is_open() -> None:
    board, cluster = Board(), Cluster({"plan": 1})
    reading = asyncio.create_task(read_on(cluster.read, board, cluster.said.append, sleep=cluster.sleep))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(cluster.answers), cluster.slept) == (1, [LEAST_SECONDS])
    with board.client():
        async with asyncio.timeout(PATIENCE):
            await cluster.over.wait()
    assert cluster.answers == []
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
