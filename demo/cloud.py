"""Reads the fake cloud's own machines and bill, which Charterer never reads, to check the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from demo.money import micros

_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Bill:
    """The cloud's bill in micro-dollars; ``open_lines``: machines that are still billed."""

    micros: int
    machines: int
    open_lines: int


@dataclass(frozen=True, slots=True)
class CloudAdmin:
    """The administrative API of a fake cloud at ``url``."""

    session: aiohttp.ClientSession
    url: str

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
