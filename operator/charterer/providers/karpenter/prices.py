"""Prices from Karpenter's own metrics: it estimates each offering to choose the cheapest."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from math import inf
from typing import Final

import aiohttp

from charterer.api.connection_error import connection_error
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Pool, Quote
from charterer.domain.time import Instant, instant
from charterer.providers.errors import CloudUnreachable, InvalidRequest, Transient, UnknownCode
from charterer.providers.karpenter.claims import CAPACITY

METRIC: Final = "karpenter_cloudprovider_instance_type_offering_price_estimate"
_SECONDS: Final = 10.0
_LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


def declared(pool: Pool, cloud: NodeClaims) -> Quote | None:
    """The price that the pool's spec says; None where it says none."""
    price = pool.price_override
    if price is None:
        return None
    return Quote(price, price, cloud.billing_minimum_seconds, "spec.price.hourly", pool.created)


async def estimated(session: aiohttp.ClientSession, pool: Pool, cloud: NodeClaims) -> Quote:
    """Karpenter's estimate. A spot node never costs more than the same node on demand, where Karpenter knows that."""
    call = f"GET {cloud.price_metrics}"
    prices, as_of = await _read(session, pool, cloud)
    price = prices.get(CAPACITY[pool.capacity_type])
    if price is None:
        message = (
            f"{METRIC} has no price of instance type {cloud.instance_type!r} ({CAPACITY[pool.capacity_type]}) in zone "
            f"{cloud.zone!r}: correct spec.karpenter.instanceType or zone, or set spec.price.hourly"
        )
        raise InvalidRequest(pool.id, call, "NoPrice", message)
    worst = max(price, prices.get(CAPACITY[CapacityType.ON_DEMAND], price))
    return Quote(price, worst, cloud.billing_minimum_seconds, "Karpenter's estimate", as_of)


async def _read(session: aiohttp.ClientSession, pool: Pool, cloud: NodeClaims) -> tuple[dict[str, Price], Instant]:
    """Prices by capacity type in the pool's zone, and the time of the answer."""
    url = cloud.price_metrics
    call = f"GET {url}"
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=_SECONDS)) as answer:
            if answer.status != 200:
                raise UnknownCode(pool.id, call, f"HTTP {answer.status}", "is spec.karpenter.priceMetrics right?")
            date = answer.headers.get("Date")
            as_of = Instant(time.time_ns() // 1000) if date is None else instant(parsedate_to_datetime(date))
            return _prices(await answer.text(), cloud), as_of
    except (aiohttp.InvalidURL, ValueError) as error:
        message = f"spec.karpenter.priceMetrics cannot be read: {error}"
        raise InvalidRequest(pool.id, call, "NoMetrics", message) from error
    except aiohttp.ClientConnectorError as error:
        message = f"spec.karpenter.priceMetrics: {connection_error(error)}"
        raise CloudUnreachable(pool.id, call, "NotConnected", message) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Transient(pool.id, call, "NoAnswer", str(error) or f"no answer within {_SECONDS:.0f} s") from error


def _prices(text: str, cloud: NodeClaims) -> dict[str, Price]:
    found: dict[str, Price] = {}
    for line in text.splitlines():
        if line.startswith(METRIC + "{"):
            labels, _, value = line.removeprefix(METRIC).rpartition("} ")
            named = dict(_LABEL.findall(labels))
            if named.get("instance_type") == cloud.instance_type and named.get("zone") == cloud.zone:
                dollars = float(value.split()[0])
                if 0.0 < dollars < inf:  # what has no price is told as 0, NaN or +Inf
                    found[named.get("capacity_type", "")] = Price.per_second(dollars / 3600)
    return found
