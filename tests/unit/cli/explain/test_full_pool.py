"""``charterer explain`` where a pool is full: the limit that binds, who makes room, what one more node would change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, Rate
from charterer.domain.job import ResizePolicy
from charterer.domain.profile import PowerLaw
from charterer.policy.planner import plan
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def full(*, max_nodes: int = 2) -> World:
    """Two nodes that two jobs have, one of which may have less; a short job, and one that needs two nodes, wait."""
    world = World()
    budget = world.budget(amount="40000")
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(20.0 / 3600.0))
    world.pool("a100", gpus=8, price="16", max_nodes=max_nodes)
    world.profile("sft", PowerLaw(0.7, 1.0), work_hours=8)
    world.profile("short", PowerLaw(0.9, 1.0), work_hours=1)
    for name, gpus, resize in (("wide", (2, 8, 8), ResizePolicy.RESTART), ("fixed", 8, ResizePolicy.NEVER)):
        rental = world.rental()
        world.job(name, gpus=gpus, profile="sft", resize=resize, age_seconds=9000)
        world.runs_on(name, rental.id, gpus=8, speed=4.3)
    world.job("short", gpus=4, profile="short", age_seconds=600)
    world.job("gang", gpus=16, profile="sft", age_seconds=500)
    return world


def said(world: World, monkeypatch: pytest.MonkeyPatch, job: str) -> str:
    return " ".join(charterer_over(world, monkeypatch)("explain", job).stdout.split())


def test_a_job_for_which_room_is_made_says_by_whom_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(full(), monkeypatch, "short")
    assert "a100 has all 2 nodes that spec.maxNodes allows, and running jobs go on with fewer GPUs to make room" in text
    assert "(team/wide)" in text
    assert "With one more node of a100, it would start on 4 GPUs on a100." in text


def test_a_gang_says_that_one_more_node_is_not_enough_for_it_and_how_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full()
    world.carry_out(plan(world.snapshot()))
    world.passes(5.0)
    text = said(world, monkeypatch, "gang")
    assert "It waits (PoolFull)" in text
    assert "With one more node of a100, nothing would change for it now; 1 other job would start (team/short)." in text
    assert "With 2 more nodes of a100, it would start on 16 GPUs on a100." in text
    (one, two) = json.loads(charterer_over(world, monkeypatch)("explain", "gang", "-o", "json").stdout)["moreNodes"]
    assert (one["nodes"], one["option"], one["otherJobs"]) == (1, None, ["team/short"])
    assert (two["nodes"], two["option"]["gpus"]) == (2, 16)


def test_a_job_that_gets_its_gpus_with_this_plan_does_not_say_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(max_nodes=4)
    world.rental()
    del world.jobs[JobId("gang")]
    text = said(world, monkeypatch, "short")
    assert "It starts now (" in text
    assert "more node" not in text
