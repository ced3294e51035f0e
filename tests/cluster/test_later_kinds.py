"""Kinds whose CRDs are installed after the watch has begun."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace

import pytest

from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.lease import Heartbeat
from charterer.cluster.paths import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from charterer.cluster.store import Store, WatchedKind
from tests.cluster.support import (
    WIDGETS,
    Changes,
    awaited,
    config_map,
    crd_of,
    fresh,
    make_namespace,
    served,
    widget,
)
from tests.cluster.test_watch import MAPS, client, watching
from tests.testbed.controlplane import ControlPlane

__all__ = ["client"]


async def test_a_watch_that_is_older_than_its_crd_begins_when_that_is_served(
    control_plane: ControlPlane, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so meanwhile."""
    said = threading.Event()
    monkeypatch.setattr(logging.getLogger("charterer.cluster.watch"), "warning", lambda *_: said.set())
    namespace = await make_namespace(client)
    late = replace(WIDGETS, plural=fresh("gadget").replace("-", ""))
    kind: WatchedKind[int] = WatchedKind("Gadget", late, lambda raw: int(raw["spec"]["size"]))
    store = Store([kind])
    changes = Changes(store)
    with watching(credentials.load(control_plane.kubeconfig), store, Heartbeat(), namespace) as watch:
        await awaited(said)
        assert not watch.ready.is_set()
        crd = crd_of(late, "Gadget")
        await client.post(CUSTOM_RESOURCE_DEFINITIONS.all(), crd)
        await served(client, late)
        body = {**widget(namespace, "w", size=7), "kind": "Gadget"}
        await client.post(late.all(namespace), body)
        await changes.until(lambda: store.get(kind, "w", namespace) == 7)
        await asyncio.to_thread(watch.stop)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS.one(crd["metadata"]["name"]))


async def test_an_optional_kind_is_watched_once_its_crd_is_there(control_plane: ControlPlane, client: Client) -> None:
    """The other kinds are watched before, and go on being watched."""
    namespace = await make_namespace(client)
    late = replace(WIDGETS, plural=fresh("gizmo").replace("-", ""))
    kind: WatchedKind[int] = WatchedKind("Gizmo", late, lambda raw: int(raw["spec"]["size"]), optional=True)
    store = Store([MAPS, kind])
    changes = Changes(store)
    relisted = threading.Event()
    access = credentials.load(control_plane.kubeconfig)
    with watching(access, store, Heartbeat(), namespace, relisted.set, later=0.1) as watch:
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "a"))
        await changes.until(lambda: store.get(MAPS, "a", namespace) is not None)
        crd = crd_of(late, "Gizmo")
        await client.post(CUSTOM_RESOURCE_DEFINITIONS.all(), crd)
        await served(client, late)
        for size in (7, 8):  # the first may be listed, the second is heard of
            body = {**widget(namespace, f"w{size}", size=size), "kind": "Gizmo"}
            await client.post(late.all(namespace), body)
            await changes.until(lambda: store.get(kind, f"w{size}", namespace) == size)  # noqa: B023 - awaited here
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "b"))
        await changes.until(lambda: store.get(MAPS, "b", namespace) is not None)
        await awaited(relisted)
        assert watch.alive
        await asyncio.to_thread(watch.stop)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS.one(crd["metadata"]["name"]))
