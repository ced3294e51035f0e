"""Prices of instances: AWS's price list, and the history of spot prices by type and zone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Pool, PriceSegment, Quote
from charterer.domain.time import Instant, after, instant, moment
from charterer.providers.aws.calls import Calls, time_of
from charterer.providers.aws.listing import BILLING_MINIMUM, ListedInstance
from charterer.providers.aws.permissions import Call
from charterer.providers.errors import InvalidRequest, ProviderError

_LIST_SECONDS: Final = 6 * 3600.0
"""Seconds for which a list price is used before it is read again."""
_SPOT_SECONDS: Final = 300.0
"""Seconds for which spot prices are used before newer prices are read. For an instance that has ended, prices are
always read again.
"""
_PRODUCT: Final = "Linux/UNIX"
_PLAIN: Final[Mapping[str, str]] = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Filters that select the plain price of a type from the many prices in the price list. Types that are also sold in
Capacity Blocks have a second price for them. Source: karpenter-provider-aws, pkg/providers/pricing.
"""

_LONG_AGO: Final = Instant(0)

Place = tuple[str, str]
"""An instance type and a zone."""


class _SpotRead(NamedTuple):
    """The last reading of a type's spot prices. ``read``: when, by our clock. ``at``: when, by the cloud's clock.

    ``since``: the instant from which on the type's prices are known in every zone. The oldest known price does not show
    this instant, because it may be of one zone only.
    """

    read: float
    at: Instant
    since: Instant


class Prices:
    """Prices of one region. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, region: str, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._region = region
        self._clock = clock
        self._listed: dict[str, tuple[float, Price, Instant]] = {}
        self._spot: dict[Place, list[PriceSegment]] = {}
        self._spot_read: dict[str, _SpotRead] = {}

    async def quote(self, pool: Pool, types: Sequence[str], zones: Sequence[str]) -> Quote:
        """The price of a node. It is that of the dearest type and zone, because the cloud chooses type and zone.

        The worst spot price is the on-demand price.
        """
        listed = [await self._list_price(pool, name) for name in types]
        worst = max(price for price, _ in listed)
        source, as_of = f"AWS price list of {self._region}", min(at for _, at in listed)
        if pool.capacity_type is not CapacityType.SPOT:
            return Quote(worst, worst, BILLING_MINIMUM, source, as_of)
        as_of = await self._read_spot(pool, types, as_of)
        places = [self._spot[name, zone] for name in types for zone in set(zones) if (name, zone) in self._spot]
        if not places:
            raise _no_price(pool, f"a spot price of {', '.join(types)} in {', '.join(sorted(set(zones)))}")
        price = max(segments[-1].price for segments in places)
        history = tuple(places[0]) if len(places) == 1 else ()
        source = f"AWS spot price history of {self._region}"
        return Quote(price, max(worst, price), BILLING_MINIMUM, source, as_of, history=history)

    async def segments(
        self, pool: Pool, types: Sequence[str], rows: Sequence[ListedInstance]
    ) -> Mapping[str, Sequence[PriceSegment]]:
        """The prices of each instance that does not simply have the pool's price: spot instances by their zone, and
        instances of pools with several types.
        """
        if spot := [row for row in rows if row.spot]:
            newest = max((row.ended for row in spot if row.ended is not None), default=_LONG_AGO)
            await self._read_spot(pool, types, min(row.launched for row in spot), newest)
        found: dict[str, Sequence[PriceSegment]] = {}
        for row in rows:
            if row.spot:
                found[row.id] = _between(self._spot.get((row.type, row.zone), ()), row.launched, row.ended)
            elif len(types) > 1:
                price, _ = await self._list_price(pool, row.type)
                found[row.id] = [PriceSegment(row.launched, price)]
        return found

    async def _list_price(self, pool: Pool, name: str) -> tuple[Price, Instant]:
        """The on-demand price of a type and when it was read. If the list has no price, ``spec.price.hourly``."""
        known = self._listed.get(name)
        if known is not None and self._clock() - known[0] < _LIST_SECONDS:
            return known[1], known[2]
        want = {**_PLAIN, "instanceType": name, "regionCode": self._region}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in want.items()]
        try:
            answer = await self._calls(pool.id, Call.LIST_PRICES, {"ServiceCode": "AmazonEC2", "Filters": filters})
        except ProviderError:  # for example in a partition without a price list
            if pool.price_override is None:
                raise
            return pool.price_override, instant(datetime.now(UTC))
        prices = {price for row in answer.get("PriceList", ()) for price in _hourly(json.loads(row))}
        if len(prices) != 1 or min(prices) <= 0:
            if pool.price_override is not None:
                return pool.price_override, time_of(answer)
            found = f"{len(prices)} prices" if prices else "no price"
            raise _no_price(pool, f"one on-demand price of {name}: AWS lists {found}")
        price, at = Price.rounded(prices.pop()), time_of(answer)
        self._listed[name] = self._clock(), price, at
        return price, at

    async def _read_spot(self, pool: Pool, types: Sequence[str], since: Instant, until: Instant = _LONG_AGO) -> Instant:
        """Read the new spot prices of the types, from ``since`` on. Returns when they were read.

        If the known prices end before ``until``, they are read again.
        """
        reads = [self._spot_read[name] for name in types if name in self._spot_read]
        known = len(reads) == len(types) and all(each.since <= since for each in reads)
        if known and all(self._clock() - each.read < _SPOT_SECONDS and each.at >= until for each in reads):
            return min(each.at for each in reads)
        since = min([since, *(each.since for each in reads)])  # prices that are known for longer stay known
        begin = min(each.at for each in reads) if known else after(since, -1.0)
        params = {
            "InstanceTypes": list(types),
            "ProductDescriptions": [_PRODUCT],
            "StartTime": moment(begin),
        }
        rows, at = await self._calls.pages(pool.id, Call.SPOT_PRICES, params, "SpotPriceHistory")
        for place, segments in _histories(rows).items():
            before = [old for old in self._spot.get(place, ()) if known and old.since < segments[0].since]
            self._spot[place] = [*before, *segments]
        for name in types:
            self._spot_read[name] = _SpotRead(self._clock(), at, self._spot_read[name].since if known else since)
        return at


def _histories(rows: Sequence[Mapping[str, Any]]) -> Mapping[Place, list[PriceSegment]]:
    """The prices by type and zone, the oldest first, without repeated ones."""
    found: dict[Place, list[PriceSegment]] = {}
    for row in sorted(rows, key=lambda row: row["Timestamp"]):
        segments = found.setdefault((row["InstanceType"], row["AvailabilityZone"]), [])
        price = Price.rounded(Decimal(row["SpotPrice"]))
        if not segments or segments[-1].price != price:
            segments.append(PriceSegment(instant(row["Timestamp"]), price))
    return found


def _between(history: Sequence[PriceSegment], launched: Instant, ended: Instant | None) -> Sequence[PriceSegment]:
    """The prices from the launch to the end. The first price begins at the launch."""
    at_launch = [segment for segment in history if segment.since <= launched][-1:]
    later = [s for s in history if s.since > launched and (ended is None or s.since < ended)]
    first = [PriceSegment(launched, segment.price) for segment in at_launch or later[:1]]
    return [*first, *(later if at_launch else later[1:])]


def _hourly(product: Mapping[str, Any]) -> Sequence[Decimal]:
    """The dollars an hour in one row of the price list."""
    dimensions = [
        dimension
        for term in product["terms"].get("OnDemand", {}).values()
        for dimension in term["priceDimensions"].values()
        if dimension["unit"] == "Hrs" and "USD" in dimension["pricePerUnit"]
    ]
    try:
        return [Decimal(dimension["pricePerUnit"]["USD"]) for dimension in dimensions]
    except InvalidOperation:
        return []


def _no_price(pool: Pool, what: str) -> InvalidRequest:
    message = f"there is not {what}: set spec.price.hourly"
    return InvalidRequest(pool.id, Call.LIST_PRICES.full_name, "NoPrice", message)
