"""When a job waits for GPUs that others are about to leave, instead of taking slower ones for life."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import BudgetId, JobId, PoolId, Rate, RentalId
from charterer.domain.interactive import Interactive
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.profile import Amdahl, Phase, SpeedCurve, ThroughputTable
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import after, seconds_between
from charterer.policy.explain.alternatives import Comparison, Rank, alternatives
from charterer.policy.outlook.outlook import NodeSource
from charterer.policy.planner import plan, solve_budgets
from tests.scenarios.policy.stories import placed, why
from tests.worlds import World

NEW = JobId("new")
HOURLY = 20.0
"""Dollars that an hour of a job is worth."""


def busy_node(
    left: float | None = 1 / 3,
    *,
    slow: float = 0.1,
    resize: ResizePolicy = ResizePolicy.NEVER,
    arrivals: float | None = None,
    **job: Any,
) -> World:
    """The only H100 node is in use for ``left`` more hours (None: nobody knows), and T4 are free that have ``slow`` of
    its speed. ``new`` takes an hour on H100. ``arrivals``: jobs like it that come an hour.
    """
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(HOURLY / 3600.0))
    world.pool("h100", gpus=4, price="12", max_nodes=1)
    world.pool("t4", gpus=4, price="2", max_nodes=10)
    for pool in ("h100", "t4"):
        world.rental(pool)
    curves = tuple(SpeedCurve(name, ThroughputTable(((4, rate),))) for name, rate in (("h100", 1.0), ("t4", slow)))
    profile = world.profile("sft", Amdahl(0.9, 1.0), work_hours=1.0, arrivals_per_hour=arrivals)
    world.profiles[profile.id] = replace(profile, phases=(Phase(1.0, curves),))
    world.job("first", gpus=4, resize=ResizePolicy.NEVER, hours_left=left)
    world.runs_on("first", "h100-1", gpus=4)
    world.job("new", gpus=4, profile="sft", resize=resize, **job)
    return world


def waits(decided: Plan, job: str = "new") -> bool:
    return decided.jobs[JobId(job)].reason.code is ReasonCode.WAITING_FOR_FREE_GPUS


def takes(decided: Plan, job: str = "new") -> str:
    """The pool of the option that the job has or waits for."""
    option = decided.jobs[JobId(job)].option
    assert option is not None
    return option.pool


def test_a_job_that_may_not_move_waits_for_gpus_that_are_left_soon_and_says_when_it_starts() -> None:
    world = busy_node()
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    verdict = decided.jobs[NEW]
    assert (verdict.reason.code, takes(decided)) == (ReasonCode.WAITING_FOR_FREE_GPUS, "h100")
    assert verdict.reason.message == (
        "4 GPUs on h100 wanted: it starts about 2026-06-16T00:20Z on h100, when jobs that have GPUs there end; on 4 "
        "GPUs on t4, which it could have now, it would end 8.7 h later for $7.98 more"
    )
    assert verdict.starts_in == pytest.approx(1200.0)


def test_it_starts_there_when_they_are_free() -> None:
    world = busy_node()
    world.carry_out(plan(world.snapshot()))
    world.passes(1200.0)
    del world.jobs[JobId("first")]
    decided = plan(world.snapshot())
    assert (placed(decided), takes(decided)) == ({"new": 4}, "h100")


def test_it_takes_what_it_can_have_where_the_wait_would_cost_more() -> None:
    decided = plan(busy_node(20.0).snapshot())
    assert (placed(decided), takes(decided)) == ({"new": 4}, "t4")


def test_it_takes_what_it_can_have_once_the_job_there_is_expected_to_stay_for_long() -> None:
    world = busy_node()
    assert waits(plan(world.snapshot()))
    first = world.jobs[JobId("first")]
    world.jobs[first.id] = replace(first, remaining=20.0 * 3600.0)
    assert takes(plan(world.snapshot())) == "t4"


def test_it_takes_what_it_can_have_once_the_node_is_lost() -> None:
    world = busy_node()
    assert waits(plan(world.snapshot()))
    pool = world.pools[PoolId("h100")]
    world.pools[pool.id] = replace(pool, max_nodes=0)
    world.rentals[RentalId("h100-1")] = replace(world.rentals[RentalId("h100-1")], phase=RentalPhase.ENDED)
    del world.jobs[JobId("first")]
    assert takes(plan(world.snapshot())) == "t4"


def test_no_job_waits_for_one_of_which_nobody_knows_when_it_ends() -> None:
    assert takes(plan(busy_node(None).snapshot())) == "t4"


def test_no_job_waits_for_an_interactive_one() -> None:
    world = busy_node()
    first = world.jobs[JobId("first")]
    world.jobs[first.id] = replace(first, interactive=Interactive())
    assert takes(plan(world.snapshot())) == "t4"


def test_the_wait_is_judged_again_when_it_no_longer_pays_because_the_job_there_is_overdue() -> None:
    """Nothing is reported: each second that the job there is overdue has passed, and another one is expected."""
    world = busy_node()
    decided = plan(world.snapshot())
    assert decided.again_at is not None
    assert seconds_between(world.now, decided.again_at) > 1200.0
    world.now = after(decided.again_at, -2.0)
    assert waits(plan(world.snapshot()))
    world.now = after(decided.again_at, 1.0)
    assert takes(plan(world.snapshot())) == "t4"


def test_a_job_never_waits_for_longer_than_it_was_to_save() -> None:
    """All that it has waited counts, whatever the estimates were."""
    assert waits(plan(busy_node(age_seconds=8.0 * 3600.0).snapshot()))
    assert takes(plan(busy_node(age_seconds=10.0 * 3600.0).snapshot())) == "t4"


def test_two_jobs_do_not_count_on_the_same_gpus() -> None:
    """The second one waits for the first one's end, too."""
    world = busy_node()
    world.job("next", gpus=4, profile="sft", resize=ResizePolicy.NEVER, hours_left=1.5)
    decided = plan(world.snapshot())
    assert decided.jobs[NEW].starts_in == pytest.approx(1200.0)
    assert decided.jobs[JobId("next")].starts_in > 1200.0 + 3600.0


def test_of_many_jobs_those_take_what_there_is_for_which_the_wait_is_too_long() -> None:
    world = busy_node()
    for number in range(12):
        world.job(f"next-{number}", gpus=4, profile="sft", resize=ResizePolicy.NEVER)
    decided = plan(world.snapshot())
    waiting = [verdict.starts_in for name, verdict in decided.jobs.items() if waits(decided, name)]
    assert len(set(waiting)) == len(waiting) > 2
    assert max(waiting) < 9.45 * 3600.0
    assert {takes(decided, name) for name in placed(decided)} == {"t4"}


def test_a_job_that_waits_keeps_nobody_from_gpus_that_are_free() -> None:
    """Half of the node is free, which is too little for the job that waits."""
    world = busy_node()
    first = world.jobs[JobId("first")]
    assert first.allocation is not None
    (place,) = first.allocation.placements
    option = replace(first.allocation.option, gpus=2)
    world.jobs[first.id] = replace(
        first, allocation=replace(first.allocation, option=option, placements=(replace(place, gpus=2),)), runs=()
    )
    world.job("narrow", gpus=2, gpu_types=("h100",), hours_left=0.2)
    decided = plan(world.snapshot())
    assert placed(decided) == {"narrow": 2}
    assert waits(decided)


@pytest.mark.parametrize(("restart_seconds", "pool"), [(30.0, "t4"), (3600.0, "h100")])
def test_a_job_that_may_move_begins_at_once_where_the_move_costs_less_than_the_wait(
    restart_seconds: float, pool: str
) -> None:
    world = busy_node(2.0, resize=ResizePolicy.RESTART)
    profile = world.profiles[world.jobs[NEW].class_id]
    world.profiles[profile.id] = replace(profile, restart_seconds=restart_seconds)
    assert takes(plan(world.snapshot())) == pool


@pytest.mark.parametrize(("target_hours", "pool"), [(20.0, "h100"), (10.5, "t4")])
def test_a_job_does_not_wait_where_that_makes_it_late_for_its_target(target_hours: float, pool: str) -> None:
    world = busy_node(target_hours=target_hours, left=1.0 if target_hours == 20.0 else 9.9)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(0.1 / 3600.0))
    assert takes(plan(world.snapshot())) == pool


@pytest.mark.parametrize(("arrivals", "pool"), [(0.01, "h100"), (5.0, "t4")])
def test_a_job_leaves_gpus_to_those_that_come_where_more_come_than_there_is_room_for(
    arrivals: float, pool: str
) -> None:
    """What it gains by them is less than what the others gain, and the time that it waits for them is lost."""
    assert takes(plan(busy_node(slow=0.5, arrivals=arrivals).snapshot())) == pool


def test_a_job_that_could_have_nothing_else_says_why_and_when_it_starts() -> None:
    decided = plan(busy_node(gpu_types=("h100",)).snapshot())
    verdict = decided.jobs[NEW]
    assert why(decided, "new") is ReasonCode.POOL_FULL
    said = verdict.reason.message
    assert said.startswith("4 GPUs on h100 wanted: h100 has the only node that spec.maxNodes allows")
    assert said.endswith("; it starts about 2026-06-16T00:20Z on h100, when jobs that have GPUs there end")
    assert verdict.starts_in == pytest.approx(1200.0)


def test_explain_counts_the_wait_and_no_start_up() -> None:
    snapshot = busy_node().snapshot()
    found = alternatives(snapshot.jobs[NEW], plan(snapshot).jobs[NEW], Comparison.of(solve_budgets(snapshot)[0]))
    assert found is not None
    chosen, (other,) = found.chosen, [row for row in found.rows if row.rank is not Rank.CHOSEN]
    assert (chosen.option.pool, chosen.nodes) == ("h100", NodeSource.LEFT)
    assert chosen.seconds == pytest.approx(1200.0 + 3600.0 + 30.0)
    assert chosen.room_wait == pytest.approx(1200.0)
    assert (other.rank, other.room_wait) == (Rank.WORSE, 0.0)


def test_what_a_job_reported_is_counted_down_from_then_on() -> None:
    world = busy_node()
    first = world.jobs[JobId("first")]
    assert first.allocation is not None
    told = Progress(first.allocation.run, 0.5, None, None, after(world.now, 600.0))
    world.jobs[first.id] = replace(first, progress=told)
    world.passes(900.0)
    assert plan(world.snapshot()).jobs[NEW].starts_in == pytest.approx(900.0)
