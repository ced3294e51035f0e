"""Spot pools all of whose nodes vanish at once, in a simulation with the operator's planner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.pool import CapacityType
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.scenario import JobTerms
from tests.unit.simulate.scenarios import NODE, budget, run, scenario

SPOT = replace(
    NODE, name="spot", hourly=Price.parse("4320"), capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: 600.0
)
"""1.2 dollars a second, and every node is taken back ten minutes after it is ready."""
LONG = application_from_speeds("long", {4: 3600.0, 8: 2000.0, 12: 1500.0, 16: 1200.0})


@pytest.mark.parametrize("limit", ["9000", "30000"])
def test_when_all_spot_nodes_vanish_again_and_again_the_hard_limit_holds(limit: str) -> None:
    limited = replace(budget(rate=2.0), hard_limit=Money.parse(limit))
    given = scenario(
        *[100.0 * number for number in range(8)],
        application=LONG,
        pool=SPOT,
        budget=limited,
        terms=lambda _: JobTerms(Widths(4, 4, 16), spot=SpotPolicy.ALLOWED),
        restart_seconds=30.0,
        checkpoint_seconds=None,
        checkpoint_write_seconds=10.0,
        until=20_000.0,
    )
    result = run(replace(given, pools=(SPOT, NODE)))
    assert result.counts.interruptions > 3
    assert Money.parse("0") < result.spent <= Money.parse(limit)


def test_jobs_leave_a_pool_whose_nodes_are_taken_back_too_soon_for_one_that_costs_more() -> None:
    dying = replace(SPOT, draw_lifetime=lambda _: 60.0, start_seconds=120.0)
    given = scenario(
        *[300.0 * number for number in range(30)],
        application=LONG,
        pool=dying,
        budget=budget(rate=2.0),
        terms=lambda _: JobTerms(Widths(4, 4, 4), spot=SpotPolicy.ALLOWED),
        restart_seconds=30.0,
        checkpoint_seconds=None,
        checkpoint_write_seconds=10.0,
    )
    result = run(replace(given, pools=(dying, replace(NODE, start_seconds=120.0))))
    assert all(job.finished is not None for job in result.jobs)
    last = [job for job in result.jobs if job.submitted >= 300.0 * 25]
    assert all(set(job.pool_gpu_seconds) == {NODE.name} for job in last)
