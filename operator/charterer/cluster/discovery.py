"""Whether the API server serves the kinds that are to be watched.

kopf asks once, when it starts, and never watches what was not there then: an operator that is started together with
its CRDs would be blind for their kinds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp

from charterer.cluster.paths import Resource

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 0.5
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)


async def all_served(
    session: aiohttp.ClientSession, server: str, resources: Sequence[Resource], stopped: Callable[[], bool]
) -> None:
    """Return once all are served, or ``stopped``. What is missing is logged whenever that changes."""
    told: object = None
    while not stopped():
        try:
            missing = await _missing(session, server, resources)
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("the API server does not say what it serves: %s", error)
        else:
            if not missing:
                return
            if missing != told:
                log.warning("not served yet: %s: helm install charterer-crds", ", ".join(map(str, missing)))
            told = missing
        await asyncio.sleep(_AGAIN_SECONDS)


async def _missing(session: aiohttp.ClientSession, server: str, resources: Sequence[Resource]) -> list[Resource]:
    groups = {group["name"] for group in (await _get(session, f"{server}/apis"))["groups"]} | {""}
    served: dict[str, set[str]] = {}
    for path in {one.version_path for one in resources if one.group in groups}:
        served[path] = {one["name"] for one in (await _get(session, server + path)).get("resources") or ()}
    return [one for one in resources if one.plural not in served.get(one.version_path, ())]


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    """The answer; nothing where there is none under this address yet."""
    async with session.get(url, timeout=_TIMEOUT) as response:
        if response.status == 404:
            return {}
        response.raise_for_status()
        return await response.json()
