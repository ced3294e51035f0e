"""What a Prometheus has kept of budgets: more than the days in their status."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from math import ceil, isfinite
from typing import Any, Final

import aiohttp

from charterer.cli.shared.output import JsonValue
from charterer.metrics import catalogue

_SPAN_SECONDS: Final = 31 * 86_400
_STEP_SECONDS: Final = 3_600
"""A point an hour, of a month: 744 of each series."""
_FRESH_SECONDS: Final = 300.0
_TIMEOUT_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_SERIES: Final = {
    "spent": catalogue.BUDGET_SPENT,
    "hourly": catalogue.BUDGET_RENTED_RATE,
    "paysPerHourSaved": catalogue.BUDGET_EXCHANGE_RATE,
}


class PrometheusHistory:
    """Series of each budget from the Prometheus at ``url``, asked again when they are five minutes old."""

    def __init__(self, url: str, session: aiohttp.ClientSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url.rstrip("/")
        self._session = session
        self._clock = clock
        self._latest: JsonValue = None
        self._asked = float("-inf")

    async def latest(self) -> JsonValue:
        """``budgets``: by name, series by name, each with ``[seconds since 1970, value]``; ``problem``: why not."""
        if self._clock() - self._asked >= _FRESH_SECONDS:
            self._latest = await self._ask()
            self._asked = self._clock()
        return self._latest

    async def _ask(self) -> JsonValue:
        budgets: dict[str, dict[str, JsonValue]] = {}
        try:
            for name, spec in _SERIES.items():
                for budget, points in (await self._range(spec.name)).items():
                    budgets.setdefault(budget, {})[name] = points
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            reason = str(error) or type(error).__name__
            return {"budgets": {}, "problem": f"no history from Prometheus {self._url}: {reason}"}
        return {"budgets": budgets, "problem": None}

    async def _range(self, metric: str) -> Mapping[str, JsonValue]:
        """A month of a metric by budget; ValueError for an answer that Prometheus does not give."""
        end = ceil(time.time())
        query = {
            "query": f"max by (budget) ({metric})",
            "start": str(end - _SPAN_SECONDS),
            "end": str(end),
            "step": str(_STEP_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with self._session.get(f"{self._url}/api/v1/query_range", params=query, timeout=timeout) as response:
            body = await response.content.read(_MOST_BYTES + 1)
            while len(body) <= _MOST_BYTES and (more := await response.content.read(_MOST_BYTES)):
                body += more
        if len(body) > _MOST_BYTES:
            raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError(f"HTTP {response.status}, and the answer is no JSON") from None
        if not isinstance(answer, dict) or answer.get("status") != "success":
            said = answer.get("error") if isinstance(answer, dict) else None
            raise ValueError(f"HTTP {response.status}: {said or 'no success'}")
        return {
            str(found["metric"].get("budget", "")): [
                [int(at), float(value)] for at, value in found["values"] if isfinite(float(value))
            ]
            for found in answer["data"]["result"]
        }
