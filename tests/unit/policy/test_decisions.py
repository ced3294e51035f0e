"""Moves, limits, capacity and sentences on their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import NodeName, PoolId, Rate, RentalId
from charterer.domain.job import PodPhase
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.domain.profile import Amdahl
from charterer.domain.rental import RentalPhase
from charterer.policy.budgets import reasons
from charterer.policy.jobs.group_key import menu_key
from charterer.policy.nodes.capacity import FreeNodes, NodesByFreeGpus
from charterer.policy.nodes.hard_limit import MARGIN_SECONDS, START_BOUND_FACTOR, Purse, exposure, reserve
from charterer.policy.nodes.holdings import held_by
from charterer.policy.nodes.placement import PoolAllocator
from charterer.policy.options.menu import Menu, Menus
from charterer.policy.options.option_value import JobPosition, OptionValues, in_place
from charterer.policy.solve.phase_dp import InPlaceResize, OptionTable
from tests.worlds import World

DOLLAR_A_SECOND = Price.parse("3600")


def option(gpus: int, speed: float, price: str = "3600", pool: str = "a") -> Option:
    each = Price(Price.parse(price).micros_per_hour * gpus)
    return Option(PoolId(pool), gpus, speed, each, 150.0, each.cost(150))


def menu(*stages: tuple[Option, ...], until: tuple[float, ...] = (1.0,), restart: float = 30.0) -> Menu:
    return Menu(stages, until, (), True, False, OptionTable.of(stages, restart))


# --- moves ------------------------------------------------------------------------------------------------------------


def test_a_move_is_charged_its_restart_in_seconds_and_dollars() -> None:
    here, to = option(1, 1.0), option(2, 1.5)
    move = OptionValues(menu((here, to)), 3.0).move(here, to, JobPosition(900.0), rented=False)
    assert move.saved_seconds == pytest.approx(900 - 600 - 30)
    assert move.cost.dollars == pytest.approx(2 * 600 + 2 * 30 - 900)
    assert move.gain == pytest.approx(3.0 * 270 - 360)


def test_nodes_that_must_be_rented_boot_while_the_job_runs_on_and_cost_only_what_it_is_wider() -> None:
    here, to, other = option(1, 1.0), option(2, 1.5), option(2, 1.5, pool="b")
    prospects = OptionValues(menu((here, to, other)), 3.0)
    for target, wider in ((to, 1), (other, 2)):
        ready, rented = (prospects.move(here, target, JobPosition(900.0), rented=rented) for rented in (False, True))
        assert rented.saved_seconds == ready.saved_seconds
        assert (rented.cost - ready.cost).dollars == pytest.approx(wider * 120)


def test_a_resize_in_place_is_charged_what_it_takes_and_anything_else_a_restart() -> None:
    one, two, four = option(4, 1.0), option(8, 1.8), option(16, 3.0)
    other = option(8, 1.8, pool="b")
    stage = (one, two, four, other)
    elastic = InPlaceResize(2.0, {PoolId("a"): 4, PoolId("b"): 4})
    prospects = OptionValues(Menu((stage,), (1.0,), (), True, False, OptionTable.of((stage,), 30.0, elastic)), 3.0)
    left = JobPosition(9000.0)
    for here, to, seconds in (
        (two, four, 2.0),
        (four, two, 2.0),
        (one, two, 30.0),
        (two, one, 30.0),
        (two, other, 30.0),
    ):
        move = prospects.move(here, to, left, rented=False)
        assert move.saved_seconds == pytest.approx(9000 / here.speed - 9000 / to.speed - seconds)
        assert move.cost.dollars == pytest.approx(
            to.gpus * (9000 / to.speed + seconds) - here.gpus * 9000 / here.speed, abs=1e-5
        )


SPEEDS = st.lists(
    st.tuples(st.integers(1, 64), st.floats(0.1, 50.0)), min_size=1, max_size=8, unique_by=lambda one: one[0]
)


@given(SPEEDS, st.floats(0.0, 50.0), st.floats(1.0, 1e6), st.floats(0.0, 150.0), st.sampled_from((None, 0.0, 10.0)))
def test_the_quick_search_finds_exactly_the_moves_that_gain(
    found: list[tuple[int, float]], worth: float, work: float, restart: float, resize: float | None
) -> None:
    options = tuple(option(gpus, speed) for gpus, speed in found)
    in_place = None if resize is None else InPlaceResize(min(resize, restart), {PoolId("a"): 4})
    ways = OptionTable.of((options,), restart, in_place)
    here, prospects = options[0], OptionValues(Menu((options,), (1.0,), (), True, False, ways), worth)
    paying = prospects.paying(here, JobPosition(work))
    expected = [prospects.move(here, to, JobPosition(work), rented=False) for to in options[1:]]
    sure = {move.to for move in expected if move.gain > 1e-6 * work}
    assert sure <= {move.to for move in paying} <= {move.to for move in expected if move.gain > 0}
    assert [move.gain for move in paying] == sorted((move.gain for move in paying), reverse=True)


def test_only_a_change_in_the_number_of_equal_pods_is_made_in_place() -> None:
    assert in_place(option(16, 1.0), 2, option(32, 1.0), 4)
    assert not in_place(option(8, 1.0), 1, option(16, 1.0), 2)
    assert not in_place(option(16, 1.0), 2, option(32, 1.0, pool="b"), 4)
    assert not in_place(option(16, 1.0), 2, option(16, 1.0), 4)


# --- limits -----------------------------------------------------------------------------------------------------------


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


def test_exposure_is_what_an_end_costs_and_for_a_booting_node_what_is_left_of_its_reserve() -> None:
    world = World()
    world.budget()
    world.pool(price="3600", worst="3600")
    ready = world.rental()
    assert exposure(ready, 60, 10.0, world.now).dollars == 60 + MARGIN_SECONDS + 10
    booting = replace(world.rental(phase=RentalPhase.REQUESTED), reserved=Money.parse("5000"))
    assert exposure(booting, 0, 0.0, world.now).dollars == 5000
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


# --- capacity ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 8), max_size=12), st.integers(1, 8))
def test_the_fullest_node_that_fits_is_the_one_a_search_finds(free: list[int], gpus: int) -> None:
    nodes = NodesByFreeGpus()
    for at, each in enumerate(free):
        nodes.put(RentalId(f"n-{at:02}"), 8)
        nodes.put(RentalId(f"n-{at:02}"), each)
    fitting = [(each, f"n-{at:02}") for at, each in enumerate(free) if each >= gpus]
    assert nodes.fullest(gpus) == (min(fitting)[1] if fitting else None)


def test_a_job_holds_the_most_of_its_allocation_its_live_pods_and_its_unrecorded_runs() -> None:
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.rental()
    world.job("train", gpus=4)
    job = world.runs_on("train", "a100-1", gpus=4)
    rental_of = {NodeName("n-a100-1"): RentalId("a100-1"), NodeName("n-a100-2"): RentalId("a100-2")}
    assert held_by(job, rental_of) == {"a100-1": 4}
    stopping = replace(job, allocation=None)
    assert held_by(stopping, rental_of) == {"a100-1": 4}
    run = job.runs[0]
    ended = replace(run, pods=tuple(replace(pod, phase=PodPhase.FAILED) for pod in run.pods))
    assert held_by(replace(stopping, runs=(ended,)), rental_of) == {}
    assert job.allocation is not None
    assert held_by(replace(stopping, runs=(), replaced=(job.allocation,)), rental_of) == {"a100-1": 4}


def yard(ready: dict[str, int], booting: Iterable[str] = (), room: int = 0) -> PoolAllocator:
    cell = FreeNodes()
    for name, free in ready.items():
        cell.ready.put(RentalId(name), free)
    for name in booting:
        cell.booting.put(RentalId(name), 8)

    def rent(nodes: int) -> list[RentalId]:
        return [RentalId(f"new-{at}") for at in range(nodes)]

    return PoolAllocator(cell, 8, lambda nodes: None if nodes <= room else ReasonCode.POOL_FULL, rent)


def test_only_what_is_missing_is_rented() -> None:
    claim = yard({"a": 8, "b": 3}, ["c"], room=5).claim(option(32, 1.0), {}, lambda _: True)
    assert claim.placements is None
    assert claim.nodes == ("a", "c", "new-0", "new-1")


def test_a_blocked_claim_takes_nothing() -> None:
    pool = yard({"a": 8})
    assert pool.claim(option(16, 1.0), {}, lambda _: True).blocked is ReasonCode.POOL_FULL
    assert pool.claim(option(8, 1.0), {}, lambda _: True).placements is not None


def test_a_jobs_own_gpus_are_free_for_its_own_next_run_only() -> None:
    pool = yard({"a": 4})
    own = {RentalId("a"): 4}
    assert pool.look(option(8, 1.0), own)[2] == 0
    assert pool.look(option(8, 1.0), {})[2] == 1
    assert pool.claim(option(8, 1.0), own, lambda _: True).placements is not None
    assert pool.claim(option(1, 1.0), {}, lambda _: True, only_ready=True).placements is None


def test_gpus_given_up_by_a_move_are_not_free_before_the_old_pods_are_gone() -> None:
    pool = yard({"a": 0, "b": 4})
    assert pool.claim(option(4, 1.0), {RentalId("a"): 8}, lambda _: True).placements is not None
    assert pool.claim(option(8, 1.0), {}, lambda _: True, only_ready=True).placements is None


# --- sentences --------------------------------------------------------------------------------------------------------


def test_a_choice_is_explained_with_its_numbers() -> None:
    world = World()
    world.pool("a100", gpus=8, price="16", start_seconds=0.0)
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, restart_seconds=0.0)
    job = world.job("train", gpus=(4, 4, 8), profile="sft")
    menus = Menus(world.profiles, world.pools)
    key = menu_key(job, frozenset(world.profiles))
    hull = menus.hull(key, 36_000.0)
    prospects = OptionValues(menus.menu(key), 0.001)
    (narrow,), (wide,) = hull.paths
    reason = reasons.choice(narrow, prospects, 1.0, Rate(0.001), JobPosition(36_000.0), feasible=True)
    assert reason.message == (
        "4 GPUs on a100: 3.2 h for $26.00; 8 GPUs on a100 would save 68 min for $8.00, $7.11 per hour saved, "
        "budget pays up to $3.60"
    )
    wider = reasons.choice(wide, prospects, 1.0, Rate(0.001), JobPosition(36_000.0), feasible=True)
    assert (wider.why, wider.instead_of) == (ReasonCode.BUDGET_OPTIMAL, narrow)
    assert wider.seconds == pytest.approx(4050.0)
    assert wider.money.dollars == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (1200, "20 min"), (6480, "1.8 h"), (216_000, "2.5 d"), (0.4, "0 s")]
)
def test_spans_are_for_people(seconds: float, text: str) -> None:
    assert reasons.format_duration(seconds) == text
