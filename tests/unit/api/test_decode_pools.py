"""Reading GPUPools and GPURentals."""

from __future__ import annotations

import pytest

from charterer.api import decode
from charterer.clouds.fake import FakeGroup
from charterer.domain.errors import InvalidObject
from charterer.domain.money import Money, Price
from charterer.domain.pool import CapacityType
from charterer.domain.rental import RentalPhase
from tests.unit.api import values


class TestGPUPool:
    def test_a_smallest_pool_has_the_documented_defaults(self) -> None:
        pool = decode.pool(values.raw_pool())
        assert (pool.cloud, pool.max_nodes) == (FakeGroup("http://127.0.0.1:1", "a100"), 6)
        assert (pool.capacity_type, pool.start_seconds, pool.cooldown_seconds) == (CapacityType.ON_DEMAND, 120, 60)
        assert (pool.offering, pool.quote, pool.cooled, pool.guarded) == (None, None, (), False)

    @pytest.mark.parametrize(
        ("price", "listed", "paid"),
        [
            ({}, 10_000_001, 10_000_001),
            ({"adjustment": "-10%"}, 10_000_005, 9_000_005),
            ({"adjustment": "+2.5%"}, 10_000_000, 10_250_000),
            ({"hourly": "19.80"}, 10_000_000, 19_800_000),
        ],
    )
    def test_what_is_really_paid_follows_from_the_list_price(
        self, price: dict[str, str], listed: int, paid: int
    ) -> None:
        assert decode.pool(values.raw_pool(price=price)).priced(Price(listed)) == Price(paid)

    @pytest.mark.parametrize(
        ("status", "generation", "trouble"),
        [("False", 3, "check the pool's endpoint"), ("True", 3, ""), ("Unknown", 3, ""), ("False", 2, "")],
    )
    def test_its_trouble_is_what_its_condition_ready_says_of_this_generation(
        self, status: str, generation: int, trouble: str
    ) -> None:
        ready = {
            "type": "Ready",
            "status": status,
            "reason": "Unreachable",
            "message": "check the pool's endpoint",
            "observedGeneration": generation,
        }
        assert decode.pool(values.raw_pool({"conditions": [ready]})).trouble == trouble


class TestGPURental:
    def test_a_new_rental_is_requested(self) -> None:
        rental = decode.rental(values.raw_rental())
        assert (rental.phase, rental.instance, rental.reserved) == (RentalPhase.REQUESTED, None, Money(12_000_000))

    def test_one_made_for_an_unasked_instance_knows_it_from_the_start(self) -> None:
        assert decode.rental(values.raw_rental(instance="i-7")).instance == "i-7"


def test_a_pool_without_a_cloud_is_named() -> None:
    with pytest.raises(InvalidObject) as caught:
        decode.pool(values.raw("GPUPool", {"maxNodes": 6}))
    problem = caught.value.problem
    assert (problem.field, problem.reason, problem.message) == (
        "spec",
        "NoCloud",
        "set exactly one of fake, karpenter, aws, azure, gcp, existing",
    )
