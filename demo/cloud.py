"""The demo's cloud as its owner sees it: machines and bill. Charterer never reads these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from demo.money import micros

_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill in micro-dollars. ``open_lines`` counts machines that are still billed.

    ``made_of`` names the bill's source. ``metered_micros`` is the cost of the machines from launch to end, if the bill
    does not use these times.
    """

    micros: int
    machines: int
    open_lines: int
    made_of: str = "the cloud's own bill"
    metered_micros: int | None = None


class Cloud(Protocol):
    """A cloud of the demo. Failed calls raise one of kube.RETRIABLE."""

    @property
    def name(self) -> str:
        """The cloud's name in words."""

    async def machines(self) -> list[dict[str, Any]]:
        """Return all machines ever launched. ``group`` is the pool's name. ``state`` of an ended machine is Ended."""

    async def bill(self) -> Bill:
        """Return the present bill."""


@dataclass(frozen=True, slots=True)
class FakeCloud:
    """The fake cloud at ``url``, read through its administrative API."""

    session: aiohttp.ClientSession
    url: str
    name: str = "the fake cloud"

    async def machines(self) -> list[dict[str, Any]]:
        """Return all machines ever launched, in their present state."""
        machines: list[dict[str, Any]] = (await self._get("/admin/v1/instances"))["instances"]
        return machines

    async def bill(self) -> Bill:
        """Return the present bill."""
        bill = await self._get("/admin/v1/bill")
        lines = bill["lines"]
        return Bill(micros(bill["total"]), len(lines), sum(not line["final"] for line in lines))

    async def _get(self, path: str) -> dict[str, Any]:
        async with self.session.get(self.url + path, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer
