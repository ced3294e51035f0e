"""The simulated world: the order of what happens, what a policy cannot do, and its books."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.pool import CapacityType
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.time import Instant
from charterer.tools.simulator.engine.shared_gpus import Clock
from charterer.tools.simulator.engine.world import PlannerError, Policy, World
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.scenario import class_of
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import FixedFleet, QueueOrder
from tests.unit.simulate.scenarios import HALVES, NODE, START, run, scenario

WHY = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))


def test_what_is_due_at_one_second_happens_in_the_order_in_which_it_was_put_there_after_what_comes_before_all() -> None:
    clock, seen = Clock(Instant(5_000_000)), list[str]()
    clock.at(2.0, seen.append, "later")
    clock.at(1.0, seen.append, "first put")
    clock.at(1.0, lambda: clock.at(0.5, seen.append, "put meanwhile"))
    clock.before_all(1.0, 8, seen.append, "second of all")
    clock.before_all(1.0, 7, seen.append, "first of all")
    assert clock.step(1.5)
    assert seen == ["first of all", "second of all", "first put", "put meanwhile"]
    assert (clock.now, clock.instant) == (1.0, 6_000_000)
    assert not clock.step(1.5)
    assert clock.now == 1.0


class Gives(Policy):
    """One machine, and on it all to every job as soon as it arrives."""

    def __init__(self, run: int = 1) -> None:
        self.run = run

    def begin_simulation(self, world: World) -> None:
        self.world = world

    def job_arrived(self, job: SimJob) -> None:
        world = self.world
        (pool,) = world.market.pools
        budget = world.scenario.budget.id
        world.rent(Rent(RentalId("one"), pool, budget, ZERO, NODE.hourly, WHY))
        placements = (Placement(RentalId("one"), 4),)
        world.allocate(job, Allocation(self.run, Option(pool, 4, 1.0, NODE.hourly), placements, world.clock.instant))


def test_a_node_that_starts_up_takes_nobody() -> None:
    with pytest.raises(PlannerError, match="at 3 s: job j0 was given GPUs of one, which is not ready"):
        run(scenario(3.0, pool=replace(NODE, start_seconds=60.0)), Gives())


def test_runs_are_counted_from_one() -> None:
    with pytest.raises(PlannerError, match="at 3 s: job j0 was given run 2 after 0"):
        run(scenario(3.0), Gives(run=2))


def test_a_policy_that_acts_for_ever_is_an_error_that_names_it() -> None:
    class Restless(Policy):
        def begin_simulation(self, world: World) -> None:
            self.world = world

        def decide(self) -> None:
            (pool,) = self.world.market.pools
            name = RentalId(f"node-{self.world.market.rented_total}")
            self.world.rent(Rent(name, pool, self.world.scenario.budget.id, ZERO, NODE.hourly, WHY))

    with pytest.raises(PlannerError, match="at 7 s: 50 plans in a row had commands, Restless"):
        run(scenario(7.0), Restless())


def test_every_job_event_is_counted_once() -> None:
    lifetimes = iter([100.0, 10_000.0])
    pool = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: next(lifetimes))
    counts = run(scenario(0.0, pool=pool), FixedFleet(1, lambda _: 4)).counts
    assert (counts.arrivals, counts.starts, counts.interruptions, counts.completions) == (1, 2, 1, 1)
    assert (counts.machines, counts.reports, counts.job_events) == (2, 0, 5)


def test_a_fixed_fleet_replaces_what_is_taken_back_as_long_as_there_is_work_and_then_ends() -> None:
    pool = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: 200.0)
    result = run(scenario(0.0, pool=pool, checkpoint_seconds=0.0), FixedFleet(2, lambda _: 4))
    assert result.mean_completion_seconds == pytest.approx(250.0)
    assert result.counts.machines == 4
    assert result.rented_nodes[-1][1] == 0


def test_fair_is_by_what_was_used_up_to_the_end_of_each_job() -> None:
    """On one node, nothing happens until the first job is complete: its class had 300 s then, and the other nothing."""
    large, small = application_from_speeds("large", {4: 300.0}), application_from_speeds("small", {4: 100.0})
    names = ["large", "large", "small"]
    given = scenario(0.0, 0.0, 0.0, applications={"large": large, "small": small})
    jobs = tuple(
        replace(submission, application=name) for submission, name in zip(given.submissions, names, strict=True)
    )
    result = run(replace(given, submissions=jobs), FixedFleet(1, lambda _: 4, QueueOrder.FAIR))
    assert [job.name for job in result.jobs] == ["j0", "j2", "j1"]


def test_a_machine_that_is_taken_back_just_after_a_months_end_cost_each_month_its_part() -> None:
    """Nothing else happens between the beginning of the month and then."""
    month = 30 * 86_400.0
    pool = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: 3600.0)
    given = scenario(month - 1800.0, pool=pool, until=month + 3600.0)
    result = run(replace(given, applications={"halves": application_from_speeds("halves", {4: 50_000.0})}), Gives())
    assert [spent for _, spent in result.periods] == [Money.parse("7200")]
    assert result.spent == Money.parse("14400")


def test_an_application_that_cannot_run_on_a_width_says_so() -> None:
    with pytest.raises(ValueError, match="halves: it cannot run on 3 GPUs of type 'gpu'"):
        HALVES.width_rates("gpu", 3)
    with pytest.raises(ValueError, match="halves: batch size 64 was not measured on 4 GPUs of type 'gpu'"):
        HALVES.width_rates("gpu", 4, 64)


def test_nothing_is_rented_beyond_the_maximum_of_the_pool() -> None:
    full = replace(NODE, max_nodes=1)
    with pytest.raises(PlannerError, match="at 5 s: pool a100 may have 1 nodes, and has them"):
        run(scenario(3.0, 5.0, pool=full), Gives())


def test_a_new_interval_between_checkpoints_saves_nothing_by_itself() -> None:
    option = Option(PoolId("a100"), 4, 1.0, Price(0))
    submission = Submission("j", 0.0, HALVES.name, 4)
    job = SimJob(JobId("j"), submission, HALVES, class_of(HALVES.name), START, 0.0, 0.0)
    job.start_run(Allocation(1, option, (), START), "gpu", 0.0, START)
    job.train_with(0)
    job.checkpoint_every(50.0, 0.0)
    job.advance(70.0)
    job.change_interval(100.0, 0.0)
    job.advance(110.0)
    job.lose_progress()
    assert job.done == pytest.approx(50.0 / 250.0)
    job.advance(200.0)
    job.change_interval(10.0, 0.0)  # sooner than what is unsaved: it is written at once
    job.lose_progress()
    assert job.done == pytest.approx(140.0 / 250.0)
