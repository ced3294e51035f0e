"""Names of the cluster's objects for a shell that completes them. The module prints nothing, and is quick even if no
cluster answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import click

from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, NAMESPACES, SPEEDUP_PROFILES, TRAINING_JOBS, Resource
from charterer.tools.commands.shared.cluster import ClusterOptions

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]
"""The function that click calls with the text typed so far. See ``shell_complete`` of click's options and arguments."""

_SECONDS: Final = 1.0
"""Time limit in seconds for all requests to a cluster. The names that have come by then are offered."""
_LATEST_SECONDS: Final = 1.5
"""Time limit in seconds that also ends what cannot be cancelled, such as a credential plug-in or a name server that
does not answer.
"""


def _names_of(resource: Resource, *, namespaced: bool = False) -> Complete:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        names = _asked(ctx, resource, lambda raw: str(raw["metadata"]["name"]), namespaced=namespaced)
        return [name for name in names if name.startswith(incomplete)]

    return complete


pool_names: Final = _names_of(GPU_POOLS)
budget_names: Final = _names_of(GPU_BUDGETS)
namespace_names: Final = _names_of(NAMESPACES)
profile_names: Final = _names_of(SPEEDUP_PROFILES, namespaced=True)


def job_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of jobs of the namespace. After ``KIND/``, the names of objects of that kind for which TrainingJobs
    were made.
    """
    kind, slash, _ = incomplete.rpartition("/")
    own = not slash or kind.lower() in ("tj", "trainingjob", "trainingjobs")

    def name(raw: Mapping[str, Any]) -> str:
        if own:
            return str(raw["metadata"]["name"])
        target = raw["spec"].get("targetRef") or {}
        return str(target["name"]) if str(target.get("kind")).lower() == kind.lower() else ""

    offered = [kind + slash + each for each in _asked(ctx, TRAINING_JOBS, name, namespaced=True) if each]
    return [each for each in offered if each.startswith(incomplete)]


def _asked(
    ctx: click.Context, resource: Resource, name: Callable[[Mapping[str, Any]], str], *, namespaced: bool
) -> list[str]:
    """The names of the objects that came in time, sorted."""
    given, found = ctx.params, list[str]()
    cluster = ClusterOptions(
        given.get("kubeconfig"), given.get("context"), given.get("as_user") or "", given.get("as_groups") or ()
    )

    async def ask() -> None:
        access = cluster.access()
        where = (given.get("namespace") or access.namespace) if namespaced else None
        async with asyncio.timeout(_SECONDS), cluster.client(access) as client:
            async for page in client.pages(resource.all(where)):
                found.extend(map(name, page.items))

    def silently() -> None:
        with suppress(Exception):
            asyncio.run(ask())

    with _no_log():
        asking = threading.Thread(target=silently, daemon=True)
        asking.start()
        asking.join(_LATEST_SECONDS)
    if asking.is_alive():
        os._exit(0)  # Python would wait at its end for what cannot be cancelled, and the person would wait for Python
    return sorted(found)


@contextmanager
def _no_log() -> Iterator[None]:
    """Disable logging. Without a handler, a message would go to the terminal, into the middle of the text that the user
    types.
    """
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)
