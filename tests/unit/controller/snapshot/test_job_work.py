"""How much work a job is, from what is done of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from charterer.controller.snapshot.jobs import total_work
from charterer.domain.ids import ClassId
from charterer.domain.job import Job, RunOutcome, RunRecord, Variant
from charterer.domain.job_records import job_cost, resized, with_allocation
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.policy.jobs.job_facts import told_to_stop
from tests.worlds import World


def running(world: World, gpus: int = 8, speed: float = 1.0) -> Job:
    """A job whose run began now."""
    world.budget()
    world.pool("a100", gpus=8)
    world.profile("sft", ThroughputTable(((1, 1.0), (8, 4.0))), restart_seconds=0.0)
    world.job("train", gpus=(1, 8, 8), profile="sft")
    node = world.rental()
    return world.runs_on("train", node.id, gpus=gpus, speed=speed)


def learned(world: World, *phases: tuple[float, float, float]) -> None:
    """The class's profile was learned: until, goodput on 1 and on 8 GPUs."""
    name = ClassId("team", "sft")
    found = tuple(
        Phase(until, (SpeedCurve("a100", ThroughputTable(((1, one), (8, eight)))),)) for until, one, eight in phases
    )
    world.profiles[name] = replace(world.profiles[name], phases=found, reports=10)


def size(world: World, job: Job, done: float, seconds: float) -> float:
    world.passes(seconds)
    heard = replace(job, progress=Progress(1, done, None, None, world.now))
    return total_work(heard, [world.profiles[ClassId("team", "sft")]], world.snapshot().gpu_types, done, world.now)


def test_a_declared_class_has_the_speed_that_its_option_was_chosen_for() -> None:
    world = World()
    assert size(world, running(world, speed=4.0), 0.25, 1000.0) == pytest.approx(16_000.0)


def test_a_learned_class_has_the_speed_that_is_known_now() -> None:
    world = World()
    job = running(world, speed=1.0)
    learned(world, (1.0, 0.5, 1.5))
    assert size(world, job, 0.25, 1000.0) == pytest.approx(12_000.0)


def test_each_phase_counts_at_its_own_speed() -> None:
    world = World()
    job = running(world)
    learned(world, (0.5, 1.0, 2.0), (1.0, 1.0, 8.0))
    # 0.5 of the work at speed 2, 0.25 at speed 8: 0.5·W/2 + 0.25·W/8 = 1000 s
    assert size(world, job, 0.75, 1000.0) == pytest.approx(1000.0 / (0.25 + 0.03125), rel=1e-6)


@example(1.0, [1.0, 2.0])
@given(st.floats(0.05, 1.0), st.lists(st.floats(0.1, 50.0), min_size=1, max_size=4))
def test_the_work_found_is_the_work_that_was_done(done: float, speeds: list[float]) -> None:
    world = World()
    job = running(world)
    ends = [(at + 1) / len(speeds) for at in range(len(speeds))]
    learned(world, *((end, speeds[0], speed) for end, speed in zip(ends, speeds, strict=True)))
    work, begin, seconds = 5_000.0, 0.0, 0.0
    for end, speed in zip(ends, speeds, strict=True):
        seconds += max(min(end, done) - begin, 0.0) * work * speeds[0] / speed
        begin = end
    assert size(world, job, done, seconds) == pytest.approx(work, rel=1e-4)


def test_a_run_that_had_no_time_yet_says_nothing() -> None:
    world = World()
    assert size(world, running(world), 0.5, 0.0) == 0.0


def test_a_run_that_was_told_to_stop_counts_before_and_after_it_is_on_record() -> None:
    world = World()
    job = running(world, speed=4.0)
    assert size(world, told_to_stop(job), 0.25, 1000.0) == pytest.approx(16_000.0)
    assert job.allocation is not None
    allocation = job.allocation
    record = RunRecord(
        1, RunOutcome.STOPPED, allocation.option, allocation.placements, allocation.since, world.now, "stopped"
    )
    recorded = replace(told_to_stop(job), records=(record,))
    assert size(world, recorded, 0.25, 0.0) == pytest.approx(16_000.0)


def test_a_run_that_was_resized_in_place_counts_at_each_width_that_it_had() -> None:
    world = World()
    job = running(world, gpus=8, speed=4.0)
    narrow = job.allocation
    assert narrow is not None
    world.passes(1000.0)
    wide = replace(narrow, option=replace(narrow.option, speed=7.0, gpus=16), since=world.now)
    asked = with_allocation(job, wide, world.rentals)
    assert size(world, asked, 0.25, 100.0) == pytest.approx(1100 * 4.0 / 0.25)  # pods join, the others train on
    counts = resized(asked, world.rentals, world.now)
    assert counts.resized_from is None
    assert size(world, counts, 0.5, 400.0) == pytest.approx((1100 * 4.0 + 400 * 7.0) / 0.5)
    back = with_allocation(counts, replace(narrow, since=world.now), world.rentals)
    again = resized(back, world.rentals, world.now)
    assert size(world, again, 0.75, 500.0) == pytest.approx((1600 * 4.0 + 400 * 7.0) / 0.75)
    assert len(again.stretches) == 2


def test_what_a_run_cost_before_it_was_resized_in_place_stays_in_its_cost() -> None:
    world = World()
    job = running(world, gpus=8)
    held = job.allocation
    assert held is not None
    hourly = job_cost(job, world.rentals, after(world.now, 3600.0))
    world.passes(3600.0)
    other = replace(held, since=world.now)
    changed = with_allocation(job, other, world.rentals)
    assert job_cost(changed, world.rentals, world.now) == hourly
    world.passes(1800.0)
    counts = resized(changed, world.rentals, world.now)
    world.passes(1800.0)
    assert job_cost(counts, world.rentals, world.now) == hourly + hourly


def test_each_run_counts_at_the_speed_of_its_variant_by_one_measure() -> None:
    world = World()
    job = running(world)
    learned(world, (1.0, 1.0, 4.0))
    known = replace(world.profiles[ClassId("team", "sft")], samples=100.0)
    other = replace(known, id=ClassId("team", "sft.fast"), samples=300.0)
    assert job.allocation is not None
    option = replace(job.allocation.option, variant="fast")
    job = replace(
        job, allocation=replace(job.allocation, option=option), variants=(Variant("fast", other.id, 1, 8, 8),)
    )
    world.passes(1000.0)
    heard = replace(job, progress=Progress(1, 0.25, None, None, world.now))

    def work(*profiles: Profile | None) -> float:
        return total_work(heard, profiles, world.snapshot().gpu_types, 0.25, world.now)

    assert work(known, other) == pytest.approx(4.0 * 3.0 * 1000.0 / 0.25)
    assert work(known, None) == pytest.approx(option.speed * (1000.0 - 30.0) / 0.25)
