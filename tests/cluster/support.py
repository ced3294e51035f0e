"""What the tests of cluster access share: a tiny custom resource of their own, names, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.paths import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from charterer.cluster.store import Store
from tests.patience import OPERATORS_PATIENCE

WIDGETS = Resource("cluster.test.charterer.dev", "v1", "widgets", namespaced=True)


def crd_of(resource: Resource, kind: str) -> RawObject:
    """The CRD of a namespaced kind with a size and a colour."""
    singular = kind.lower()
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 0}, "colour": {"type": "string", "maxLength": 5}},
    }
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "note": {"type": "string"}}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


WIDGET_CRD = crd_of(WIDGETS, "Widget")

_numbers = itertools.count(1)


def fresh(word: str) -> str:
    """A name nobody else on this control plane uses."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


def widget(namespace: str, name: str, size: int = 1) -> RawObject:
    return {
        "apiVersion": f"{WIDGETS.group}/{WIDGETS.version}",
        "kind": "Widget",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"size": size},
    }


def config_map(namespace: str, name: str, **data: str) -> RawObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "labels": {"charterer.test/kept": "yes"}},
        "data": data,
    }


async def make_namespace(client: Client) -> str:
    name = fresh("access")
    await client.post(
        NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"t": name}}}
    )
    return name


async def install_widgets(client: Client) -> None:
    """The CRD, served: lists of it succeed."""
    with contextlib.suppress(AlreadyExists):
        await client.post(CUSTOM_RESOURCE_DEFINITIONS.all(), WIDGET_CRD)
    await served(client, WIDGETS)


async def served(client: Client, resource: Resource) -> None:
    """Wait until lists of it succeed."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            try:
                await client.list(resource.all())
            except NotFound:
                await asyncio.sleep(0.05)
            else:
                return


async def change_widgets(client: Client) -> None:
    """Another schema, as an upgrade brings it."""
    versions = copy.deepcopy(WIDGET_CRD["spec"]["versions"])
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][fresh("more")] = {"type": "string"}
    path = CUSTOM_RESOURCE_DEFINITIONS.one(WIDGET_CRD["metadata"]["name"])
    await client.merge_patch(path, {"spec": {"versions": versions}})


def data_of(raw: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((raw.get("data") or {}).items()))


class Changes:
    """Lets a test wait until the store shows something, woken by the store's own changes."""

    def __init__(self, store: Store) -> None:
        self._event = asyncio.Event()
        store.bind(self._event.set)

    async def until(self, true: Callable[[], bool], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                await self._event.wait()
                self._event.clear()


async def awaited(event: threading.Event, seconds: float = 20) -> None:
    """Until a thread has set the event."""
    assert await asyncio.to_thread(event.wait, seconds), "the event was not set in time"
