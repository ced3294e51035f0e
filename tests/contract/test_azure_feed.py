"""The server of Azure's retail prices has the traps of the real one, and refuses what its grammar does not have."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import pytest

from tests.clouds.azure.protocol import throttled
from tests.clouds.azure.retail import PREVIEW, Feed, RetailServer
from tests.contract.azure_calls import SIZE
from tests.patience import PATIENCE

PLAIN = f"serviceName eq 'Virtual Machines' and armRegionName eq 'westeurope' and armSkuName eq '{SIZE}'"


@pytest.fixture(scope="module")
def shared() -> Iterator[RetailServer]:
    """One server for this file."""
    with RetailServer() as server:
        yield server


@pytest.fixture
def retail(shared: RetailServer) -> RetailServer:
    """The server with a feed of this test's own."""
    shared.feed = Feed()
    return shared


def fetch(server: RetailServer, url: str) -> Any:
    """The answer to an address."""
    with urlopen(url, context=ssl.create_default_context(cafile=str(server.certificate)), timeout=PATIENCE) as reply:
        return json.load(reply)


def ask(server: RetailServer, **query: str) -> Any:
    """The answer to a query."""
    return fetch(server, f"{server.url}/api/retail/prices?{urlencode(query, quote_via=quote)}")


def refused(server: RetailServer, **query: str) -> str:
    """With what a query is refused."""
    with pytest.raises(HTTPError) as caught:
        ask(server, **query)
    assert caught.value.code == 400
    return str(json.load(caught.value)["Error"]["Message"])


def test_one_size_has_many_rows(retail: RetailServer) -> None:
    told = ask(retail, **{"$filter": PLAIN, "api-version": PREVIEW})
    assert (told["Count"], told["BillingCurrency"], told["NextPageLink"]) == (7, "USD", None)
    rows = [(row["skuName"].rpartition(" v4")[2], row["productName"], row["type"]) for row in told["Items"]]
    product = "Virtual Machines ND96asr Series"
    assert rows == [
        (" Low Priority", product, "Consumption"),
        (" Spot", product, "Consumption"),
        ("", product, "Consumption"),
        ("", f"{product} Windows", "Consumption"),
        (" Spot", f"{product} Windows", "Consumption"),
        ("", product, "DevTestConsumption"),
        ("", product, "Reservation"),
    ]
    assert told["Items"][2]["retailPrice"] == 27.197
    assert told["Items"][2]["savingsPlan"][0]["term"] == "1 Year"


def test_filters_narrow_what_is_told(retail: RetailServer) -> None:
    consumption = f"{PLAIN} and priceType eq 'Consumption'"
    assert ask(retail, **{"$filter": consumption})["Count"] == 5
    assert ask(retail, **{"$filter": f"{consumption} and contains(meterName, 'Spot')"})["Count"] == 2
    assert ask(retail, **{"$filter": f"{PLAIN} and armRegionName eq 'eastus'"})["Count"] == 0


def test_only_the_preview_is_case_sensitive_and_has_savings_plans(retail: RetailServer) -> None:
    lower = PLAIN.replace("Virtual Machines", "virtual machines")
    assert ask(retail, **{"$filter": lower, "api-version": PREVIEW})["Count"] == 0
    told = ask(retail, **{"$filter": lower})
    assert told["Count"] == 7
    assert not any("savingsPlan" in row for row in told["Items"])


def test_other_currencies_are_converted(retail: RetailServer) -> None:
    told = ask(retail, **{"$filter": PLAIN, "currencyCode": "'EUR'"})
    assert {row["currencyCode"] for row in told["Items"]} == {"EUR"}
    assert told["Items"][2]["retailPrice"] == pytest.approx(27.197 * 0.9)


def test_long_answers_come_in_pages(retail: RetailServer) -> None:
    retail.feed.page = 3
    told, rows = ask(retail, **{"$filter": PLAIN, "currencyCode": "EUR"}), []
    while told["NextPageLink"]:
        rows += told["Items"]
        told = fetch(retail, told["NextPageLink"])
    assert len(rows + told["Items"]) == 7
    assert {row["currencyCode"] for row in rows} == {"EUR"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"$filter": "vmSize eq 'x'"}, "no field 'vmSize'"),
        ({"$filter": "armSkuName = 'x'"}, "no term"),
        ({"$filter": 'armSkuName eq "x"'}, "no term"),
        ({"$filter": "armSkuName eq 'x' armRegionName eq 'y'"}, "' and ' is missing"),
        ({"$filter": "armSkuName eq 'x' or armRegionName eq 'y'"}, "' and ' is missing"),
        ({"$filter": "armSkuName eq 'x' and "}, "no term"),
        ({"filter": "armSkuName eq 'x'"}, "unknown query parameters: ['filter']"),
        ({"currencyCode": "XYZ"}, "currency 'XYZ' is unknown"),
        ({"api-version": "2020-01-01"}, "version '2020-01-01' does not exist"),
    ],
)
def test_a_wrong_query_is_refused(retail: RetailServer, query: dict[str, str], said: str) -> None:
    assert said in refused(retail, **query)


def test_the_feed_can_throttle_and_have_no_price(retail: RetailServer) -> None:
    retail.feed.unpriced.add(SIZE)
    assert ask(retail, **{"$filter": PLAIN})["Items"] == []
    retail.feed.faults.fail("retail_prices", throttled(5))
    with pytest.raises(HTTPError) as caught:
        ask(retail, **{"$filter": PLAIN})
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "5")
