"""The cloud that the demo rents from, as its own owner sees it: machines and bill, which Charterer never reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from demo.money import micros

_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill in micro-dollars; ``open_lines``: machines that are still billed. ``made_of``: what it is, in words.

    ``metered_micros``: what the machines cost from launch to end, where the bill is not made of these times.
    """

    micros: int
    machines: int
    open_lines: int
    made_of: str = "the cloud's own bill"
    metered_micros: int | None = None


class Cloud(Protocol):
    """A cloud of the demo. ``name``: which one it is, in words. Calls fail with one of kube.RETRIABLE."""

    @property
    def name(self) -> str:
        """Which cloud it is, in words."""

    async def machines(self) -> list[dict[str, Any]]:
        """All machines ever launched: ``group`` is the pool's name, ``state`` is Ended once a machine has ended."""

    async def bill(self) -> Bill:
        """The bill as of now."""


@dataclass(frozen=True, slots=True)
class FakeCloud:
    """The fake cloud at ``url``, through its administrative API."""

    session: aiohttp.ClientSession
    url: str
    name: str = "the fake cloud"

    async def machines(self) -> list[dict[str, Any]]:
        """All machines ever launched, in their present state."""
        machines: list[dict[str, Any]] = (await self._get("/admin/v1/instances"))["instances"]
        return machines

    async def bill(self) -> Bill:
        """The bill as of now."""
        bill = await self._get("/admin/v1/bill")
        lines = bill["lines"]
        return Bill(micros(bill["total"]), len(lines), sum(not line["final"] for line in lines))

    async def _get(self, path: str) -> dict[str, Any]:
        async with self.session.get(self.url + path, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer
