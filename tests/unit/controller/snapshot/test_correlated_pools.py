"""Pools that ask for the same machines learn of one another's refusals, and no others do."""

from __future__ import annotations

from dataclasses import replace

from charterer.controller.snapshot.pools import with_correlated_launches
from charterer.domain.ids import PoolId
from charterer.domain.pool import NO_LAUNCHES, CapacityType, NodeStart, Pool
from charterer.estimate.waits import expected_wait, with_refusal, with_start
from tests import factory as make
from tests.unit.controller.snapshot.test_refusal_scope import aws

NOW = make.at(7 * 86_400)
REFUSED = with_refusal(NO_LAUNCHES, make.at(0))


def waits(*pools: Pool) -> set[str]:
    """The pools of which a wait is expected."""
    found = with_correlated_launches({pool.id: pool for pool in pools})
    return {name for name, pool in found.items() if expected_wait(pool.known_launches, NOW).seconds > 0.0}


def test_pools_of_the_same_type_and_zone_expect_the_same_wait_and_no_others_do() -> None:
    first = aws("a", launches=REFUSED)
    others = (
        aws("other-zone", zones="us-east-1b"),
        aws("wider", zones="us-east-1a,us-east-1b"),
        aws("other-type", "p5.48xlarge"),
        aws("spot", capacity_type=CapacityType.SPOT),
        make.pool(id=PoolId("fake")),
        aws("off", learns_waits=False),
    )
    assert waits(first, aws("b"), *others) == {"a", "b"}


def test_what_both_saw_of_an_hour_counts_once() -> None:
    alone = expected_wait(REFUSED, NOW)
    pools = {name: aws(name, launches=REFUSED) for name in (PoolId("a"), PoolId("b"))}
    found = with_correlated_launches(pools)
    assert {expected_wait(pool.known_launches, NOW) for pool in found.values()} == {alone}


def test_starts_stay_each_pools_own() -> None:
    slow = with_start(REFUSED, NodeStart(make.at(0), make.at(0), make.at(900)))
    found = with_correlated_launches(
        {pool.id: pool for pool in (aws("a", launches=slow), aws("b", launches=NO_LAUNCHES))}
    )
    assert found[PoolId("b")].likely_start_seconds == 120.0 < found[PoolId("a")].likely_start_seconds


def test_fake_groups_of_one_gpu_type_have_stocks_of_their_own() -> None:
    first = make.pool(launches=REFUSED)
    assert waits(first, replace(first, id=PoolId("b"), launches=NO_LAUNCHES)) == {"a100"}
