"""Azure's feed of retail prices, which anybody may read.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices: the parameters, the fields that
a filter may name, the fields of a row. From version 2023-01-01-preview on values of filters are case-sensitive, and
only that version has savings plans. Filters join their terms with ``and`` only in this server.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.clouds.azure.catalogue import list_prices
from tests.clouds.azure.protocol import Answer, Body, Fault
from tests.clouds.azure.transport import HttpsServer
from tests.clouds.clock import Clock
from tests.clouds.faults import Faults

PREVIEW = "2023-01-01-preview"
_PATH = "/api/retail/prices"
_FIELDS = (
    *("armRegionName", "armSkuName", "location", "meterId", "meterName", "priceType", "productId", "productName"),
    *("serviceFamily", "serviceId", "serviceName", "skuId", "skuName"),
)
_TERM = re.compile(r"(?:(\w+) eq '((?:[^']|'')*)'|(contains|startswith|endswith)\((\w+), ?'((?:[^']|'')*)'\))")
_RATES = {"USD": Decimal(1), "EUR": Decimal("0.9"), "JPY": Decimal(150)}


@dataclass
class Feed:
    """The prices of a region. A test sets the fields.

    ``prices``: dollars an hour by size and priority, as a Subscription has them; ``unpriced``: sizes without a row;
    ``extra``: further rows, as they are on the wire; ``calls``: the queries that came.
    """

    clock: Clock = field(default_factory=Clock)
    faults: Faults = field(default_factory=Faults)
    region: str = "westeurope"
    prices: dict[tuple[str, str], Decimal] = field(default_factory=list_prices)
    unpriced: set[str] = field(default_factory=set)
    extra: list[Body] = field(default_factory=list)
    page: int = 1000
    calls: list[Mapping[str, str]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def rows(self) -> Iterator[Body]:
        """Every row; one size has many."""
        for size in sorted({name for name, _ in self.prices} - self.unpriced):
            yield from self._of(size)
        yield from self.extra

    def _of(self, size: str) -> Iterator[Body]:
        regular, spot = self.prices[size, "Regular"], self.prices[size, "Spot"]
        name = size.removeprefix("Standard_").replace("_", " ")
        product = f"Virtual Machines {name.split()[0]} Series"
        plan = [{"unitPrice": _number(regular * 6 / 10), "retailPrice": _number(regular * 6 / 10), "term": "1 Year"}]
        yield self._row(size, f"{name} Low Priority", product, regular * 2 / 10)
        yield self._row(size, f"{name} Spot", product, spot)
        yield self._row(size, name, product, regular, savingsPlan=plan)
        yield self._row(size, name, f"{product} Windows", regular * 3 / 2)
        yield self._row(size, f"{name} Spot", f"{product} Windows", spot * 3 / 2)
        yield self._row(size, name, product, regular * 8 / 10, type="DevTestConsumption")
        # the price of the whole term, although the unit is an hour
        yield self._row(size, name, product, regular * 5000, type="Reservation", reservationTerm="1 Year")

    def _row(self, size: str, sku: str, product: str, price: Decimal, **more: object) -> Body:
        id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{size} {sku} {product} {more.get('type')}"))
        return {
            "currencyCode": "USD",
            "tierMinimumUnits": 0.0,
            "retailPrice": _number(price),
            "unitPrice": _number(price),
            "armRegionName": self.region,
            "location": "EU West" if self.region == "westeurope" else self.region,
            "effectiveStartDate": "2026-07-01T00:00:00Z",
            "meterId": id,
            "meterName": sku,
            "productId": "DZH318Z08M00",
            "skuId": f"DZH318Z08M00/{id[:4]}",
            "productName": product,
            "skuName": sku,
            "serviceName": "Virtual Machines",
            "serviceId": "DZH313Z7MMC8",
            "serviceFamily": "Compute",
            "unitOfMeasure": "1 Hour",
            "type": "Consumption",
            "isPrimaryMeterRegion": True,
            "armSkuName": size,
            **more,
        }


def _number(price: Decimal) -> float:
    return float(round(price, 6))


class RetailServer:
    """Serves ``feed``; a test may put another one in its place."""

    def __init__(self, feed: Feed | None = None, *, tls: bool = True) -> None:
        self.feed = feed or Feed()
        self._https = HttpsServer(self.respond, lambda: self.feed.clock.now, tls=tls)
        self.url, self.certificate = self._https.url, self._https.certificate

    def __enter__(self) -> RetailServer:
        self._https.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._https.stop()

    def respond(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Answer:
        """The answer; AnswerLost when the connection is to break."""
        url, feed = urlsplit(target), self.feed
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        try:
            if (method, url.path) != ("GET", _PATH) or raw:
                raise Fault(404, "NotFound", f"this server has no call {method} {url.path}")
            with feed.lock:
                feed.calls.append(query)
                return feed.faults.around("retail_prices", feed.clock.now, lambda: self._answer(query))
        except Fault as fault:
            return Answer({"Error": {"Code": fault.code, "Message": fault.message}}, fault.status, fault.headers)

    def _answer(self, query: Mapping[str, str]) -> Answer:
        feed, version = self.feed, query.get("api-version")
        if unknown := set(query) - {"api-version", "$filter", "currencyCode", "meterRegion", "$skip"}:
            raise Fault(400, "BadRequest", f"unknown query parameters: {sorted(unknown)}")
        if version not in (None, "2021-10-01", PREVIEW):
            raise Fault(400, "BadRequest", f"the API version {version!r} does not exist")
        currency = query.get("currencyCode", "USD").strip("'")
        if currency not in _RATES:
            raise Fault(400, "BadRequest", f"the currency {currency!r} is unknown")
        if query.get("meterRegion", "'primary'") != "'primary'":
            raise Fault(400, "BadRequest", "meterRegion may only be 'primary'")
        terms = _terms(query.get("$filter", ""))
        rows = [row for row in feed.rows() if all(_holds(row, *term, version == PREVIEW) for term in terms)]
        begin = int(query.get("$skip", "0"))
        items = [_told(row, currency, version) for row in rows[begin : begin + feed.page]]
        following = None
        if begin + feed.page < len(rows):
            following = f"{self.url}{_PATH}?{urlencode({**query, '$skip': str(begin + feed.page)})}"
        who = {"BillingCurrency": currency, "CustomerEntityId": "Default", "CustomerEntityType": "Retail"}
        return Answer({**who, "Items": items, "NextPageLink": following, "Count": len(items)})


def _told(row: Body, currency: str, version: str | None) -> Body:
    told = {key: value for key, value in row.items() if key != "savingsPlan" or version == PREVIEW}
    for key in ("retailPrice", "unitPrice"):
        told[key] = float(Decimal(str(row[key])) * _RATES[currency])
    return told | {"currencyCode": currency}


def _terms(text: str) -> list[tuple[str, str, str]]:
    """Function, field and value of each term of a filter."""
    terms: list[tuple[str, str, str]] = []
    position = 0
    while position < len(text):
        if terms:
            if not text.startswith(" and ", position):
                raise Fault(400, "BadRequest", f"Invalid filter at {text[position:]!r}: ' and ' is missing")
            position += 5
        match = _TERM.match(text, position)
        if match is None:
            raise Fault(400, "BadRequest", f"Invalid filter at {text[position:]!r}: no term")
        name, value = match[1] or match[4], match[2] if match[1] else match[5]
        if name not in _FIELDS:
            raise Fault(400, "BadRequest", f"Invalid filter: no field {name!r}")
        terms.append((match[3] or "eq", name, value.replace("''", "'")))
        position = match.end()
    return terms


def _holds(row: Body, function: str, name: str, value: str, exact: bool) -> bool:
    has = str(row.get("type" if name == "priceType" else name, ""))
    if not exact:
        has, value = has.lower(), value.lower()
    match function:
        case "contains":
            return value in has
        case "startswith":
            return has.startswith(value)
        case "endswith":
            return has.endswith(value)
    return has == value
