"""Prices of machine types, from the table of this package: Google Cloud tells no price of a machine.

Its price list has cores, memory and GPUs, each by a text for people. ``price_table`` makes the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Final

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Offering, Pool, Quote
from charterer.domain.time import Instant, instant, seconds_between
from charterer.providers.errors import InvalidRequest
from charterer.providers.gcp.listing import BILLING_MINIMUM

STALE_DAYS: Final = 90
_DAY_SECONDS: Final = 86_400.0
_CURRENCY: Final = "USD"
_FIELD: Final = "price"


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Dollars an hour by region and machine type, on demand and on spot. ``day``: of which they are, as YYYY-MM-DD."""

    day: str
    currency: str
    on_demand: Mapping[str, Mapping[str, str]]
    spot: Mapping[str, Mapping[str, str]]

    @property
    def as_of(self) -> Instant:
        """The beginning of that day."""
        return instant(datetime.strptime(self.day, "%Y-%m-%d").replace(tzinfo=UTC))

    def age_days(self, now: Instant) -> int:
        """How many days old it is."""
        return int(seconds_between(self.as_of, now) // _DAY_SECONDS)


def read_table() -> PriceTable:
    """The table of this package."""
    content = json.loads(files("charterer.providers.gcp").joinpath("prices.json").read_text(encoding="utf-8"))
    return PriceTable(content["asOf"], content["currency"], content["onDemand"], content["spot"])


class Prices:
    """Prices of one table."""

    def __init__(self, table: PriceTable) -> None:
        self.table = table

    def quote(self, pool: Pool, offering: Offering, region: str, *, flex: bool) -> Quote:
        """The price of a node; InvalidRequest where the table has none and ``spec.price.hourly`` says none.

        A spot node costs at most what it costs on demand. What flex-start costs is not in the table: at most that.
        """
        table, kind = self.table, offering.instance_type
        source = f"Charterer's table of Google Cloud prices of {table.day}, {region}"
        if table.currency != _CURRENCY:
            raise _no_price(pool, f"the table of prices is in {table.currency}, and budgets are in {_CURRENCY}")
        on_demand = table.on_demand.get(region, {}).get(kind)
        spot = table.spot.get(region, {}).get(kind)
        sold = spot if pool.capacity_type is CapacityType.SPOT else on_demand
        if on_demand is None or sold is None:
            if pool.price_override is not None:
                price = pool.price_override
                return Quote(price, price, BILLING_MINIMUM, "spec.price.hourly", table.as_of)
            said = f"{pool.capacity_type.value} price of {kind} in {region}"
            raise _no_price(pool, f"the table of {table.day} has no {said}")
        worst = Price.rounded(Decimal(on_demand))
        price = min(Price.rounded(Decimal(sold)), worst)
        told = f"{source}, on demand; flex-start costs less" if flex else source
        return Quote(price, worst, BILLING_MINIMUM, told, table.as_of)


def _no_price(pool: Pool, what: str) -> InvalidRequest:
    return InvalidRequest(pool.id, _FIELD, "NoPrice", f"{what}: set spec.price.hourly")
