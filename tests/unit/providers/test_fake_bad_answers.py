"""The fake cloud's adapter and answers that no cloud should give: only the pool that they are about fails."""

from __future__ import annotations

import gzip

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from charterer.clouds.fake import FakeGroup
from charterer.domain.ids import PoolId
from charterer.providers.errors import ProviderError
from charterer.providers.fake import FakeCloud
from tests.factory import pool

BAD = {
    "not-utf-8": (b'{"now": "\xff\xfe"}', {}, "no JSON object"),
    "nested": (b"[" * 200_000, {}, "no JSON object"),
    "too-long": (b" " * (17 * 2**20), {}, "longer than"),
    "inflates": (gzip.compress(b" " * (40 * 2**20)), {"Content-Encoding": "gzip"}, "x1f"),
}


@pytest.mark.parametrize("what", BAD)
async def test_an_answer_that_cannot_be_read_is_an_error_of_its_pool_only(what: str) -> None:
    body, headers, words = BAD[what]

    async def answer(request: web.Request) -> web.Response:
        if "/bad" in request.path:
            return web.Response(body=body, headers=headers)
        return web.json_response({"error": {"code": "GroupNotFound", "message": "no such group"}}, status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        cloud = FakeCloud(str(server.make_url("/")))
        pools = [pool(id=PoolId(name), cloud=FakeGroup(str(server.make_url("/")), name)) for name in ("bad", "good")]
        surveys = await cloud.survey(pools)
        await cloud.close()
    bad, good = surveys[PoolId("bad")], surveys[PoolId("good")]
    assert isinstance(bad, ProviderError)
    assert isinstance(good, ProviderError)
    assert good.code == "GroupNotFound"
    assert words in str(bad)
    assert len(str(bad)) < 1000
