"""What each kind of capacity brings: the dollars that the same jobs would cost without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import SpotPolicy, Variant
from charterer.domain.money import Money
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl, SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.planner import solve_budgets
from charterer.tools.frontier import (
    SHARED,
    SLICES,
    SPOT,
    VARIANTS,
    Frontier,
    WithoutKind,
    mean_seconds,
    without_each_kind,
)
from tests.worlds import World


def solved(world: World) -> BudgetSolution:
    (solution,) = solve_budgets(world.snapshot())
    return solution


def spot_beside_on_demand(amount: str = "60000", spot: SpotPolicy = SpotPolicy.ALLOWED, max_nodes: int = 100) -> World:
    world = World()
    world.budget(amount=amount, ceiling="1000")
    world.pool("ours", gpu_type="a100", price="16", start_seconds=0, max_nodes=max_nodes)
    world.pool("cheap", gpu_type="a100", price="4", start_seconds=0, capacity=CapacityType.SPOT)
    world.profile(
        "sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40, arrivals_per_hour=0.5, restart_seconds=0,
        budget="research",
    )  # fmt: skip
    world.job("one", gpus=(1, 8, 32), profile="sft", spot=spot)
    return world


def of_kind(world: World) -> dict[str, WithoutKind]:
    return {lost.kind: lost for lost in without_each_kind(solved(world))}


def test_without_spot_the_same_jobs_cost_as_much_more_as_its_price_is_lower() -> None:
    lost = of_kind(spot_beside_on_demand())[SPOT]
    assert lost.pools == ("cheap",)
    assert lost.others == 1
    assert lost.more is not None
    # The same widths at $16 instead of $4 a node: four times the bill.
    assert lost.more.dollars == pytest.approx(3 * lost.now.dollars, rel=1e-3)


WHOLE = "NVIDIA-A100-SXM4-80GB"


def small_jobs(cut: str) -> World:
    """Jobs as fast on a part of a GPU as on all of it, whole GPUs, and GPUs that are cut or shared."""
    world = World()
    world.budget(amount="60000", ceiling="1000")
    world.pool("whole", gpus=1, gpu_type=WHOLE, price="4", start_seconds=0)
    world.pool("parts", gpus=1, gpu_type=WHOLE, price="4", start_seconds=0, cut=cut)
    curves = (SpeedCurve(slice_type(WHOLE, cut), Amdahl(0.0, 1.0)),)
    world.profile(
        "sft", Amdahl(0.0, 1.0), gpu_type=WHOLE, others=curves, work_hours=40, arrivals_per_hour=0.5,
        restart_seconds=0, budget="research",
    )  # fmt: skip
    for number in range(8):
        world.job(f"j{number}", gpus=1, profile="sft", slices=("1g.10gb",), shared_mib=1024)
    return world


PARTS = pytest.mark.parametrize(("cut", "kind", "parts"), [("mps-2", SHARED, 2), ("1g.10gb", SLICES, 7)])


@PARTS
def test_the_amount_from_which_jobs_do_not_queue_counts_parts_of_gpus(cut: str, kind: str, parts: int) -> None:
    world = small_jobs(cut)
    least = Frontier(solved(world)).cheapest
    del world.pools[PoolId("parts")]
    assert Frontier(solved(world)).cheapest.dollars == pytest.approx(parts * least.dollars, rel=1e-6)


@PARTS
def test_without_shared_gpus_or_slices_small_jobs_pay_for_whole_ones(cut: str, kind: str, parts: int) -> None:
    found = of_kind(small_jobs(cut))
    assert set(found) == {WHOLE, kind}
    lost = found[kind]
    assert (lost.pools, lost.others) == (("parts",), 1)
    assert lost.more is not None
    assert lost.more.dollars == pytest.approx((parts - 1) * lost.now.dollars, rel=1e-3)


def graph_networks(template: bool = True) -> World:
    """Jobs that train distributed on 4 to 16 GPUs, or out of core on one, half as fast as on 4."""
    world = World()
    world.budget(amount="600", ceiling="1000")
    world.pool("ours", gpu_type="a100", gpus=1, price="4", start_seconds=0)
    own = ThroughputTable(((4, 620.0), (8, 1000.0), (16, 1550.0)))
    if template:
        world.profile(
            "gnn", own, gpu_type="a100", work_hours=2, arrivals_per_hour=0.1, restart_seconds=0, budget="research"
        )
    world.profile("gnn.outofcore", ThroughputTable(((1, 310.0),)), gpu_type="a100", work_hours=2)
    job = world.job("one", gpus=(4, 8, 16), profile="gnn")
    variant = Variant("outofcore", ClassId("team", "gnn.outofcore"), 1, 1, 1)
    world.jobs[job.id] = replace(job, variants=(variant,))
    return world


def test_without_variants_jobs_pay_for_the_widths_of_their_templates() -> None:
    lost = of_kind(graph_networks())[VARIANTS]
    assert (lost.pools, lost.impossible) == ((), 0.0)
    assert lost.more is not None
    # Nearly all train on one GPU for four hours, $16 a job. The template's cheapest width takes 4 GPUs for two: $32.
    a_month = lost.now.dollars + lost.more.dollars
    assert a_month == pytest.approx(0.1 * 24 * 30 * 32, rel=1e-3)


def test_jobs_whose_template_has_no_curve_are_no_comparison() -> None:
    lost = of_kind(graph_networks(template=False))[VARIANTS]
    assert lost.impossible > 0.0
    assert lost.now.micros == 0


def test_a_kind_that_no_job_uses_brings_nothing() -> None:
    world = spot_beside_on_demand(spot=SpotPolicy.NEVER)
    lost = of_kind(world)[SPOT]
    assert lost.more is not None
    assert lost.more.micros == 0


def test_pools_of_a_single_kind_have_nothing_to_be_compared_with() -> None:
    world = World()
    world.budget(amount="60000")
    world.pool("one", gpu_type="a100")
    world.pool("two", gpu_type="a100")
    world.job("job", gpus=8)
    assert without_each_kind(solved(world)) == ()


def test_without_the_fastest_gpu_type_no_money_makes_jobs_as_fast() -> None:
    world = World()
    world.budget(amount="600000")
    world.pool("a100", price="16", start_seconds=0)
    world.pool("h100", price="40", start_seconds=0)
    world.profile(
        "sft", Amdahl(0.95, 1.0), work_hours=40, arrivals_per_hour=0.1, budget="research",
        others=[SpeedCurve("h100", Amdahl(0.95, 3.0))],
    )  # fmt: skip
    world.job("job", gpus=(1, 8, 16), profile="sft")
    lost = of_kind(world)["h100"]
    assert lost.more is None
    assert lost.slower == pytest.approx(3.0, rel=1e-2)


def two_types(amount: str) -> World:
    """Jobs that run on an A100 at 44 % of their speed on an H100, and widen well on both."""
    world = World()
    world.budget(amount=amount)
    world.pool("a100", price="16", start_seconds=0)
    world.pool("h100", price="20", start_seconds=0)
    world.profile(
        "sft", Amdahl(0.995, 0.44), work_hours=40, arrivals_per_hour=0.1, budget="research", restart_seconds=0,
        others=[SpeedCurve("h100", Amdahl(0.995, 1.0))],
    )  # fmt: skip
    return world


@pytest.mark.parametrize("amount", ["6000", "7000", "30000"])
def test_without_a_faster_type_jobs_take_what_the_plan_gives_them_without_its_pool(amount: str) -> None:
    world = two_types(amount)
    lost = of_kind(world)["h100"]
    assert lost.slower is not None
    with_it = mean_seconds(solved(world))
    del world.pools[PoolId("h100")]
    without_it = Frontier(solved(world)).at(Money.parse(amount)).mean_seconds
    assert without_it == pytest.approx(lost.slower * (with_it or 0.0))
    assert lost.slower > 2.0


def test_without_a_cheaper_type_an_amount_may_be_too_small_for_all_jobs() -> None:
    lost = of_kind(two_types("4000"))["h100"]
    assert (lost.more, lost.slower) == (None, None)


def test_what_has_no_room_in_the_other_pools_is_said_so() -> None:
    lost = of_kind(spot_beside_on_demand(max_nodes=4))[SPOT]
    assert lost.more is None
    assert not lost.room
    assert lost.slower == 1.0


def test_jobs_that_can_run_nowhere_else_are_counted() -> None:
    world = spot_beside_on_demand()
    world.pool("h100", price="40", start_seconds=0)
    world.job("bound", gpus=8, gpu_types=("h100",))
    lost = of_kind(world)["h100"]
    assert lost.impossible > 0.0
    assert lost.more is not None
    assert lost.more.micros == 0


def test_nothing_is_said_while_jobs_queue_for_money() -> None:
    assert without_each_kind(solved(spot_beside_on_demand(amount="1"))) == ()
