"""What a page is sent: what has changed since it last looked, however slowly it looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from charterer.tools.commands.dashboard.documents import Board, encode
from tests.patience import PATIENCE

FOREVER = 3600.0


async def following(messages: AsyncIterator[str]) -> Any:
    async with asyncio.timeout(PATIENCE):
        return json.loads(await anext(messages))


async def test_a_client_gets_everything_first_and_then_only_what_changed() -> None:
    board = Board()
    board.show(encode({"plan": 1, "costs": [2]}))
    client = board.messages(FOREVER)
    assert await following(client) == {"plan": 1, "costs": [2]}
    board.show(encode({"plan": 1, "costs": [3]}))
    assert await following(client) == {"costs": [3]}


async def test_a_slow_client_leaves_out_what_was_overtaken() -> None:
    board = Board()
    board.show(encode({"plan": 0}))
    client = board.messages(FOREVER)
    assert await following(client) == {"plan": 0}
    for number in range(1, 1_000):
        board.show(encode({"plan": number}))
    assert await following(client) == {"plan": 999}


async def test_a_problem_is_added_to_what_is_shown() -> None:
    board = Board()
    board.show(encode({"plan": 1, "problem": None}))
    board.show(encode({"problem": "no answer"}), whole=False)
    assert await following(board.messages(FOREVER)) == {"plan": 1, "problem": "no answer"}


async def test_many_parts_come_in_messages_of_bounded_size() -> None:
    board = Board()
    lanes = {f"lane:{number}": number for number in range(600)}
    board.show(encode(lanes))
    client = board.messages(FOREVER)
    sizes: list[int] = []
    seen: dict[str, int] = {}
    while len(seen) < 600:
        message = await following(client)
        sizes.append(len(message))
        seen |= message
    assert (sizes, seen) == ([256, 256, 88], lanes)


async def test_an_idle_client_is_sent_nothing_but_a_pulse() -> None:
    board = Board()
    board.show(encode({"plan": 1}))
    client = board.messages(0.01)
    await following(client)
    assert await anext(client) == ""


async def test_somebody_watches_while_a_page_is_connected() -> None:
    board = Board()
    watched = asyncio.create_task(board.watched())
    await asyncio.sleep(0)
    assert not watched.done()
    with board.client(), board.client():
        await watched
    again = asyncio.create_task(board.watched())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()


def test_characters_that_turn_text_around_are_shown_as_escapes() -> None:
    assert encode({"message": "a\u202eb"}) == {"message": '"a\\u202eb"'}
