"""Reserves, exposures and the purse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import RentalId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import RentalPhase
from charterer.policy.nodes.limits import MARGIN_SECONDS, START_BOUND_FACTOR, Purse, exposure, reserve
from tests.worlds import World

DOLLAR_A_SECOND = Price.parse("3600")


def test_a_reserve_covers_the_start_or_the_minimum_and_the_end_at_the_worst_price() -> None:
    world = World()
    short = world.pool("short", worst="3600", start_seconds=100.0)
    long = world.pool("long", worst="3600", start_seconds=100.0, billing_minimum=7200)
    assert reserve(short, 60).dollars == START_BOUND_FACTOR * 100 + 60 + MARGIN_SECONDS
    assert reserve(long, 60).dollars == 7200 + 60 + MARGIN_SECONDS


def test_a_pool_without_a_quote_can_reserve_nothing() -> None:
    world = World()
    with pytest.raises(ValueError, match="GPUPool a100 has no quote"):
        reserve(replace(world.pool("a100"), quote=None), 60)


def test_a_reserve_is_rounded_up_to_the_cent() -> None:
    world = World()
    assert reserve(world.pool("a100", price="19.80", start_seconds=60), 61).decimal() == "2.32"


def test_exposure_is_what_an_end_costs_and_for_a_booting_node_what_is_left_of_its_reserve() -> None:
    world = World()
    world.budget()
    world.pool(price="3600", worst="3600")
    ready = world.rental()
    assert exposure(ready, 60, 10.0, world.now).dollars == 60 + MARGIN_SECONDS + 10
    booting = replace(world.rental(phase=RentalPhase.REQUESTED), reserved=Money.parse("5000"))
    assert exposure(booting, 0, 0.0, world.now).dollars == 5000


def test_a_price_that_was_raised_above_the_one_reserved_for_counts_instead() -> None:
    world = World()
    world.budget()
    world.pool(price="3600", worst="3600")
    dear = (PriceSegment(world.now, Price.parse("7200")),)
    ready = replace(world.rental(), segments=dear)
    assert exposure(ready, 60, 10.0, world.now).dollars == 2 * (60 + MARGIN_SECONDS + 10)
    booting = replace(world.rental(phase=RentalPhase.REQUESTED), reserved=Money.parse("5000"), segments=dear)
    assert exposure(booting, 0, 0.0, world.now).dollars == 10_000
    assert exposure(replace(ready, phase=RentalPhase.ENDED), 60, 0.0, world.now) == ZERO


def test_the_purse_refuses_what_the_limits_cannot_bear() -> None:
    purse = Purse(Money.parse("10000"), Price.parse("7200"), Money.parse("5000"))
    assert purse.refusal(DOLLAR_A_SECOND, Money.parse("1000"), 1) is None
    assert purse.refusal(DOLLAR_A_SECOND, Money.parse("1000"), 3) is ReasonCode.HOURLY_LIMIT
    assert purse.refusal(DOLLAR_A_SECOND, Money.parse("4900"), 1) is ReasonCode.HARD_LIMIT
    purse.hold(RentalId("a-1"), DOLLAR_A_SECOND, Money.parse("4800"))
    assert purse.committed.dollars == 9800
    assert not purse.must_release
    purse.hold(RentalId("a-1"), DOLLAR_A_SECOND, Money.parse("4960"))
    assert purse.must_release


def test_a_job_with_a_long_grace_is_not_hosted_near_the_limit() -> None:
    purse = Purse(Money.parse("10000"), None, ZERO)
    purse.hold(RentalId("a-1"), DOLLAR_A_SECOND, Money.parse("9000"))
    assert purse.host([(RentalId("a-1"), Money.parse("9100"))])
    assert not purse.host([(RentalId("a-1"), Money.parse("9990"))])
    assert purse.committed.dollars == 9100


def test_a_job_with_a_long_grace_is_not_hosted_near_the_limit_of_a_budget_above() -> None:
    above, purse = Purse(Money.parse("9500"), None, ZERO), Purse(Money.parse("10000"), None, ZERO)
    purse.draws_on([above])
    purse.hold(RentalId("a-1"), DOLLAR_A_SECOND, Money.parse("9000"))
    assert purse.host([(RentalId("a-1"), Money.parse("9100"))])
    assert not purse.host([(RentalId("a-1"), Money.parse("9600"))])
    assert purse.committed.dollars == above.committed.dollars == 9100
