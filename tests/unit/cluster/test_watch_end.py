"""The end of kopf's watches is noticed, although kopf tells only its log: the versions that are bound do so.

A real API server whose watches fail in every way is in tests/cluster/test_watch.py.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from aiohttp import web

from charterer.cluster import credentials
from charterer.cluster.lease import Heartbeat
from charterer.cluster.paths import CONFIG_MAPS
from charterer.cluster.store import Store, WatchedKind
from charterer.cluster.watch import Watch

OPERATOR = kopf.operator
MAPS: WatchedKind[str] = WatchedKind("ConfigMap", CONFIG_MAPS, lambda raw: "")
LEASES = {"groupVersion": "coordination.k8s.io/v1", "version": "v1"}
SERVED: dict[str, dict[str, Any]] = {
    "/api": {"versions": ["v1"]},
    "/apis": {"groups": [{"name": "coordination.k8s.io", "versions": [LEASES], "preferredVersion": LEASES}]},
    "/api/v1": {
        "resources": [{"name": "configmaps", "kind": "ConfigMap"}, {"name": "namespaces", "kind": "Namespace"}]
    },
    "/apis/coordination.k8s.io/v1": {"resources": [{"name": "leases", "kind": "Lease"}]},
}
FAILED = {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError"}}


async def answer(request: web.Request) -> web.StreamResponse:
    """An API server that serves two kinds: the watch of one fails once it has begun, that of the other goes on."""
    if request.path in SERVED:
        resources = [
            {**each, "singularName": "", "namespaced": True, "verbs": ["list", "watch"]}
            for each in SERVED[request.path].get("resources", ())
        ]
        return web.json_response({**SERVED[request.path], **({"resources": resources} if resources else {})})
    if request.query.get("watch") == "true" and request.path.endswith("/leases"):
        goes_on = web.StreamResponse()
        await goes_on.prepare(request)
        await asyncio.Event().wait()
    if request.query.get("watch") == "true":
        return web.Response(text=json.dumps(FAILED) + "\n")
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


async def never_returns(**arguments: Any) -> None:
    """As kopf may be after a failure: it waits for tasks of its own."""
    await OPERATOR(**arguments)
    await asyncio.Event().wait()


@pytest.mark.timeout(60)
async def test_a_watch_that_kopf_gives_up_ends_and_says_so_although_kopf_does_not_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf, "operator", never_returns)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    one = {"name": "one", "cluster": server, "user": {}, "context": {"cluster": "one", "user": "one"}}
    kubeconfig = {"current-context": "one", "clusters": [one], "users": [one], "contexts": [one]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **kubeconfig}))
    access, ended = credentials.load(tmp_path / "kubeconfig"), threading.Event()
    watch = Watch(access, Store([MAPS]), Heartbeat(), lease="charterer", namespace="x", on_end=ended.set)
    watch.start()
    assert await asyncio.to_thread(ended.wait, 50)
    assert not watch.alive
    watch.stop(0.0)
    await runner.cleanup()
