"""Allocations that cannot be Charterer's hold no GPUs and are withdrawn; Charterer's own are never doubted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.domain.budget import Selector
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.plan import Allocate, Release
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import LabelNode, RecordRun, Unsuspend
from charterer.domain.time import after
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.planner import plan
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, World

NOBODY = Selector((("team", "nobody"),), ())


def two_budgets() -> World:
    """Research pays for the namespace of all jobs, and other for none; each has a node."""
    world = World()
    world.budget("research")
    other = world.budget("other")
    world.budgets[other.id] = replace(other, selector=NOBODY)
    world.pool(gpus=8)
    world.rental(budget="research")
    world.rental(budget="other")
    world.job("train", gpus=8)
    return world


def placed(world: World, *rentals: str, gpus: int = 8, since: float = 0.0) -> None:
    """The job's status says that it was given these nodes."""
    world.runs_on("train", rentals[0], gpus=gpus)
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    places = tuple(Placement(RentalId(rental), gpus) for rental in rentals)
    forged = replace(job.allocation, placements=places, since=after(world.now, since))
    world.jobs[job.id] = replace(job, allocation=forged, runs=())


def look(world: World) -> Snapshot:
    seen = replace(seen_of(world), surveys=world.snapshot().surveys, refusals={JobId("train"): ""})
    return observe(seen, world.now)


def doubts(world: World) -> list[str]:
    return [doubt.why.partition(": ")[2] for doubt in look(world).jobs[JobId("train")].doubts]


def test_a_node_that_another_budget_pays_for_is_not_held_by_what_a_status_says() -> None:
    world = two_budgets()
    placed(world, "a100-2")
    assert doubts(world) == [
        "GPURental a100-2 belongs to GPUBudget other, and GPUBudget research pays for the job's namespace"
    ]
    seen = look(world)
    (problem,) = [problem for problem in seen.problems if problem.reason == "NotBelieved"]
    assert (problem.kind, problem.namespace, problem.name) == ("TrainingJob", NAMESPACE, "train")
    commands = plan(seen).commands
    assert [command.reason.code for command in commands if isinstance(command, Allocate)] == ["NotBelieved"]
    assert RentalId("a100-2") in {command.rental for command in commands if isinstance(command, Release)}


def test_the_job_is_planned_anew_once_what_was_not_believed_is_on_record() -> None:
    world = two_budgets()
    placed(world, "a100-2")
    for command in plan(look(world)).commands:
        if isinstance(command, Allocate):
            world.write(command)
    (step,) = [step for step in next_steps(look(world))[0].values() if isinstance(step, RecordRun)]
    assert "is not believed" in step.record.message
    assert step.record.placements == ()
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, replaced=(), records=(step.record,))
    (placed_anew,) = [command for command in plan(look(world)).commands if isinstance(command, Allocate)]
    assert placed_anew.allocation is not None
    assert [place.rental for place in placed_anew.allocation.placements] == ["a100-1"]


def test_no_label_is_set_and_no_run_begins_on_a_node_of_another_budget() -> None:
    world = two_budgets()
    world.runs_on("train", "a100-2", gpus=8)
    job = world.jobs[JobId("train")]
    waiting = replace(job.runs[0], suspended=True, started=None, pods=())
    world.jobs[job.id] = replace(job, runs=(waiting,), has_service=True)
    steps = next_steps(look(world))[0].values()
    assert not [step for step in steps if isinstance(step, LabelNode | Unsuspend)]


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"gpus": 9}, "it names 9 GPUs of GPURental a100-1, whose node has 8"),
        ({"since": 7200.0}, "it was decided at 2026-06-16T02:00:00Z, which is yet to come"),
    ],
)
def test_more_than_a_node_has_and_what_is_yet_to_come_are_not_believed(forged: dict[str, Any], why: str) -> None:
    world = two_budgets()
    placed(world, "a100-1", **forged)
    assert doubts(world) == [why]


def test_an_honest_allocation_is_believed_before_and_while_its_run_runs() -> None:
    world = two_budgets()
    placed(world, "a100-1")
    assert doubts(world) == []
    world.runs_on("train", "a100-1", gpus=8)
    assert doubts(world) == []


def test_a_run_goes_on_when_its_namespace_is_given_to_another_budget() -> None:
    world = two_budgets()
    world.runs_on("train", "a100-1", gpus=8)
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], selector=NOBODY)
    assert doubts(world) == []
    world.budgets[BudgetId("other")] = replace(world.budgets[BudgetId("other")], selector=Selector((), ()))
    assert doubts(world) == []
    assert not [command for command in plan(look(world)).commands if isinstance(command, Allocate)]


def test_a_run_that_grows_in_place_goes_on_when_its_namespace_is_given_to_another_budget() -> None:
    world = two_budgets()
    world.rental(budget="research")
    world.runs_on("train", "a100-1", gpus=8)
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    grown: Allocation = replace(
        job.allocation,
        option=replace(job.allocation.option, gpus=16),
        placements=(*job.allocation.placements, Placement(RentalId("a100-3"), 8)),
    )
    world.jobs[job.id] = replace(job, allocation=grown)
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], selector=NOBODY)
    world.budgets[BudgetId("other")] = replace(world.budgets[BudgetId("other")], selector=Selector((), ()))
    assert len(doubts(world)) == 1
    stops = [c for c in plan(look(world)).commands if isinstance(c, Allocate) and c.reason.code == "NotBelieved"]
    assert stops == []


@pytest.mark.parametrize("gone", ["rental", "pool", "budget"])
def test_what_is_not_seen_yet_or_not_any_more_makes_no_doubt(gone: str) -> None:
    world = two_budgets()
    placed(world, "a100-1")
    seen = replace(seen_of(world), refusals={JobId("train"): ""})
    match gone:
        case "rental":
            seen = replace(seen, rentals={})
        case "pool":
            seen = replace(seen, pools={})
        case _:
            seen = replace(seen, budgets={key: kept for key, kept in seen.budgets.items() if kept.id != "research"})
    assert ObjectKey(NAMESPACE, "train") in seen.jobs
    assert observe(seen, world.now).jobs[JobId("train")].doubts == ()


def test_the_node_of_a_run_whose_job_cannot_be_read_is_kept() -> None:
    """Such as after an older operator was put back, which cannot read what the newer one wrote."""
    world = two_budgets()
    world.runs_on("train", "a100-1", gpus=8)
    unread = Problem("TrainingJob", NAMESPACE, "train", "status.runs[0].outcome", "InvalidStatus", "unknown")
    seen = replace(seen_of(world, unread), surveys=world.snapshot().surveys)
    released = {c.rental for c in plan(observe(replace(seen, jobs={}), world.now)).commands if isinstance(c, Release)}
    assert released == {"a100-2"}
    deleted = replace(seen, jobs={}, problems=())
    released = {c.rental for c in plan(observe(deleted, world.now)).commands if isinstance(c, Release)}
    assert released == {"a100-1", "a100-2"}
