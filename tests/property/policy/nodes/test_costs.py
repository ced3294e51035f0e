"""Sums that are kept say what adding up anew does, at any time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.billing import accrued
from charterer.domain.billing import spent as defined
from charterer.domain.ids import JobId
from charterer.domain.money import Money, total
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.jobs.groups import ClassInProgress
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.nodes.rentals import rental_index, spent
from tests import lanes
from tests.random_events import a_price_changes_under_way, a_rental_ends, a_rental_is_folded, is_carried_out, some_world
from tests.worlds import World

DAY = 86_400.0


@settings(max_examples=lanes.examples(60))
@given(st.randoms(use_true_random=False))
def test_what_blocks_of_rentals_cost_is_what_the_bill_says(draw: Random) -> None:
    world = some_world(draw)
    memo = Memo()
    for _ in range(6):
        for happens in (is_carried_out, a_rental_ends, a_price_changes_under_way, a_rental_is_folded):
            if draw.random() < 0.5:
                happens(world, draw)
        world.passes(draw.choice([0.3, 777.7, 3 * DAY, -200.0]))
        snapshot = world.snapshot()
        with memo.turn():
            index = rental_index(snapshot.rentals, memo)
        for name, budget in world.budgets.items():
            start = after(world.now, draw.choice([0.0, -900.0, -DAY]))
            one = replace(budget, balance=replace(budget.balance, period_start=start)) if budget.balance else budget
            if draw.random() < 0.2:
                one = replace(one, balance=None)
            folded = frozenset() if one.balance is None else one.balance.folded
            lifetime = Money(0) if one.balance is None else one.balance.lifetime
            mine = [rental for rental in world.rentals.values() if rental.budget == name and rental.uid not in folded]
            pools = [rentals for (of, _), rentals in index.by_pool.items() if of == name]
            ever = lifetime + total(accrued(rental, world.now) for rental in mine)
            assert spent(one, pools, world.now, memo) == (defined(one, world.rentals.values(), world.now), ever)


def readings(draw: Random) -> tuple[World, list[JobFacts]]:
    world = World()
    world.budget()
    world.pool(max_nodes=1000)
    for number in range(draw.randint(1, 9)):
        name = JobId(f"j{number}")
        world.job(name, gpus=8)
        if draw.random() < 0.8:
            world.rental()
            world.passes(draw.choice([0.0, 100.0, 5000.0]))
            job = world.runs_on(name, f"a100-{len(world.rentals)}", gpus=8)
            told = None if draw.random() < 0.6 else Progress(1, draw.choice([0.01, 0.5]), None, None, world.now)
            predicted = draw.choice([None, Money.parse("3"), Money.parse("300")])
            world.jobs[name] = replace(job, progress=told, remaining=draw.uniform(0, 1e5), predicted=predicted)
    return world, list(plan_inputs(world.snapshot(), Memo()).facts.values())


@settings(max_examples=lanes.examples(100))
@given(st.randoms(use_true_random=False), st.floats(0.1, 10.0), st.floats(-6000.0, 1e6))
def test_what_jobs_under_way_are_committed_to_is_what_each_of_them_is(
    draw: Random, factor: float, later: float
) -> None:
    world, jobs = readings(draw)
    now = after(world.now, later)
    running = [job for job in jobs if job.since is not None]
    lefts = {
        job: max(job.predicted * factor - job.spent(now), 0.0) if job.reported is None else job.reported
        for job in running
    }
    counted = [job for job in running if job.predicted > 0]
    sums = ClassInProgress(jobs)
    found = sums.committed(now, factor)
    assert sums.spent(now) == pytest.approx(sum(job.spent(now) for job in jobs), abs=1e-9)
    assert (sums.started, found.jobs) == (bool(running or counted), len(counted))
    assert found.predicted == pytest.approx(sum(job.predicted for job in counted))
    assert found.left == pytest.approx(sum(lefts.values()), abs=1e-6)
    assert found.actual == pytest.approx(sum(job.spent(now) + lefts[job] for job in counted), abs=1e-6)
    assert found.squares == pytest.approx(
        sum(left**2 for job, left in lefts.items() if job.reported is None and job.predicted > 0), abs=1e-6
    )
