"""Autoscale settings of Azure Monitor, which would add or end VMs of a scale set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from charterer.domain.pool import Pool
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.groups import GroupState
from charterer.providers.azure.permissions import Call

_SECONDS: Final = 300.0
"""For how long a resource group's settings are used before they are read again."""
_VERSION: Final = "2022-10-01"


class Autoscale:
    """Reads the settings of resource groups. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[float, Sequence[tuple[str, str]]]] = {}

    async def problems(self, pool: Pool, state: GroupState) -> Sequence[str]:
        """The enabled settings that are for the set."""
        group = state.id.partition("/providers/")[0]
        known = self._known.get(group.lower())
        if known is None or self._clock() - known[0] > _SECONDS:
            url = f"{group}/providers/Microsoft.Insights/autoscalesettings"
            answer = await self._calls(pool.id, Call.LIST_AUTOSCALE, {"url": url, "query": {"api-version": _VERSION}})
            enabled = [row for row in answer.body if row["properties"].get("enabled", True)]
            targets = [(row["name"], str(row["properties"].get("targetResourceUri", "")).lower()) for row in enabled]
            known = self._known[group.lower()] = self._clock(), targets
        names = [name for name, target in known[1] if target == state.id.lower()]
        return [f"autoscale setting {name} changes its capacity: disable or delete it" for name in names]
