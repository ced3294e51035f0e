"""``charterer explain`` of a job that may have none of its options: which there are, and what rules each out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from charterer.domain.budget import Selector
from charterer.domain.ids import BudgetId, JobId, PoolId
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl
from charterer.policy.planner import plan
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

_HEADING = "Its options, cheapest first, and what rules each of them out"


def _rows(said: str) -> list[str]:
    """The rows of the table, each with single spaces."""
    _, _, table = said.partition(f"{_HEADING}\n")
    return [" ".join(line.split()) for line in table.splitlines()[1:]]


def _why(world: World, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The reason why each pool is ruled out, by its name, from the JSON output."""
    said = json.loads(charterer_over(world, monkeypatch)("explain", "train", "-o", "json").stdout)
    assert said["options"] is None
    return {each["pool"]: each["why"] for each in said["ruledOut"]}


def _limited(max_cost: str) -> World:
    """A job of 40 hours that has a curve of the only pool, and a maxCost."""
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    world.job("train", gpus=(1, 8, 8), profile="sft", max_cost=max_cost)
    return world


def test_every_option_above_max_cost_is_a_row_with_what_it_needs_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = _limited("20")
    world.pool("h100", gpus=8, price="32", gpu_type="H100")
    said = charterer_over(world, monkeypatch)("explain", "train").stdout
    rows = _rows(said)
    assert [row.split(" $")[0] for row in rows] == [
        "1 GPU on a100",
        "2 GPUs on a100",
        "4 GPUs on a100",
        "8 GPUs on a100",
        "any on h100 - - - SpeedupProfile sft has no curve of H100, or runs failed there",
    ]
    assert all("spec.maxCost: it needs $" in row and row.endswith("and $20.00 is left") for row in rows[:-1])
    told = said.partition("(1 GPU on a100) needs ")[2].partition(",")[0]
    assert f"it needs {told}, and" in rows[0]  # the same number as in the reason
    (first, *_) = json.loads(charterer_over(world, monkeypatch)("explain", "train", "-o", "json").stdout)["ruledOut"]
    assert (first["pool"], first["gpus"], first["hourly"]) == ("a100", 1, "2.00")


def test_options_above_the_max_cost_of_the_budget_for_its_jobs_name_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _limited("20")
    job, budget = world.jobs[JobId("train")], world.budgets[BudgetId("research")]
    world.jobs[job.id] = replace(job, max_cost=None)
    world.budgets[budget.id] = replace(budget, job_max_cost=job.max_cost)
    said = charterer_over(world, monkeypatch)("explain", "train").stdout
    assert "spec.jobDefaults.maxCost of GPUBudget research is $20.00, and the cheapest way to finish" in said
    assert "set the job's own spec.maxCost to $" in said
    assert all("spec.jobDefaults.maxCost of GPUBudget research: it needs $" in row for row in _rows(said))


def test_time_and_cost_are_not_told_of_a_job_whose_size_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    world.job("train", gpus=8, max_cost="1")
    (row,) = _rows(charterer_over(world, monkeypatch)("explain", "train").stdout)
    assert row.startswith("8 GPUs on a100 $16.00 - - spec.maxCost: it needs $")


def test_every_pool_without_an_option_says_which_field_rules_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(pools=Selector((("team", "a"),)))
    world.pool("type", gpu_type="T4", labels={"team": "a"})
    world.pool("spot", gpu_type="A100", capacity=CapacityType.SPOT, labels={"team": "a"})
    world.pool("small", gpu_type="A100", gpus=4, max_nodes=2, labels={"team": "a"})
    world.pool("unpriced", gpu_type="A100", labels={"team": "a"})
    world.pool("leaving", gpu_type="A100", labels={"team": "a"})
    world.pool("others", gpu_type="A100")
    world.pools[PoolId("unpriced")] = replace(world.pools[PoolId("unpriced")], quote=None)
    world.pools[PoolId("leaving")] = replace(world.pools[PoolId("leaving")], deleting=True)
    world.job("train", gpus=(16, 16, 32), gpu_types=("A100",))
    assert plan(world.snapshot()).jobs[JobId("train")].reason.code == "NoOption"
    assert _why(world, monkeypatch) == {
        "type": "spec.gpuTypes: a node has T4",
        "spot": "spec.spotPolicy: its nodes are spot",
        "small": "spec.gpus: it asks for 16 or more, and the pool's spec.maxNodes allows 2 nodes of 4 GPUs",
        "unpriced": "no price of a node is known: see the pool's condition Ready",
        "leaving": "GPUPool leaving is being deleted",
        "others": "spec.poolSelector of GPUBudget research leaves the pool out",
    }


def test_a_range_between_two_widths_of_a_pool_is_told_the_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8)
    world.job("train", gpus=(9, 10, 12))
    offered = "the pool offers 1, 2, 4 GPUs of a node, or whole nodes of 8"
    assert _why(world, monkeypatch) == {"a100": f"spec.gpus: it asks for 9 to 12, and {offered}"}


def test_a_job_of_unknown_speed_is_told_that_it_gets_no_more_than_it_prefers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=4)
    world.job("train", gpus=(5, 6, 8))
    told = "spec.gpus.preferred: its speed is not known, so it gets 6 GPUs at most"
    assert _why(world, monkeypatch) == {"a100": told}


def test_a_job_that_may_have_its_options_has_no_such_table(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8)
    world.job("train", gpus=(1, 8, 8))
    assert _HEADING not in charterer_over(world, monkeypatch)("explain", "train").stdout


def test_an_option_that_would_be_better_and_costs_more_than_max_cost_says_so_under_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = json.loads(charterer_over(_limited("90"), monkeypatch)("explain", "train", "-o", "json").stdout)[
        "options"
    ]
    nodes = {option["gpus"]: (option["rank"], option["nodes"]) for option in options}
    assert nodes[4][0] == "chosen"
    assert nodes[8] == ("better", "above maxCost")
