"""``charterer plan``: what it says of pools that are smaller than the demand for them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Price
from charterer.domain.plan import Limit, PoolVerdict
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.snapshot import OperatorLimits
from charterer.domain.time import after, parse_instant, seconds_between
from charterer.tools.commands.plan.document import pool_in_words
from tests import factory as make
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def full(near: int = 3) -> World:
    """A cheap pool with few nodes, and a dearer one."""
    world = World()
    world.budget(amount="60000")
    world.pool("near", price="16", max_nodes=near)
    world.pool("far", price="24")
    curve = SpeedCurve("far", Amdahl(0.97, 1.05))
    world.profile("sft", Amdahl(0.97, 1.0), gpu_type="near", work_hours=40, others=[curve])
    for number in range(5):
        world.job(f"j{number}", gpus=(1, 8, 32), profile="sft")
    return world


def test_a_pool_that_is_too_small_says_what_one_more_node_would_be_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(full(), monkeypatch)
    assert "pool near: all 3 nodes of spec.maxNodes are wanted; one more node is worth $" in charterer("plan").stdout
    (pool,) = json.loads(charterer("plan", "-o", "json").stdout)["scarcePools"]
    assert (pool["name"], pool["limit"], pool["nodes"], pool["jobsWait"]) == ("near", "MaxNodes", 3, False)
    assert float(pool["nodeHourWorth"]) == pytest.approx(8 * float(pool["gpuHourWorth"]), abs=1e-4)


def test_where_pools_have_room_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(full(near=40), monkeypatch)
    assert "too small" not in charterer("plan").stdout
    assert json.loads(charterer("plan", "-o", "json").stdout)["scarcePools"] == []


def test_the_operators_own_limits_are_said_with_what_counts_against_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(near=40)
    world.rental("near")
    assert json.loads(charterer_over(world, monkeypatch)("plan", "-o", "json").stdout)["operatorLimits"] is None
    charterer = charterer_over(world, monkeypatch, limits=OperatorLimits(2, Price.parse("100")))
    said = charterer("plan").stdout
    assert (
        "The operator's own limits are 2 nodes and $100.00/h in all; it has 1 node, which cost up to $16.00/h." in said
    )
    assert "pool near: the operator's own limits allow no more than 2 nodes; one more node is worth" in said
    told = json.loads(charterer("plan", "-o", "json").stdout)
    assert told["operatorLimits"] == {"nodes": 2, "hourly": "100.00", "hasNodes": 1, "hasHourly": "16.00"}
    assert "OperatorLimit" in {job["reason"] for job in told["jobs"]}
    assert sum(action["count"] for action in told["actions"] if action["action"] == "rent") == 1


def test_a_job_that_waits_for_gpus_that_are_left_soon_is_told_with_its_start_and_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(20.0 / 3600.0))
    world.pool("near", gpus=4, price="12", max_nodes=1)
    world.pool("far", gpus=4, price="2")
    curve = SpeedCurve("far", Amdahl(0.9, 0.1))
    world.profile("sft", Amdahl(0.9, 1.0), gpu_type="near", work_hours=2, others=[curve])
    world.rental("near")
    world.profile("short", Amdahl(0.9, 1.0), gpu_type="near", work_hours=1 / 3)
    world.job("first", gpus=4, profile="short", resize=ResizePolicy.NEVER)
    world.runs_on("first", "near-1", gpus=4)
    world.job("next", gpus=4, profile="sft", resize=ResizePolicy.NEVER)
    charterer = charterer_over(world, monkeypatch)
    (told,) = [job for job in json.loads(charterer("plan", "-o", "json").stdout)["jobs"] if job["name"] == "next"]
    starts, ends = parse_instant(told["startsAbout"]), parse_instant(told["endsAbout"])
    assert seconds_between(world.now, starts) == pytest.approx(1200.0, abs=1.0)
    assert seconds_between(starts, ends) == pytest.approx(told["secondsLeft"], abs=1.0)
    said = "starts about 2026-06-16T00:20Z on near"
    assert said in charterer("plan").stdout.replace("\n", " ")
    assert said in charterer("explain", "next").stdout.replace("\n", " ")
    assert "20 min until jobs that have its GPUs end" in charterer("explain", "next").stdout
    options = json.loads(charterer("explain", "next", "-o", "json").stdout)["options"]
    assert {option["pool"]: option["secondsUntilFree"] for option in options} == {"near": 1200.0, "far": 0.0}


def test_a_pool_whose_nodes_come_late_says_for_how_long_and_after_how_many_refusals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = full(near=40)
    assert "come late" not in charterer_over(world, monkeypatch)("plan").stdout
    pool = world.pools[PoolId("near")]
    cooled = make.cooled(after(world.now, -60.0), 600.0, times=4, code="InsufficientInstanceCapacity")
    world.pools[pool.id] = replace(pool, cooled=cooled)
    charterer = charterer_over(world, monkeypatch)
    late = (
        "near is expected to give a node only after 10 min (refused 4 times in a row, last at 2026-06-15T23:49Z: "
        "InsufficientInstanceCapacity)"
    )
    assert f"pool {late}" in charterer("plan").stdout
    assert f"{late}." in charterer("explain", "j0").stdout
    for command in (("plan",), ("explain", "j0")):
        (found,) = json.loads(charterer(*command, "-o", "json").stdout)["latePools"]
        assert (found["name"], found["refusedPool"], found["timesInARow"]) == ("near", "near", 4)
        assert found["expectedSeconds"] == 600.0
    options = json.loads(charterer("explain", "j0", "-o", "json").stdout)["options"]
    assert {option["pool"]: option["secondsUntilNode"] for option in options} == {"near": 600.0, "far": 0.0}


@pytest.mark.parametrize(
    ("limit", "nodes", "said"),
    [
        (Limit.MAX_NODES, 1, "pool p: its only node is wanted; one more node is worth $8.00/h beyond its price"),
        (
            Limit.STOCK,
            2,
            "pool p: the cloud has no more than 2 nodes now; one more node is worth $8.00/h beyond its price",
        ),
        (
            Limit.QUOTA,
            2,
            "pool p: the cloud's quota allows no more than 2 nodes; one more node is worth $8.00/h beyond its price",
        ),
    ],
)
def test_each_limit_is_named(limit: Limit, nodes: int, said: str) -> None:
    verdict = PoolVerdict(limit, nodes, Price.parse("1"), Price.parse("8"), short=False, payable=Price.parse("8"))
    assert pool_in_words("p", verdict) == said
    short = replace(verdict, short=True)
    assert pool_in_words("p", short) == said.replace("worth", "worth at least") + "; jobs have to wait for it"
    assert pool_in_words("p", replace(short, node_scarcity=Price(0))).endswith(", and jobs have to wait for it")
    assert pool_in_words("p", replace(verdict, payable=Price.parse("7.50"))) == said.replace(
        "worth $8.00/h beyond its price", "worth more than the $7.50/h that its budget may spend"
    )


def test_where_pools_have_room_for_a_part_of_the_load_no_amount_is_said_to_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.budget(amount="60000")
    world.pool("near", price="16", max_nodes=1)
    world.profile("sft", Amdahl(0.97, 1.0), gpu_type="near", work_hours=40, arrivals_per_hour=20.0, budget="research")
    for number in range(20):
        world.job(f"j{number}", gpus=(8, 8, 32), profile="sft")
    said = charterer_over(world, monkeypatch)("plan").stdout
    assert re.search(r"research: if jobs keep coming at this rate, pools have no room for all", said)
    assert "they queue below" not in said
    assert "more than can be used: nothing faster is worth its price\n" not in said.partition("A row is an amount")[2]


def test_money_for_which_pools_have_no_room_is_not_said_to_buy_nothing_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(amount="60000")
    world.pool("near", price="16", max_nodes=1)
    world.profile("sft", Amdahl(0.97, 1.0), gpu_type="near", work_hours=40, arrivals_per_hour=0.5, budget="research")
    for number in range(5):
        world.job(f"j{number}", gpus=8, profile="sft")
    charterer = charterer_over(world, monkeypatch)
    assert "more than can be used: pools have no room for more" in charterer("plan").stdout
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert float(budget["plannedPerHour"]) == 16.0
