"""One gate for all rules that move running jobs: what is measured stays, and no move is taken back at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, Rate
from charterer.domain.job import ResizePolicy, RunOutcome, RunRecord
from charterer.domain.option import Option
from charterer.domain.plan import Plan
from charterer.domain.profile import CurveSource, Origin, Phase, PowerLaw, SpeedCurve, ThroughputTable
from charterer.domain.time import after
from charterer.policy import plan
from charterer.policy.jobs.groups import TRIAL_SECONDS
from charterer.policy.planner import solve_budgets
from tests.property.policy.test_rest import TWO, still_world
from tests.scenarios.policy.stories import placed
from tests.worlds import World

TRAIN = JobId("train")


def text(decided: Plan) -> str:
    return decided.jobs[TRAIN].reason.message


def came_from(world: World, pool: str, gpus: int, speed: float, seconds_ago: float) -> None:
    """The job was moved to where it is so long ago, because that paid."""
    job = world.jobs[TRAIN]
    assert job.allocation is not None
    since = after(world.now, -seconds_ago)
    quote = world.pools[PoolId(pool)].quote
    assert quote is not None
    option = Option(PoolId(pool), gpus, speed, quote.price.for_gpus(gpus, 8))
    record = RunRecord(1, RunOutcome.STOPPED, option, (), after(since, -3600.0), since, "")
    run = job.allocation.run + 1
    moved = replace(job.allocation, since=since, run=run)
    world.jobs[TRAIN] = replace(job, allocation=moved, last_run=run, records=(record,), moves=(since,))
    world.starts(TRAIN)


def on_a_width(reports: int) -> World:
    """The job alone on a node, on a GPU of which its class has so many reports; another node has room for it."""
    world = World()
    world.budget()
    world.pool()
    for _ in range(2):
        world.rental()
    world.profile("sft", ThroughputTable(((1, 1.0), (4, 1.0))), work_hours=10)
    points = ((1, 1.0, reports, 4.0), (4, 1.0, 50, 1.1))
    origins = tuple(
        Origin(CurveSource.MEASURED if seen else CurveSource.EXTRAPOLATED, seen, value / 2, high)
        for _, value, seen, high in points
    )
    curve = SpeedCurve("a100", ThroughputTable(tuple((gpus, value) for gpus, value, _, _ in points)), origins)
    profile = world.profiles[ClassId("team", "sft")]
    learned = replace(profile, phases=(Phase(1.0, (curve,)),), reports=5, budget=BudgetId("research"))
    world.profiles[profile.id] = learned
    world.job("other", gpus=5, resize=ResizePolicy.NEVER, hours_left=20.0)
    world.runs_on("other", "a100-1", gpus=5)
    world.job("train", gpus=(1, 1, 4), profile="sft", hours_left=10.0)
    world.runs_on("train", "a100-2", gpus=1)
    return world


def test_a_run_that_is_being_measured_is_not_moved_to_empty_its_node() -> None:
    world = on_a_width(reports=0)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert decided.again_at is not None
    assert decided.again_at <= after(world.now, TRIAL_SECONDS)
    assert placed(plan(on_a_width(reports=50).snapshot())) == {"train": 1}  # it was measured


def full_node(*, seconds_ago: float) -> World:
    """The job was widened on a node that is all there is, before another one came that wants half of it."""
    world = World()
    world.budget(amount="60000")
    world.pool(max_nodes=1)
    world.rental()
    world.profile("sft", PowerLaw(0.5, 1.0), work_hours=8)
    world.job("train", gpus=(2, 8, 8), profile="sft")
    world.runs_on("train", "a100-1", gpus=8, speed=2.8)
    came_from(world, "a100", 4, 2.0, seconds_ago)
    world.profile("short", PowerLaw(0.9, 1.0), work_hours=1)
    world.job("short", gpus=4, profile="short", age_seconds=-10.0)
    return world


@pytest.mark.parametrize(("seconds_ago", "narrowed"), [(1.0, False), (7200.0, True)])
def test_a_job_makes_room_again_only_when_being_wide_has_paid_for_itself(seconds_ago: float, narrowed: bool) -> None:
    decided = plan(full_node(seconds_ago=seconds_ago).snapshot())
    assert ("train" in placed(decided)) is narrowed


def two_types(*, seconds_ago: float, cheaper: bool) -> World:
    """The job came to the faster GPU type, and the budget can no longer pay for it; or it came to the cheaper one."""
    world = World()
    world.budget(amount="60" if cheaper else "60000")
    world.pool("slow", price="8")
    world.pool("fast", price="16")
    world.profile("sft", PowerLaw(0.8, 1.0), gpu_type="slow", others=[SpeedCurve("fast", PowerLaw(0.8, 1.5))])
    here, there = ("fast", "slow") if cheaper else ("slow", "fast")
    world.rental(here)
    world.rental(there)
    world.job("train", gpus=1, profile="sft", hours_left=100.0)
    world.runs_on("train", f"{here}-1", gpus=1, speed=1.5 if here == "fast" else 1.0)
    came_from(world, there, 1, 1.5 if there == "fast" else 1.0, seconds_ago)
    return world


@pytest.mark.parametrize("cheaper", [True, False])
def test_a_move_between_pools_at_one_width_is_not_taken_back_at_once(cheaper: bool) -> None:
    world = two_types(seconds_ago=60.0, cheaper=cheaper)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert (
        f"would pay, but the job came from 1 GPU on {'slow' if cheaper else 'fast'}, and a move back pays only from"
        in text(decided)
    )
    assert decided.again_at is not None
    later = plan(two_types(seconds_ago=20_000.0, cheaper=cheaper).snapshot())
    assert placed(later) == {"train": 1}


def test_at_a_fixed_exchange_rate_nothing_turns_it_and_a_job_goes_back_as_soon_as_it_may_move_at_all() -> None:
    world = two_types(seconds_ago=300.0, cheaper=True)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(0.01 / 3600.0))
    assert placed(plan(world.snapshot())) == {"train": 1}


def test_of_two_options_between_which_its_class_is_mixed_each_is_as_good_for_a_job() -> None:
    (solution,) = solve_budgets(still_world(2365.0, TWO, 3, 1000.0).snapshot())
    (assignment,) = solution.assignments.values()
    slow, fast = (assigned.path[0] for assigned in assignment.assigned_paths)
    assert assignment.mixes_both(slow, fast)
    assert not assignment.mixes_both(slow, replace(fast, gpus=2))
