"""After one event everything that it does not concern is the same object again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import BudgetId, JobId, Rate, RentalId
from charterer.domain.job import Progress
from charterer.domain.plan import Plan, Rent
from charterer.domain.profile import Amdahl
from charterer.policy.plan_cache import Memo, PlanCache
from charterer.policy.planner import plan
from tests.worlds import World

RESEARCH = BudgetId("research")


@pytest.fixture
def world() -> World:
    world = World()
    world.budget()
    world.pool("a100")
    world.pool("h100", price="40")
    for name in ("sft", "rl"):
        world.profile(name, Amdahl(0.95, 1.0), work_hours=20)
    for number in range(6):
        world.job(f"j{number}", gpus=(1, 4, 16), profile=("sft", "rl")[number % 2])
    memo = Memo()
    for _ in range(3):
        world.carry_out(plan(world.snapshot(), memo))
        world.everything_starts()
        world.passes(600.0)
    return world


def after_what(world: World, memo: Memo) -> PlanCache:
    """What is known after the next plan."""
    world.passes(1.0)
    plan(world.snapshot(), memo)
    assert memo.known is not None
    return memo.known


def test_a_report_regathers_its_own_cohort_only(world: World) -> None:
    memo = Memo()
    before = after_what(world, memo)
    world.jobs[JobId("j0")] = replace(
        world.jobs[JobId("j0")], progress=Progress(1, 0.3, None, None, world.now), remaining=14 * 3600.0
    )
    then = after_what(world, memo)
    mine = then.readings.by_id[JobId("j0")].key
    for key, cohort in then.readings.cohorts[RESEARCH].items():
        assert (cohort is before.readings.cohorts[RESEARCH][key]) == (key != mine)
    assert then.readings.by_id[JobId("j2")] is before.readings.by_id[JobId("j2")]
    assert all(then.sites[place] is site for place, site in before.sites.items())


def test_when_only_time_passes_nothing_is_looked_at_again(world: World) -> None:
    memo = Memo()
    before = after_what(world, memo)
    then = after_what(world, memo)
    assert then.readings.by_id == before.readings.by_id
    assert all(then.sites[place] is site for place, site in before.sites.items())
    assert all(then.minds[place] is mind for place, mind in before.minds.items())


def test_a_rate_that_leaves_the_interval_makes_calm_jobs_move(world: World) -> None:
    def at(rate: float) -> Plan:
        budget = world.budgets[RESEARCH]
        world.budgets[RESEARCH] = replace(budget, fixed_rate=Rate(rate))
        snapshot = world.snapshot()
        decided = plan(snapshot, memo)
        assert decided == plan(snapshot)
        return decided

    memo = Memo()
    for _ in range(3):
        world.carry_out(at(0.0005))
        world.everything_starts()
        world.passes(600.0)
    assert not at(0.0005).commands
    assert not at(0.000505).commands
    assert any(isinstance(do, Rent) for do in at(0.02).commands)


def test_a_node_that_changes_concerns_its_own_block_only(world: World) -> None:
    memo = Memo()
    world.rental("h100")
    before = after_what(world, memo)
    node = next(name for name in world.nodes if name.startswith("n-a100"))
    world.nodes[node] = replace(world.nodes[node], unschedulable=True)
    then = after_what(world, memo)
    changed = {pool for (_, pool), site in then.sites.items() if site is not before.sites[RESEARCH, pool]}
    assert changed == {"a100"}


def test_a_job_that_is_gone_leaves_nothing_behind(world: World) -> None:
    memo = Memo()
    before = after_what(world, memo)
    held = before.holdings.held(JobId("j1"))
    assert held
    del world.jobs[JobId("j1")]
    for rental in held:
        world.ends(RentalId(rental))
        del world.rentals[RentalId(rental)]
    then = after_what(world, memo)
    assert JobId("j1") not in then.readings.by_id
    assert not then.holdings.held(JobId("j1"))
    assert all(JobId("j1") not in mind.rests for mind in then.minds.values())
    assert not held.keys() & then.holdings.used.keys()
