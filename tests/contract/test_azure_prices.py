"""Prices of pools of Azure, from the feed of retail prices, which has many rows for one size."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.providers.errors import InvalidRequest, Transient, UnknownCode
from tests.clouds.azure.protocol import Fault
from tests.contract.azure_pools import SIZE, AzureMarket
from tests.contract.conftest import OpenAzure

spot = CapacityType.SPOT


def another_row(m: AzureMarket, **fields: Any) -> None:
    """One more row of the size, like its plain one but for these fields."""
    plain = next(
        row
        for row in m.feed.rows()
        if (row["armSkuName"], row["type"], row["skuName"]) == (SIZE, "Consumption", "ND96asr v4")
        and "Windows" not in row["productName"]
    )
    m.feed.extra.append({key: value for key, value in {**plain, **fields}.items() if key != "savingsPlan"})


@pytest.mark.parametrize("kind", ["uniform", "flexible", "aks"])
async def test_the_plain_price_is_found_among_many_rows(azure_market: OpenAzure, kind: str) -> None:
    quote = await (m := azure_market(kind)).provider.quote(m.pool)
    assert (quote.price, quote.worst) == (Price.parse("27.197"), Price.parse("27.197"))
    assert (quote.billing_minimum_seconds, quote.source) == (0, "Azure retail prices of westeurope")
    assert m.feed.calls[0]["currencyCode"] == "USD"


async def test_a_spot_node_never_costs_more_than_on_demand(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", spot)
    quote = await m.provider.quote(m.pool)
    assert (quote.price, quote.worst) == (Price.parse("10.8788"), Price.parse("27.197"))


async def test_prices_are_read_without_credentials(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    await m.survey()
    m.sub.expired = {"token"}
    assert (await m.provider.quote(m.pool)).price == Price.parse("27.197")


async def test_prices_are_kept_for_a_while(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    for _ in range(3):
        await m.provider.quote(m.pool)
    assert len(m.feed.calls) == 1
    m.feed.prices[SIZE, "Regular"] = Decimal("30")
    m.sub.clock.advance(6 * 3600)
    assert (await m.provider.quote(m.pool)).price == Price.parse("30")


async def test_pages_of_prices_are_followed(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", spot)
    m.feed.page = 2
    assert (await m.provider.quote(m.pool)).price == Price.parse("10.8788")
    assert len(m.feed.calls) > 1


async def test_a_newer_price_replaces_the_one_before_from_its_day_on(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    another_row(m, retailPrice=31.0, effectiveStartDate="2026-10-01T00:00:00Z")
    another_row(m, retailPrice=35.0, effectiveStartDate="2026-12-01T00:00:00Z")
    another_row(m, retailPrice=25.0, effectiveStartDate="2025-01-01T00:00:00Z")
    assert (await m.provider.quote(m.pool)).price == Price.parse("31")


async def test_another_meter_that_is_newer_is_another_price(azure_market: OpenAzure) -> None:
    """Which of two is the node's nobody knows: the newer one is no newer price of the other."""
    m = azure_market("uniform")
    another_row(m, retailPrice=31.0, meterId="another", effectiveStartDate="2026-09-01T00:00:00Z")
    with pytest.raises(InvalidRequest, match=r"has 2 prices of .* on demand: set spec.price.hourly"):
        await m.provider.quote(m.pool)


async def test_two_prices_are_none(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    another_row(m, retailPrice=31.0)
    with pytest.raises(InvalidRequest, match=r"has 2 prices of .* on demand: set spec.price.hourly"):
        await m.provider.quote(m.pool)


@pytest.mark.parametrize(
    "fields",
    [
        {"isPrimaryMeterRegion": False},
        {"tierMinimumUnits": 100.0},
        {"unitOfMeasure": "1/Month"},
        {"effectiveEndDate": "2026-08-01T00:00:00Z"},
        {"type": "DevTestConsumption"},
        {"productName": "ND96asr Series CloudServices", "effectiveStartDate": "2026-09-01T00:00:00Z"},
        {"productName": "Azure Machine Learning ND96asr"},
        {"productName": "Virtual Machines ND96asr Series Windows"},
    ],
)
async def test_rows_that_are_no_price_of_an_hour_are_left_out(azure_market: OpenAzure, fields: dict[str, Any]) -> None:
    m = azure_market("uniform")
    another_row(m, retailPrice=1.0, **fields)
    assert (await m.provider.quote(m.pool)).price == Price.parse("27.197")


async def test_a_size_without_a_price_says_what_to_do(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.feed.unpriced.add(SIZE)
    with pytest.raises(InvalidRequest, match=r"no price of Standard_ND96asr_v4 in westeurope .*: set spec.price"):
        await m.provider.quote(m.pool)
    m = azure_market("uniform", price_override=Price.parse("20"))
    assert (await m.provider.quote(m.pool)).price == Price.parse("20")


async def test_a_price_in_another_currency_is_none(azure_market: OpenAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    m = azure_market("uniform")
    rates = {"USD": Decimal(1)}
    monkeypatch.setattr("tests.clouds.azure.retail._RATES", rates)
    told = "tests.clouds.azure.retail._told"
    monkeypatch.setattr(told, lambda row, currency, version: {**row, "currencyCode": "EUR"})
    with pytest.raises(InvalidRequest, match=r"tells the price of .* in EUR, not in USD: set spec.price.hourly"):
        await m.provider.quote(m.pool)


async def test_a_feed_that_fails_is_told_and_asked_again(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.feed.faults.fail("retail_prices", Fault(503, "ServiceUnavailable"), times=3)
    with pytest.raises(Transient):
        await m.provider.quote(m.pool)
    assert (await m.provider.quote(m.pool)).price == Price.parse("27.197")
    m.feed.faults.fail("retail_prices", Fault(400, "BadRequest"))
    m.sub.clock.advance(7 * 3600)
    with pytest.raises(UnknownCode, match="HTTP 400"):
        await m.provider.quote(m.pool)
