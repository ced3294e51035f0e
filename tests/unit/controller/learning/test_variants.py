"""What is learned of the variants of a job: each under its own class."""

from __future__ import annotations

from dataclasses import replace

from charterer.controller.learning.profile_writer import digest
from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import RunOutcome, RunRecord, Variant
from charterer.domain.time import after
from tests.unit.controller.learning.classroom import CLASS, Classroom

OTHER = ClassId("team", "resnet.compressed")
COMPRESSED = Variant("compressed", OTHER, 1, 2, 4)


def with_variant(room: Classroom, job: JobId, runs: str) -> None:
    """The job has a variant, and its run is of the one of that name."""
    world = room.world
    allocation = world.jobs[job].allocation
    assert allocation is not None
    option = replace(allocation.option, variant=runs)
    changed = replace(allocation, option=option)
    world.jobs[job] = replace(world.jobs[job], allocation=changed, variants=(COMPRESSED,))


def test_a_run_teaches_the_class_of_its_own_variant_only() -> None:
    room = Classroom()
    job = room.runs()
    with_variant(room, job, "compressed")
    room.says(job, times=5)
    assert set(room.collector.classes) == {OTHER}
    assert room.collector.learner.widths_run(OTHER) == {"a100": (8,)}
    with_variant(room, job, "")
    room.says(job, times=5)
    assert set(room.collector.classes) == {OTHER, CLASS}


def test_a_run_of_a_variant_that_the_spec_no_longer_names_teaches_nothing() -> None:
    room = Classroom()
    job = room.runs()
    with_variant(room, job, "gone")
    room.says(job, times=5)
    assert room.collector.classes == {}


def test_a_variant_is_learned_at_its_own_widths() -> None:
    room = Classroom()
    job = room.runs()
    with_variant(room, job, "")
    room.says(job, times=5)
    with_variant(room, job, "compressed")
    room.says(job, times=5)
    found = digest(room.collector.learner, OTHER, room.world.snapshot())
    assert found is not None
    assert {entry.gpus for _, entry in found.entries} == {1, 2, 4, 8}


def test_a_variant_that_failed_before_it_was_measured_is_left_alone_by_its_class() -> None:
    room = Classroom()
    job = room.runs()
    with_variant(room, job, "")
    room.says(job, times=5)
    world = room.world
    held = world.jobs[job].allocation
    assert held is not None
    failed = replace(held.option, variant="compressed", gpus=2)
    record = RunRecord(
        1, RunOutcome.FAILED, failed, held.placements, world.now, after(world.now, 60.0), "out of memory"
    )
    world.jobs[job] = replace(world.jobs[job], records=(record,), failures=1)
    world.passes(100.0)
    room.collector.learn_failures(world.snapshot())
    assert room.collector.classes[CLASS].failed == {}
    (width,) = room.collector.classes[OTHER].failed.values()
    assert (width.gpus, width.failures, width.message) == (2, 1, "out of memory")
