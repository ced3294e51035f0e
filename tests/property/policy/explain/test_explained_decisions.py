"""What explain calls better than what the plan does is never possible: something named forbids it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.job import Job, ResizePolicy
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.profile import PowerLaw, SpeedCurve
from charterer.policy.explain.alternatives import Alternative, Comparison, Rank, alternatives
from charterer.policy.outlook.outlook import NodeSource
from charterer.policy.planner import plan, solve_budgets
from charterer.policy.solve.phase_dp import key_of
from tests import lanes
from tests.worlds import World

POSSIBLE = {NodeSource.HERE, NodeSource.READY, NodeSource.BOOTING, NodeSource.RENT}
"""Where nodes can come from now."""
WAITS = {ReasonCode.WAITING_FOR_FREE_GPUS, ReasonCode.WAITING_FOR_BUDGET}
"""What a job waits for whatever its options are."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One budget with money to spend, pools that may be small, jobs with curves that run, and time that has passed."""
    world = World()
    world.budget(amount=draw(st.sampled_from(["2000", "20000", "200000"])))
    for pool in ("near", "far"):
        world.pool(
            pool,
            gpus=draw(st.sampled_from([1, 4, 8])),
            price=draw(st.sampled_from(["3.2", "12.8", "20"])),
            max_nodes=draw(st.sampled_from([2, 100])),
            start_seconds=draw(st.sampled_from([0.0, 120.0, 600.0])),
        )
    for number in range(draw(st.integers(1, 4))):
        curve = PowerLaw(draw(st.sampled_from([0.5, 0.8, 0.97])), 1.0)
        faster = SpeedCurve("far", replace(curve, value=draw(st.sampled_from([1.0, 2.0]))))
        world.profile(f"class-{number}", curve, gpu_type="near", work_hours=4.0, others=[faster])
        world.job(
            f"j{number}",
            gpus=draw(st.sampled_from([(1, 1, 1), (1, 4, 16), (8, 8, 8)])),
            profile=f"class-{number}",
            hours_left=draw(st.sampled_from([0.2, 4.0, 40.0])),
            resize=draw(st.sampled_from(list(ResizePolicy))),
            age_seconds=float(number),
        )
    return world


def forbidden(row: Alternative, job: Job, decided: Plan) -> bool:
    """Whether something named keeps the job from what is called better."""
    if row.nodes not in POSSIBLE or row.held:
        return True
    if job.allocation is not None:
        return job.resize is ResizePolicy.NEVER
    return bool(decided.pools) or decided.jobs[job.id].reason.code in WAITS  # the room of full pools is shared out


def contradictions(world: World) -> list[str]:
    """What explain calls better than what the plan does, though nothing forbids it."""
    snapshot = world.snapshot()
    decided = plan(snapshot)
    (solution,) = solve_budgets(snapshot)
    found = []
    for job in snapshot.jobs.values():
        verdict = decided.jobs[job.id]
        weighed = alternatives(job, verdict, Comparison.of(solution))
        if weighed is None or verdict.option is None:
            continue
        better = [row for row in weighed.rows if row.rank is Rank.BETTER and not forbidden(row, job, decided)]
        if key_of(weighed.chosen.option) != key_of(verdict.option):  # it is moved in this plan, to the best of these
            worth = solution.own_values(job, solution.assignments[solution.key(job)]).worth
            totals = {key_of(row.option): row.dollars + row.empty + worth * row.seconds for row in better}
            better = [
                row for row in better if totals[key_of(row.option)] < totals.get(key_of(verdict.option), inf) - 1e-6
            ]
        found += [f"{job.id} gets {verdict}, and {row} is better" for row in better]
    return found


def test_the_best_of_the_moves_counts_the_start_up_of_nodes_that_must_be_rented() -> None:
    """Of a node that starts for ten minutes, four GPUs gain more than eight, which would gain more on a ready node."""
    world = World()
    world.budget(amount="2000")
    world.pool("near", gpus=1, price="3.2", start_seconds=0.0)
    world.pool("far", gpus=4, price="1.6", max_nodes=4, start_seconds=600.0)
    curve = PowerLaw(0.8, 1.0)
    world.profile("class-0", curve, gpu_type="near", work_hours=4.0, others=[SpeedCurve("far", curve)])
    job = world.job("j0", gpus=(1, 4, 16), profile="class-0", hours_left=0.2)
    for _ in range(4):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.passes(3600.0)
    option = plan(world.snapshot()).jobs[job.id].option
    assert option is not None
    assert (option.pool, option.gpus) == ("far", 4)
    assert contradictions(world) == []


def test_a_node_that_is_ready_counts_where_another_pool_is_as_good_as_the_one_that_is_full() -> None:
    """Sixteen GPUs of near are as good as the same of far, which are not free; four that are ready are better."""
    world = World()
    world.budget(amount="2000")
    curve = PowerLaw(0.5, 1.0)
    for pool in ("near", "far"):
        world.pool(pool, gpus=8, price="3.2", max_nodes=2, start_seconds=600.0)
    world.profile("class-0", curve, gpu_type="near", work_hours=4.0, others=[SpeedCurve("far", curve)])
    world.job("j0", gpus=(1, 1, 1), profile="class-0", hours_left=4.0)
    for _ in range(4):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    new = world.job("new", gpus=(1, 4, 16), profile="class-0", hours_left=2.0)
    option = plan(world.snapshot()).jobs[new.id].option
    assert option is not None
    assert (option.pool, option.gpus) == ("far", 4)


@settings(max_examples=lanes.examples(60))
@given(worlds(), st.sampled_from([0.0, 60.0, 3600.0]))
def test_nothing_is_better_for_a_job_than_what_the_plan_does_unless_something_named_forbids_it(
    world: World, seconds: float
) -> None:
    # The first plan rents; from then on jobs run, and one more comes.
    for _ in range(4):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.passes(seconds)
    assert contradictions(world) == []
    world.job("new", gpus=(1, 4, 16), profile="class-0", hours_left=2.0)
    assert [text for text in contradictions(world) if text.startswith("new")] == []
