"""Lists whose continue token expires, from a server that can be told to let it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from charterer.cluster.client import Client
from charterer.cluster.credentials import Access
from charterer.cluster.errors import Gone, Unreachable
from charterer.cluster.paths import CONFIG_MAPS
from charterer.cluster.resync import Resync
from charterer.cluster.store import Store, WatchedKind


class Pages:
    """Two pages; the second one answers 410 for the first ``expiries`` times."""

    def __init__(self) -> None:
        self.expiries = 0
        self.instead: object = None
        """The answer to give instead of a list; None: a list."""

    async def answer(self, request: web.Request) -> web.Response:
        if self.instead is not None:
            return web.json_response(self.instead)
        second = "continue" in request.query
        if second and self.expiries:
            self.expiries -= 1
            return web.json_response({"kind": "Status", "reason": "Expired", "message": "too old"}, status=410)
        name = "second" if second else "first"
        metadata = {"resourceVersion": "10", **({} if second else {"continue": "more"})}
        item = {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}}
        return web.json_response({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [item]})


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
async def client(pages: Pages) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_get("/api/v1/configmaps", pages.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with Client(Access("a test", lambda made, _: setattr(made, "host", f"http://{host}:{port}"))) as client:
        yield client
    await runner.cleanup()


async def test_a_list_that_took_too_long_is_begun_again(client: Client, pages: Pages) -> None:
    pages.expiries = 2
    listing = await client.list(CONFIG_MAPS.all())
    assert [item["metadata"]["name"] for item in listing.items] == ["first", "second"]


@pytest.mark.parametrize("answer", [{}, {"metadata": None, "items": []}, {"metadata": {"resourceVersion": "x"}}])
async def test_what_is_no_list_is_never_taken_for_an_empty_one(client: Client, pages: Pages, answer: object) -> None:
    """As a proxy may answer; all objects would count as deleted."""
    pages.instead = answer
    with pytest.raises(Unreachable, match="it is no list"):
        await client.list(CONFIG_MAPS.all())


async def test_a_list_whose_token_always_expires_is_given_up(client: Client, pages: Pages) -> None:
    pages.expiries = 100
    with pytest.raises(Gone):
        await client.list(CONFIG_MAPS.all())


async def test_the_repair_list_never_takes_a_part_for_the_whole(client: Client, pages: Pages) -> None:
    kind: WatchedKind[str] = WatchedKind("ConfigMap", CONFIG_MAPS, lambda raw: str(raw["metadata"]["name"]))
    store = Store([kind])
    resync = Resync(client, store)
    await resync.once()
    pages.expiries = 1
    assert await resync.once() == ()
    pages.expiries = 2
    with pytest.raises(Gone):
        await resync.once()
    assert sorted(store.view(kind).objects.values()) == ["first", "second"]
