"""A node that holds a job up is replaced once, when that pays; runs that do not advance are stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import ResizePolicy, RunOutcome, RunRecord
from charterer.domain.plan import Allocate, Plan, ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.reports import Bottleneck, BottleneckKind, Progress
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, simple, why
from tests.worlds import World

TRAIN = JobId("train")


def slow(value: float = 1.4, pod: int = 1, rental: str = "a100-2") -> Bottleneck:
    lost = 1.0 - 1.0 / value
    return Bottleneck(BottleneckKind.SLOW_WORKER, 1, value, lost, lost, pod, RentalId(rental))


def held_up(hours: float = 20.0, **changes: object) -> World:
    """A job of three nodes, the second of which is slow."""
    world = simple()
    for _ in range(3):
        world.rental()
    world.job("train", gpus=24, profile="sft", hours_left=hours)
    job = world.runs_on("train", "a100-1", "a100-2", "a100-3", gpus=24, speed=24**0.9)
    world.passes(600.0)
    facts: dict[str, object] = {"resize": ResizePolicy.RESTART, "bottlenecks": (slow(),), **changes}
    world.jobs[TRAIN] = replace(job, **facts)  # type: ignore[arg-type]
    return world


def places(decided: Plan) -> list[str]:
    allocated = [command for command in decided.commands if isinstance(command, Allocate)]
    return [place.rental for command in allocated if command.allocation for place in command.allocation.placements]


def test_a_slow_node_is_replaced_by_a_new_one_for_which_the_job_does_not_wait_idly() -> None:
    world = held_up(hours=400.0)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-4"]
    assert placed(decided) == {}
    assert why(decided, "train") is ReasonCode.SLOW_NODE
    world.carry_out(decided)
    world.everything_starts()
    decided = plan(world.snapshot())
    assert sorted(places(decided)) == ["a100-1", "a100-3", "a100-4"]
    assert releases(decided) == {"a100-2": ReasonCode.SLOW_NODE}
    text = decided.jobs[TRAIN].reason.message
    assert "another node instead of a100-2, on which pod 1 computes 1.40 times as long" in text
    world.carry_out(decided)
    assert len(world.jobs[TRAIN].moves) == 1
    assert world.jobs[TRAIN].nodes_replaced == 1


def test_a_node_that_is_free_already_takes_its_place_at_once() -> None:
    world = held_up(hours=400.0)
    world.rental()
    decided = plan(world.snapshot())
    assert rents(decided) == []
    assert sorted(places(decided)) == ["a100-1", "a100-3", "a100-4"]


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes_replaced": 1},
        {"resize": ResizePolicy.NEVER},
        {"remaining": None},
        {"bottlenecks": (replace(slow(), kind=BottleneckKind.INPUT_STARVED),)},
        {"bottlenecks": (replace(slow(), recovered=0.0),)},
        {"bottlenecks": (slow(rental="a100-9"),)},
    ],
    ids=["once in its life", "it is never resized", "unknown work", "no slow node", "the next is as slow", "not its"],
)
def test_nothing_is_replaced(changes: dict[str, object]) -> None:
    world = held_up(hours=400.0, **changes)
    decided = plan(world.snapshot())
    assert rents(decided) == []
    assert ReasonCode.SLOW_NODE not in releases(decided).values()
    assert why(decided, "train") is not ReasonCode.SLOW_NODE


def test_near_its_end_a_restart_costs_more_than_the_slow_node() -> None:
    assert rents(plan(held_up(hours=1.0).snapshot())) == []


def test_the_budgets_limit_on_moves_holds() -> None:
    world = held_up(hours=400.0)
    budget = world.budgets[next(iter(world.budgets))]
    world.budgets[budget.id] = replace(budget, moves=replace(budget.moves, per_job_and_day=0))
    assert rents(plan(world.snapshot())) == []


def test_a_slow_node_is_given_back_once_nobody_uses_it() -> None:
    world = simple()
    for _ in range(2):
        world.rental(age=60.0)
    world.job("train", gpus=8, profile="sft", hours_left=20.0)
    world.runs_on("train", "a100-2", gpus=8)
    seen = replace(world.snapshot(), slow_nodes=frozenset({RentalId("a100-1"), RentalId("a100-2")}))
    decided = plan(seen)
    assert releases(decided) == {"a100-1": ReasonCode.SLOW_NODE}
    assert placed(decided) == {}


# --- runs that do not advance ---------------------------------------------------------------------------------------


def silent(seconds: float, pause: float = 0.0, run: int = 1, **changes: object) -> World:
    """A job whose run has not advanced for so long."""
    world = simple()
    world.rental()
    world.job("train", gpus=8, profile="sft", hours_left=20.0)
    job = world.runs_on("train", "a100-1", gpus=8)
    progress = Progress(run, 0.2, 100, None, world.now, advanced=world.now, longest_pause=pause, advances=3)
    facts: dict[str, object] = {"resize": ResizePolicy.RESTART, "progress": progress, **changes}
    world.jobs[TRAIN] = replace(job, **facts)  # type: ignore[arg-type]
    world.passes(seconds)
    return world


def stops(world: World) -> bool:
    decided = plan(world.snapshot())
    return placed(decided) == {"train": 0} and why(decided, "train") is ReasonCode.STALLED


def test_a_run_that_reports_no_step_for_half_an_hour_is_stopped_and_the_plan_is_made_again_then() -> None:
    world = silent(1_700.0)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert decided.again_at == after(world.now, 100.0)
    assert stops(silent(1_800.0))


@pytest.mark.parametrize(
    ("seconds", "changes", "stopped"),
    [
        (3_599.0, {"pause": 180.0}, False),
        (3_600.0, {"pause": 180.0}, True),
        (599.0, {"stall_timeout_seconds": 600.0}, False),
        (600.0, {"stall_timeout_seconds": 600.0}, True),
        (600.0, {"stall_timeout_seconds": 600.0, "resize": ResizePolicy.NEVER}, True),
        (1e6, {"stall_timeout_seconds": 0.0}, False),
        (1e6, {"resize": ResizePolicy.NEVER}, False),
        (1e6, {"progress": None}, False),
        (1e6, {"progress": Progress(1, 0.2, 100, None, simple().now)}, False),
        (1e6, {"progress": Progress(1, None, None, 8.0, simple().now, advanced=simple().now, advances=3)}, False),
    ],
    ids=[
        "within twenty pauses",
        "beyond",
        "within its own time",
        "its own time",
        "though never resized",
        "switched off",
        "it may have no checkpoint",
        "it never reports",
        "a new process has not heard of it",
        "it reports nothing that moves",
    ],
)
def test_how_long_a_run_may_stand_still(seconds: float, changes: dict[str, float], stopped: bool) -> None:
    assert stops(silent(seconds, **changes)) is stopped  # type: ignore[arg-type]


def test_each_run_that_stalled_doubles_the_time() -> None:
    world = silent(3_599.0)
    job = world.jobs[TRAIN]
    assert job.allocation is not None
    past = job.allocation
    record = RunRecord(0, RunOutcome.STALLED, past.option, past.placements, past.since, past.since, "")
    world.jobs[TRAIN] = replace(job, records=(record,))
    assert not stops(world)
    world.passes(1.0)
    assert stops(world)


def test_a_run_that_never_began_to_advance_has_its_entry_time_on_top() -> None:
    world = silent(1_800.0, progress=Progress(0, 0.2, 100, None, simple().now, advances=3))
    job = world.jobs[TRAIN]
    assert job.allocation is not None
    option = replace(job.allocation.option, entry_seconds=300.0)
    world.jobs[TRAIN] = replace(job, allocation=replace(job.allocation, option=option))
    assert not stops(world)
    world.passes(300.0)
    assert stops(world)


@pytest.mark.parametrize(
    ("trained", "seconds"), [(60.0, 1_800.0), (10_800.0, 21_600.0), (1e6, 86_400.0)], ids=["floor", "twice", "a day"]
)
def test_while_it_is_not_known_how_often_a_job_reports_it_may_take_twice_what_it_has_trained(
    trained: float, seconds: float
) -> None:
    """As a script that reports after each epoch of three hours."""
    world = silent(0.0)
    world.passes(trained)
    first = Progress(1, 0.2, None, None, world.now, advanced=world.now, advances=2)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], progress=first)
    world.passes(seconds - 1.0)
    assert not stops(world)
    world.passes(1.0)
    assert stops(world)


def test_a_run_all_of_whose_ranks_have_ended_does_not_stall() -> None:
    world = silent(1_800.0)
    job = world.jobs[TRAIN]
    run = job.runs[0]
    ended = replace(run.pods[0], phase=PodPhase.SUCCEEDED)
    world.jobs[TRAIN] = replace(job, runs=(replace(run, pods=(ended,)),))
    assert not stops(world)
