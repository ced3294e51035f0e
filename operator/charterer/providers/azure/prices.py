"""Prices of VMs: Azure's feed of retail prices, which anybody may read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Pool, Quote
from charterer.domain.time import Instant, instant, parse_instant
from charterer.providers.azure.calls import PRICES, Calls
from charterer.providers.azure.listing import BILLING_MINIMUM
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import InvalidRequest, ProviderError

_LIST_SECONDS: Final = 6 * 3600.0
_SPOT_SECONDS: Final = 1800.0
"""Seconds for which the prices of a pool of spot nodes are used before they are read again."""
_LINUX: Final = re.compile(r"Virtual Machines \S.*(?<! Windows)", re.IGNORECASE)
"""The pattern for the product of a size's VMs that run Linux, such as Virtual Machines NDasrA100 v4 Series."""
_SOLD_OTHERWISE: Final = ("spot", "low priority")
"""Ends of the names of rows that are not on-demand prices. Only Batch sells Low Priority."""


class Prices:
    """Prices of one subscription's pools. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._rows: dict[tuple[str, str], tuple[float, Instant, Sequence[Mapping[str, Any]]]] = {}

    async def quote(self, pool: Pool, size: str, location: str) -> Quote:
        """The price of a VM. If a spot VM has no limit of its own, its worst price is the on-demand price."""
        spot = pool.capacity_type is CapacityType.SPOT
        source = f"Azure retail prices of {location}"
        try:
            at, rows = await self._read(pool, size, location, _SPOT_SECONDS if spot else _LIST_SECONDS)
            now = [row for row in rows if parse_instant(row["effectiveStartDate"]) <= at]
            worst = _price(pool, now, f"{size} in {location} on demand", "")
            price = _price(pool, now, f"{size} in {location} as spot", "spot") if spot else worst
        except ProviderError:  # for example in a cloud that is not in the feed
            if pool.price_override is None:
                raise
            price = worst = pool.price_override
            at = instant(datetime.now(UTC))
        return Quote(price, max(worst, price), BILLING_MINIMUM, source, at)

    async def _read(
        self, pool: Pool, size: str, location: str, seconds: float
    ) -> tuple[Instant, Sequence[Mapping[str, Any]]]:
        """All rows of a size (Windows and Linux, on demand, spot and so on), and when they were read."""
        known = self._rows.get((size, location))
        if known is None or self._clock() - known[0] >= seconds:
            wanted = {
                "serviceName": "Virtual Machines",
                "armRegionName": location,
                "armSkuName": size,
                "priceType": "Consumption",
            }
            terms = " and ".join(f"{name} eq '{value}'" for name, value in wanted.items())
            query = {"currencyCode": "USD", "$filter": terms}
            answer = await self._calls(pool.id, Call.LIST_PRICES, {"url": "/api/retail/prices", "query": query})
            known = self._rows[size, location] = self._clock(), answer.at, answer.body
        return known[1], known[2]


def _price(pool: Pool, rows: Sequence[Mapping[str, Any]], what: str, sold: str) -> Price:
    """The one Linux price of VMs that are sold in this way. Raises InvalidRequest if there is none, or if there are
    several.

    Only rows for an hour of virtual machines count. Rows of other products, such as Cloud Services, have the same
    size's name and cost more.
    """
    plain = [row for row in rows if _is_plain(row) and _sold(row) == sold]
    if others := {row["currencyCode"] for row in plain} - {"USD"}:
        raise _no_price(pool, f"{PRICES} tells the price of {what} in {', '.join(sorted(others))}, not in USD")
    prices = {Decimal(str(row["retailPrice"])) for row in _newest(plain)}
    if len(prices) != 1:
        found = f"{len(prices)} prices" if prices else "no price"
        raise _no_price(pool, f"{PRICES} has {found} of {what}")
    return Price.rounded(prices.pop())


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Whether the row is the price of an hour of a VM that runs Linux, and does not require a term or a plan."""
    return (
        row["type"] == "Consumption"
        and row["unitOfMeasure"] == "1 Hour"
        and _LINUX.fullmatch(row["productName"]) is not None
        and row.get("isPrimaryMeterRegion", True)
        and not row.get("tierMinimumUnits")
        and not row.get("effectiveEndDate")
    )


def _sold(row: Mapping[str, Any]) -> str:
    names = row["skuName"].lower(), row["meterName"].lower()
    return next((way for way in _SOLD_OTHERWISE if any(name.endswith(way) for name in names)), "")


def _newest(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """For each meter, the row that took effect last. The feed has older rows too."""
    last: dict[str, Instant] = {}
    for row in rows:
        last[row["meterId"]] = max(last.get(row["meterId"], Instant(0)), parse_instant(row["effectiveStartDate"]))
    return [row for row in rows if parse_instant(row["effectiveStartDate"]) == last[row["meterId"]]]


def _no_price(pool: Pool, what: str) -> InvalidRequest:
    return InvalidRequest(pool.id, Call.LIST_PRICES.full_name, "NoPrice", f"{what}: set spec.price.hourly")
