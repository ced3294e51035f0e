"""Waits until the API server serves the kinds that are to be watched.

kopf asks once, when it starts, and never watches a kind that was not served then: an operator that is started together
with its CRDs would not see their objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp

from charterer.cluster.paths import Resource

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)


async def all_served(
    session: aiohttp.ClientSession,
    server: str,
    needed: Sequence[Resource],
    optional: Sequence[Resource],
    stopped: Callable[[], bool],
) -> frozenset[Resource]:
    """Return once all that are ``needed`` are served, or ``stopped``: all that are served, the ``optional`` ones too.

    Logs what is missing whenever that changes.
    """
    reported: object = None
    while not stopped():
        try:
            lacking = await _missing(session, server, [*needed, *optional])
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("the API server does not say what it serves: %s", error)
        else:
            missing = [resource for resource in lacking if resource in needed]
            if not missing:
                return frozenset(needed) | (frozenset(optional) - frozenset(lacking))
            if missing != reported:
                log.warning("not served yet: %s: helm install charterer-crds", ", ".join(map(str, missing)))
            reported = missing
        await asyncio.sleep(_RETRY_SECONDS)
    return frozenset()


async def _missing(session: aiohttp.ClientSession, server: str, resources: Sequence[Resource]) -> list[Resource]:
    groups = {group["name"] for group in (await _get(session, f"{server}/apis"))["groups"]} | {""}
    served: dict[str, set[str]] = {}
    for path in {resource.version_path for resource in resources if resource.group in groups}:
        listed = (await _get(session, server + path)).get("resources") or ()
        served[path] = {resource["name"] for resource in listed}
    return [resource for resource in resources if resource.plural not in served.get(resource.version_path, ())]


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    """The answer; an empty object where nothing is served under this address yet."""
    async with session.get(url, timeout=_TIMEOUT) as response:
        if response.status == 404:
            return {}
        response.raise_for_status()
        return await response.json()
