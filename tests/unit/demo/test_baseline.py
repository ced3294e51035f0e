"""The simulation of giving every job what its owner asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pytest

from demo.baseline import pods, simulate
from demo.pace import Pace
from demo.scenario import PoolPlan, ReplayJob, Scenario, an_hour
from demo.tables import Application

LINEAR = Application("linear", 1, ((1, 3600.0), (16, 225.0)))
ZONE = PoolPlan("a", "Tesla-T4", 4, 4.0, (100.0,), 60, None)


@dataclass(frozen=True)
class Made(Scenario):
    """A scenario with jobs and pools of the test's own."""

    made_jobs: tuple[ReplayJob, ...] = ()
    made_pools: tuple[PoolPlan, ...] = (ZONE,)

    @cached_property
    def jobs(self) -> tuple[ReplayJob, ...]:
        return self.made_jobs

    @cached_property
    def pools(self) -> tuple[PoolPlan, ...]:
        return self.made_pools


def made(*jobs: tuple[float, int, float], pools: tuple[PoolPlan, ...] = (ZONE,)) -> Made:
    """Jobs as (submitted, asked, work in seconds on one GPU), with restarts of 30 s."""
    replayed = tuple(ReplayJob(f"job-{n}", LINEAR, at, work, asked) for n, (at, asked, work) in enumerate(jobs))
    return Made((0.0, 1.0), {}, Pace(1), made_jobs=replayed, made_pools=pools)


def test_a_job_wider_than_a_node_gets_whole_nodes_and_the_rest() -> None:
    assert pods(6, 4) == (4, 2)
    assert pods(12, 4) == (4, 4, 4)
    assert pods(1, 4) == (1,)


def test_a_job_waits_for_its_node_and_its_restart_and_pays_from_the_launch() -> None:
    outcome = simulate(made((10.0, 4, 3600.0)))
    (job,) = outcome.jobs
    train = job.job.seconds(4)
    assert job.ended == pytest.approx(10.0 + 100.0 + 30.0 + train)
    assert outcome.dollars == pytest.approx(4.0 * (130 + train) / 3600, abs=4.0 / 3600)


def test_what_kubernetes_takes_for_a_job_is_waited_for_and_paid() -> None:
    quick, slow = (simulate(made((0.0, 4, 3600.0)), pod_seconds) for pod_seconds in (0.0, 90.0))
    assert slow.mean_completion_seconds == pytest.approx(quick.mean_completion_seconds + 90.0)
    assert slow.dollars == pytest.approx(quick.dollars + 4.0 * 90 / 3600)


def test_small_jobs_share_a_node() -> None:
    outcome = simulate(made(*((float(at), 1, 7200.0) for at in range(4))))
    assert len(outcome.nodes) == 1


def test_a_job_of_six_gpus_leaves_two_for_others() -> None:
    outcome = simulate(made((0.0, 6, 3600.0), (1.0, 2, 3600.0)))
    assert len(outcome.nodes) == 2


def test_a_job_on_a_node_that_is_up_starts_at_once() -> None:
    outcome = simulate(made((0.0, 1, 7200.0), (500.0, 1, 60.0)))
    late = next(job for job in outcome.jobs if job.job.submitted == 500.0)
    assert late.started == 500.0


def test_a_job_that_does_not_fit_into_what_the_cheap_zone_has_goes_to_the_dear_one() -> None:
    dear = replace(ZONE, name="b", hourly_price=5.0)
    outcome = simulate(made((0.0, 4, 3600.0), (1.0, 8, 3600.0), pools=(replace(ZONE, stock=2), dear)))
    assert sorted(node.pool.name for node in outcome.nodes) == ["a", "b", "b"]


def test_a_job_that_no_zone_has_room_for_is_named() -> None:
    with pytest.raises(ValueError, match="job-0 asks for 16 GPUs"):
        simulate(made((0.0, 16, 3600.0), pools=(replace(ZONE, stock=2),)))


def test_every_node_of_the_hour_is_given_back_and_every_job_ends() -> None:
    hour = an_hour(40)
    outcome = simulate(hour)
    assert {job.job.name for job in outcome.jobs} == {job.name for job in hour.jobs}
    last = max(job.ended for job in outcome.jobs)
    assert max(node.ended for node in outcome.nodes) == last
    used = sum(job.job.asked * (job.ended - job.job.submitted) for job in outcome.jobs)
    rented = sum(node.pool.gpus_per_node * (node.ended - node.launched) for node in outcome.nodes)
    assert rented >= used - 1e-6
