"""One faulty object stops no other: planning goes on without it, says so, and tries it again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId
from charterer.domain.plan import Allocate, ReasonCode, Release, Rent
from charterer.domain.profile import Amdahl, PowerLaw
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Calendar, Instant
from charterer.incremental import Memo
from charterer.policy import plan, set_aside
from charterer.policy.planner import solved_plan
from charterer.policy.set_aside import FIRST_PAUSE_SECONDS, PlannedKind, PlannedObject, plan_around, without
from tests.worlds import NAMESPACE, World

NAN = float("nan")


def two_teams() -> World:
    """Two budgets, two pools, a class with a running and a waiting job, and a job of another class."""
    world = World()
    world.budget("research")
    world.budget("prod")
    world.pool("a100")
    world.pool("h100", price="40")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=20)
    world.profile("rl", PowerLaw(0.8, 1.0), work_hours=20, gpu_type="h100")
    world.job("runs", gpus=8, profile="sft")
    world.rental("a100")
    world.runs_on("runs", "a100-1", gpus=8)
    world.job("waits", gpus=(1, 8, 16), profile="sft", age_seconds=60)
    world.job("other", gpus=(1, 4, 16), profile="rl", budget="prod")
    return world


def with_faulty_profile(world: World) -> PlannedObject:
    known = ClassId(NAMESPACE, "sft")
    world.profiles[known] = replace(world.profiles[known], mean_work=NAN)
    return PlannedObject(PlannedKind.PROFILE, known)


def with_faulty_job(world: World) -> PlannedObject:
    world.jobs[JobId("waits")] = replace(world.jobs[JobId("waits")], target_completion=Instant(10**400))
    return PlannedObject(PlannedKind.JOB, JobId("waits"))


def with_faulty_budget(world: World) -> PlannedObject:
    world.budgets[BudgetId("research")] = replace(
        world.budgets[BudgetId("research")], calendar=Calendar("Nowhere/Here")
    )
    return PlannedObject(PlannedKind.BUDGET, BudgetId("research"))


def with_faulty_pool(world: World) -> PlannedObject:
    pool = world.pools[PoolId("a100")]
    world.pools[pool.id] = replace(pool, start_seconds=NAN)
    return PlannedObject(PlannedKind.POOL, pool.id)


FAULTS = [with_faulty_profile, with_faulty_job, with_faulty_budget, with_faulty_pool]


@pytest.mark.parametrize("spoil", FAULTS)
def test_what_makes_planning_fail_is_found_and_the_rest_is_planned(spoil: object) -> None:
    world = two_teams()
    assert callable(spoil)
    faulty = spoil(world)
    with pytest.raises((ArithmeticError, ValueError, LookupError)):
        plan(world.snapshot())
    made = plan_around(world.snapshot(), Memo(), {})
    assert set(made.faults) == {faulty}
    assert made.error is None
    (problem,) = made.plan.problems
    assert (problem.kind, problem.reason) == (faulty.kind, ReasonCode.PLANNING_FAILED)
    assert "please report it" in problem.message
    wanted = [one for one in made.plan.commands if isinstance(one, Rent) and one.budget == "prod"]
    assert wanted or faulty.kind is PlannedKind.POOL
    moved = {one.job for one in made.plan.commands if isinstance(one, Allocate)}
    assert "runs" not in moved
    assert not any(isinstance(one, Release) for one in made.plan.commands)


def test_several_faulty_objects_are_all_found() -> None:
    world = two_teams()
    faulty = {spoil(world) for spoil in FAULTS}
    made = plan_around(world.snapshot(), Memo(), {})
    assert faulty >= set(made.faults)
    assert made.error is None
    assert any(isinstance(one, Rent) and one.budget == "prod" for one in made.plan.commands)


def test_one_faulty_profile_of_many_is_found_in_few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    world = two_teams()
    for number in range(200):
        world.profile(f"p{number}", Amdahl(0.9, 1.0), work_hours=1)
    faulty = with_faulty_profile(world)
    plans = 0

    def counted(snapshot: Snapshot, memo: Memo) -> object:
        nonlocal plans
        plans += 1
        return solved_plan(snapshot, memo)

    monkeypatch.setattr(set_aside, "solved_plan", counted)
    made = plan_around(world.snapshot(), Memo(), {})
    assert set(made.faults) == {faulty}
    assert plans <= 15
    plans = 0
    again = plan_around(world.snapshot(), Memo(), made.faults)
    assert (plans, again.plan) == (1, made.plan)


def test_jobs_of_a_faulty_profile_run_on_their_preferred_number_of_gpus() -> None:
    world = two_teams()
    with_faulty_profile(world)
    verdict = plan_around(world.snapshot(), Memo(), {}).plan.jobs[JobId("waits")]
    assert verdict.option is not None
    assert verdict.option.gpus == 8


def test_jobs_of_a_faulty_budget_say_so_and_go_on() -> None:
    world = two_teams()
    with_faulty_budget(world)
    verdicts = plan_around(world.snapshot(), Memo(), {}).plan.jobs
    assert {verdicts[JobId(name)].reason.code for name in ("runs", "waits")} == {ReasonCode.PLANNING_FAILED}
    assert verdicts[JobId("other")].reason.code is not ReasonCode.PLANNING_FAILED


def test_what_was_set_aside_is_tried_again_after_a_pause_that_grows_and_counts_again_once_it_is_well() -> None:
    world, memo = two_teams(), Memo()
    faulty = with_faulty_job(world)
    faults = plan_around(world.snapshot(), memo, {}).faults
    pauses = []
    for _ in range(3):
        world.passes(faults[faulty].pause + 1.0)
        faults = plan_around(world.snapshot(), memo, faults).faults
        pauses.append(faults[faulty].pause)
    assert pauses == [2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS, 8 * FIRST_PAUSE_SECONDS]
    world.jobs[JobId("waits")] = replace(world.jobs[JobId("waits")], target_completion=None)
    assert set(plan_around(world.snapshot(), memo, faults).faults) == {faulty}
    world.passes(faults[faulty].pause + 1.0)
    well = plan_around(world.snapshot(), memo, faults)
    assert (well.faults, well.plan) == ({}, plan(world.snapshot()))


def test_an_object_that_was_deleted_is_no_longer_set_aside() -> None:
    world = two_teams()
    with_faulty_job(world)
    faults = plan_around(world.snapshot(), Memo(), {}).faults
    del world.jobs[JobId("waits")]
    assert plan_around(world.snapshot(), Memo(), faults).faults == {}


def test_a_plan_that_fails_whatever_is_left_out_changes_nothing_and_every_budget_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(snapshot: Snapshot, memo: Memo) -> object:
        raise ArithmeticError("no")

    monkeypatch.setattr(set_aside, "solved_plan", fails)
    made = plan_around(two_teams().snapshot(), Memo(), {})
    assert isinstance(made.error, ArithmeticError)
    assert made.plan.commands == ()
    assert [problem.name for problem in made.plan.problems] == ["research", "prod"]
    assert {verdict.reason.code for verdict in made.plan.jobs.values()} == {ReasonCode.PLANNING_FAILED}


def test_when_nothing_fails_the_plan_is_the_plan_of_the_snapshot_itself() -> None:
    world = two_teams()
    snapshot = world.snapshot()
    assert without(snapshot, []) is snapshot
    made = plan_around(snapshot, Memo(), {})
    assert made.plan == plan(snapshot)
    assert made.faults == {}
