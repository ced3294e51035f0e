"""What an hour of a job may cost where its budget does not say: no cheap pool lowers it, and none of an absurd price
makes every job's time absurdly dear."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pool import NO_LAUNCHES, NOTHING_COUNTED, NodeStart
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.estimate.waits import with_start
from charterer.policy.options.menu import counted_prices, default_ceiling
from charterer.policy.planner import plan, solve_budgets
from tests import lanes
from tests.worlds import World

PRICES = st.sampled_from(["0.40", "1.00", "2.48", "4.00", "9.00"])


def sold(pool: str, gpu_hour: str, speed: float = 1.0) -> list[Option]:
    """One to eight GPUs of a pool, each as fast as ``speed`` GPUs of the reference."""
    return [Option(PoolId(pool), gpus, speed * gpus, Price.parse(gpu_hour).for_gpus(gpus, 1)) for gpus in (1, 2, 4, 8)]


def hourly(options: list[Option], preferred: int = 4) -> float:
    return default_ceiling(counted_prices(options, preferred), preferred) * 3600.0


def test_it_is_five_times_an_hour_of_the_job_as_asked_for() -> None:
    assert hourly(sold("a", "2.00")) == pytest.approx(5 * 4 * 2.0)
    assert hourly(sold("a", "2.00"), preferred=16) == pytest.approx(5 * 16 * 2.0)


@given(PRICES, st.sampled_from(["0.10", "0.25", "0.40"]), st.sampled_from([0.1, 1.0, 3.0]))
def test_a_cheap_pool_does_not_lower_it(price: str, cheap: str, speed: float) -> None:
    if float(price) <= 4 * float(cheap):
        assert hourly(sold("a", price) + sold("spot", cheap, speed)) >= hourly(sold("a", price)) * (1 - 1e-9)


def test_a_cheaper_price_of_a_slower_type_is_no_measure_for_a_fast_one() -> None:
    assert hourly(sold("h100", "4.00", 10.0) + sold("t4", "0.10")) == pytest.approx(hourly(sold("h100", "4.00", 10.0)))


def test_a_pool_of_an_absurd_price_counts_for_four_times_one_that_is_as_fast() -> None:
    assert hourly(sold("a", "2.00") + sold("b", "900.00")) == pytest.approx(4 * hourly(sold("a", "2.00")))


def gave_one(world: World, pool: str, *, ended: bool = False) -> None:
    """A node of the pool became ready once, or was launched and has ended."""
    ready = with_start(NO_LAUNCHES, NodeStart(world.now, world.now, world.now))
    counts = {"lifetimes": replace(NOTHING_COUNTED, at=world.now)} if ended else {"launches": ready}
    world.pools[PoolId(pool)] = replace(world.pools[PoolId(pool)], **counts)


def of_budget(world: World) -> tuple[float, float]:
    """The budget's rate in dollars for an hour saved, and the jobs an hour that its amount is taken to be for."""
    (verdict,) = plan(world.snapshot()).budgets.values()
    assert verdict.rate is not None
    return verdict.rate * 3600.0, verdict.arrivals.per_hour


def with_a100(profile: str | None) -> World:
    """A job of four GPUs that may use a pool of A100s."""
    world = World()
    world.budget(amount="900000")
    world.pool("a100", gpus=8, price="16", gpu_type="NVIDIA-A100-SXM4-80GB")
    faster = SpeedCurve("NVIDIA-H200", Amdahl(0.95, 2.0))
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="NVIDIA-A100-SXM4-80GB", work_hours=40, others=[faster])
    world.job("one", gpus=(1, 4, 4), profile=profile)
    return world


@pytest.mark.parametrize("profile", [None, "sft"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_pool_that_never_gave_a_node_raises_no_rate(profile: str | None, ended: bool) -> None:
    world = with_a100(profile)
    alone, _ = of_budget(world)
    world.pool("h200", gpus=8, price="60", gpu_type="NVIDIA-H200")
    with_both, _ = of_budget(world)
    assert with_both > 2 * alone  # nothing is known of either
    gave_one(world, "a100", ended=ended)
    assert of_budget(world)[0] == pytest.approx(alone)
    gave_one(world, "h200", ended=ended)
    assert of_budget(world)[0] == pytest.approx(with_both)


def test_nor_does_it_change_for_how_many_jobs_an_amount_is_taken_to_be_made() -> None:
    world = with_a100("sft")
    _, alone = of_budget(world)
    world.pool("h200", gpus=8, price="60", gpu_type="NVIDIA-H200")
    assert of_budget(world)[1] < 0.9 * alone
    gave_one(world, "a100")
    assert of_budget(world)[1] == pytest.approx(alone, rel=0.01)


def zones(prices: list[str], nodes: int) -> World:
    """Much money, jobs that could use many GPUs, and zones that sell the same GPUs; the first one has few nodes."""
    world = World()
    world.budget(amount="900000")
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40)
    for number, price in enumerate(prices):
        world.pool(f"zone-{number}", price=price, gpu_type="a100", max_nodes=nodes if number == 0 else 100)
    for number in range(6):
        world.job(f"job-{number}", gpus=(1, 4, 64), profile="sft")
    return world


def mean_seconds(world: World) -> float:
    (solution,) = solve_budgets(world.snapshot())
    (assignment,) = solution.assignments.values()
    return sum(assigned.fraction * assigned.seconds for assigned in assignment.assigned_paths)


@settings(max_examples=lanes.examples(20))
@given(
    prices=st.lists(st.sampled_from(["4.00", "8.00", "12.00", "16.00"]), min_size=1, max_size=2),
    nodes=st.sampled_from([2, 4, 100]),
)
def test_with_money_left_a_further_cheaper_zone_or_more_nodes_make_no_job_slower(prices: list[str], nodes: int) -> None:
    before = mean_seconds(zones(["16.00", *prices], nodes))
    assert mean_seconds(zones(["16.00", *prices], 2 * nodes)) <= before * 1.01
    assert mean_seconds(zones(["16.00", *prices, "4.00"], nodes)) <= before * 1.01
    dearest = mean_seconds(zones(["16.00", "16.00"], nodes))
    assert mean_seconds(zones(["4.00", "16.00"], nodes)) <= dearest * 1.01
