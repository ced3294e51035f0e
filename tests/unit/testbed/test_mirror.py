"""The mirror of a cluster that tests look into: it must not stand still unnoticed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp import web

from charterer.cluster.client import Client
from tests.testbed.mirror import WATCHED, Mirror

JOB = {"metadata": {"name": "train", "namespace": "research"}}
REFUSED = {"kind": "Status", "status": "Failure", "message": "storage is (re)initializing", "code": 429}


async def test_a_watch_that_is_refused_is_tried_again() -> None:
    """As it is for a moment after a CustomResourceDefinition was changed."""
    refused: set[str] = set()

    async def watch(request: web.Request) -> web.StreamResponse:
        if request.path not in refused:
            refused.add(request.path)
            return web.Response(text=json.dumps(REFUSED) + "\n", status=429)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "ADDED", "object": JOB}).encode() + b"\n")
        return response

    async def nothing(path: str) -> Any:
        return SimpleNamespace(items=[], resource_version=1)

    app = web.Application()
    app.router.add_get("/{path:.*}", watch)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    access = SimpleNamespace(server=f"http://127.0.0.1:{address[1]}", session=aiohttp.ClientSession)
    mirror = Mirror(cast(Client, SimpleNamespace(access=access, list=nothing)))
    await mirror.start()
    try:
        await mirror.until(lambda: all(mirror.all(kind) for kind in WATCHED), 90, lambda: "")
    finally:
        await mirror.stop()
        await runner.cleanup()
