"""Whatever is in deletion, and whatever keeps it: no machine is billed for long after a deletion or the last pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

import pytest

from charterer.domain.job import Job
from charterer.domain.time import Instant, seconds_between
from tests import factory as make
from tests.property.lifecycle.rented_cloud import Cloud
from tests.scenarios.lifecycle.deletion_world import DeletionWorld

MOST_SECONDS = 120
"""Seconds after the later of the deletion and the last pod's end in which the machine must have ended."""


def run_uid(world: DeletionWorld) -> str:
    """The uid of the object that runs the job: a Job of Charterer's own, or the adopted one."""
    (uid,) = [*world.runs, *world.targets]
    return uid


def kept_job(world: DeletionWorld, job: Job) -> None:
    world.keep(job.id)


def kept_run(world: DeletionWorld, job: Job) -> None:
    world.keep(run_uid(world))


def deleted_run(world: DeletionWorld, job: Job) -> None:
    world.keep(run_uid(world))
    world.delete_run(run_uid(world))


def deleted_run_ends(world: DeletionWorld, job: Job) -> None:
    deleted_run(world, job)
    world.complete_pods()


def kept_pod(world: DeletionWorld, job: Job) -> None:
    world.keep(*world.pods)


def silent(world: DeletionWorld, job: Job) -> None:
    world.silence()


def completes(world: DeletionWorld, job: Job) -> None:
    world.complete_pods()


def suspends(world: DeletionWorld, job: Job) -> None:
    if job.id in world.jobs:
        world.jobs[job.id] = replace(world.jobs[job.id], suspend=True)


def foreground(world: DeletionWorld, job: Job) -> None:
    """Its pods go first; an adopted object is what its author deletes."""
    if job.target is not None:
        namespace(world, job)
    elif job.id in world.jobs:
        world.delete_job(job.id, foreground=True)


def orphans(world: DeletionWorld, job: Job) -> None:
    if job.target is not None:
        deletes(world, job)
    elif job.id in world.jobs:
        world.delete_job(job.id, orphans=True)


def deletes(world: DeletionWorld, job: Job) -> None:
    if job.id in world.jobs:
        world.delete_job(job.id)
    for uid in list(world.targets):
        world.delete_run(uid)


def namespace(world: DeletionWorld, job: Job) -> None:
    """All that is in it is deleted, one by one."""
    deletes(world, job)
    for uid in list(world.runs):
        world.delete_run(uid)
    for uid in list(world.pods):
        world.tell_to_end(uid)


KEEPS: Mapping[str, Callable[[DeletionWorld, Job], None]] = {
    "job kept": kept_job,
    "run kept": kept_run,
    "pod kept": kept_pod,
    "run deleted and kept": deleted_run,
    "silent kubelet": silent,
}
"""A finalizer of somebody's, or a kubelet, which keep something."""
ENDS: Mapping[str, Callable[[DeletionWorld, Job], None]] = {
    "the same, and it completes": deleted_run_ends,
    "deleted": deletes,
    "in the foreground": foreground,
    "orphaning": orphans,
    "suspended": suspends,
    "completed": completes,
    "namespace": namespace,
}
CASES = {**KEEPS, **ENDS}


def ways(most: int = 2) -> list[tuple[str, ...]]:
    """Each case and each pair of cases, each with something by which the run is to end."""
    cases = [case for number in range(1, most + 1) for case in combinations(CASES, number)]
    return [case if any(name in ENDS for name in case) else (*case, "deleted") for case in cases]


def played(case: tuple[str, ...], *, adopted: bool) -> tuple[DeletionWorld, Instant]:
    """A world whose job ran until this happened, with when it did; from then on the job's owner wants nothing more."""
    world = DeletionWorld(Cloud(traits=make.REPLYING, stock=9, now=make.at(0)))
    world.pools[make.POOL] = make.pool(max_nodes=1, start_seconds=60.0)
    job = world.create("sft", adopted=adopted)
    world.passes(600, pause=10, until=lambda: bool(world.living()))
    assert world.living(), "set-up: it never ran"
    world.passes(120, pause=10)
    for name in sorted(case, key=list(CASES).index):
        CASES[name](world, job)
    return world, world.cloud.now


def assert_ends_soon(world: DeletionWorld, since: Instant) -> None:
    last = since
    for _ in range(2 * MOST_SECONDS // 5):
        if not world.cloud.alive():
            return
        world.passes(5)
        last = world.cloud.now if world.living() else last
        assert seconds_between(since, last) <= MOST_SECONDS, "what nobody wants trains on"
        assert seconds_between(last, world.cloud.now) <= MOST_SECONDS, "a machine is billed, and nothing lives there"


@pytest.mark.parametrize("adopted", [False, True], ids=["own", "adopted"])
@pytest.mark.parametrize("case", ways(), ids=", ".join)
def test_no_machine_is_kept_by_what_is_in_deletion(case: tuple[str, ...], adopted: bool) -> None:
    world, since = played(case, adopted=adopted)
    assert_ends_soon(world, since)


@pytest.mark.parametrize("adopted", [False, True], ids=["own", "adopted"])
@pytest.mark.parametrize("case", ways(1), ids=", ".join)
def test_an_honest_job_gets_the_only_node(case: tuple[str, ...], adopted: bool) -> None:
    world, _ = played(case, adopted=adopted)
    honest = world.create("honest")
    world.passes(400, until=lambda: world.jobs[honest.id].has_begun or world.jobs[honest.id].allocation is not None)
    assert world.jobs[honest.id].allocation is not None
