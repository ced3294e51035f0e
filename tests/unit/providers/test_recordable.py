"""What a cloud says of a machine is handed over only as far as it can be recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api.models.gpurental import GPURentalRecord
from charterer.domain.billing import accrued, cost
from charterer.domain.ids import NodeName
from charterer.domain.money import Price
from charterer.domain.pool import PriceSegment, Survey
from charterer.domain.time import Instant, after
from charterer.providers.guarded import recordable
from tests import factory as make
from tests.unit.providers.slow_cloud import POOL, SlowCloud, guarded
from tests.virtual_time import run_in_virtual_time

GOOD = make.instance("i1")
OTHER = make.instance("i2")
ASKED = make.at(600)
LATER = PriceSegment(make.at(60), Price.parse("-5"))


@pytest.mark.parametrize(
    ("wrong", "left", "told"),
    [
        ({"segments": (*GOOD.segments, LATER)}, {}, "a price of"),
        ({"segments": (LATER,)}, {"segments": ()}, "a price of"),
        ({"segments": (replace(LATER, price=Price.parse("10000000")),)}, {"segments": ()}, "a price of"),
        ({"billing_minimum_seconds": 10**18}, {"billing_minimum_seconds": 0}, "a billing minimum of"),
        ({"billing_minimum_seconds": -1}, {"billing_minimum_seconds": 0}, "a billing minimum of"),
        ({"provider_id": "x" * 600}, {"provider_id": ""}, "600 characters"),
        ({"node": NodeName("n" * 300)}, {"node": None}, "300 characters"),
        ({"launched": Instant(-62_000_000_000_000_000)}, {"launched": ASKED}, "20 years"),
    ],
)
def test_a_value_out_of_bounds_is_left_out_and_told(wrong: dict[str, Any], left: dict[str, Any], told: str) -> None:
    within, faults = recordable(replace(GOOD, **wrong), ASKED)
    assert within == replace(GOOD, **left)
    [fault] = faults
    assert told in fault
    adopted = make.rental(machine=within)
    assert GPURentalRecord.model_validate(GPURentalRecord.from_domain(adopted).model_dump(mode="json", by_alias=True))


def test_a_machine_within_bounds_is_handed_over_as_it_is() -> None:
    assert recordable(GOOD, ASKED) == (GOOD, [])
    old = replace(GOOD, launched=after(ASKED, -366 * 86_400))
    assert recordable(old, ASKED) == (old, [])


def test_more_prices_than_a_record_takes_cost_what_the_bill_says() -> None:
    changes = tuple(PriceSegment(make.at(60.5 * number), Price(12_345_679 + number)) for number in range(2_500))
    within, faults = recordable(replace(GOOD, segments=changes), ASKED)
    adopted = make.rental(machine=within)
    assert GPURentalRecord.model_validate(GPURentalRecord.from_domain(adopted).model_dump(mode="json", by_alias=True))
    now = make.at(60.5 * 2_600)
    assert accrued(adopted, now) == cost(changes, GOOD.billing_minimum_seconds, GOOD.launched, now)
    assert faults == []


def test_one_machine_out_of_bounds_hides_no_other_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        listed = make.survey(replace(GOOD, provider_id="x" * 600), OTHER)
        cloud.surveys[POOL.id] = listed
        account = guarded(cloud)
        for _ in range(2):
            answer = (await account.survey([POOL]))[POOL.id]
            assert isinstance(answer, Survey)
            assert answer.instances == (replace(GOOD, provider_id=""), OTHER)
        assert caplog.text.count("instance i1 has a providerId of 600 characters") == 1

    run_in_virtual_time(main())
