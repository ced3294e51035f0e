"""Prices of machine types, from a table in this package, because Google Cloud publishes no price of a whole machine.

Google's price list has cores, memory and GPUs, each described by a text for people. ``tests.facts.google_prices`` makes
the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Offering, Pool, Quote
from charterer.domain.time import Instant, instant, seconds_between
from charterer.gpu_types.accelerators import has_whole_gpus
from charterer.providers.errors import InvalidRequest
from charterer.providers.gcp.listing import BILLING_MINIMUM

# The table of prices of GPU machine types. It is made from ``pkg/providers/pricing/initial-prices.json`` of
# https://github.com/cloudpilot-ai/karpenter-provider-gcp, which that project makes from Google's price list.
#
# Only prices of machine types with whole GPUs are kept. ``python -m tests.facts.google_prices`` renews the table.


TABLE: Final = Path(__file__).with_name("prices.json")
ORIGIN: Final = "https://github.com/cloudpilot-ai/karpenter-provider-gcp, pkg/providers/pricing/initial-prices.json"


def table_of(content: Mapping[str, Any], day: str) -> Mapping[str, Any]:
    """The table, made from the content of that file.

    Raises ValueError if the day has another form, or if there are no prices.
    """
    date.fromisoformat(day)
    regions = content["prices"]
    prices = {kind: _prices(regions, kind) for kind in ("on_demand", "spot")}
    if not prices["on_demand"]:
        raise ValueError("the file has no price of a GPU machine type")
    return {
        "asOf": day,
        "currency": "USD",
        "source": ORIGIN,
        "licence": "Apache-2.0",
        "onDemand": prices["on_demand"],
        "spot": prices["spot"],
    }


def _prices(regions: Mapping[str, Any], kind: str) -> Mapping[str, Mapping[str, str]]:
    found = {
        region: {
            name: f"{price:.6f}".rstrip("0").rstrip(".")
            for name, price in sorted(those.get(kind, {}).items())
            if has_whole_gpus(name) and price > 0
        }
        for region, those in sorted(regions.items())
    }
    return {region: those for region, those in found.items() if those}


def text_of(table: Mapping[str, Any]) -> str:
    """The table as text, as it is in the file."""
    return json.dumps(table, indent=1) + "\n"


STALE_DAYS: Final = 90
_DAY_SECONDS: Final = 86_400.0
_CURRENCY: Final = "USD"
_FIELD: Final = "price"


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Dollars an hour by region and machine type, on demand and as spot.

    ``day``: the day of these prices, as YYYY-MM-DD.
    """

    day: str
    currency: str
    on_demand: Mapping[str, Mapping[str, str]]
    spot: Mapping[str, Mapping[str, str]]

    @property
    def as_of(self) -> Instant:
        """The beginning of that day."""
        return instant(datetime.strptime(self.day, "%Y-%m-%d").replace(tzinfo=UTC))

    def age_days(self, now: Instant) -> int:
        """The age of the table in days."""
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
        """The price of a node. Raises InvalidRequest if neither the table nor ``spec.price.hourly`` has one.

        The worst price of a spot node is the on-demand price. The table has no price for flex-start. Flex-start costs
        at most the on-demand price, which is therefore used.
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
