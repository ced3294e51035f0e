"""Reports of running jobs are kept by pod, and what holds a run up is found, kept up to date and forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Allocation
from charterer.domain.reports import BottleneckKind, Findings
from charterer.domain.time import after
from charterer.estimate.bottlenecks import FOUND, WINDOW
from charterer.server.progress import ProgressReport
from tests.unit.controller.learning.classroom import Classroom

EVEN, SLOW, WAITS = (0.9, 0.1, 0.0), (1.3, 0.02, 0.0), (0.9, 0.42, 0.0)
Parts = tuple[float, float, float]


class Reporting(Classroom):
    """Jobs whose pods all report the parts of their steps."""

    def say(self, job: JobId, *pods: Parts, times: int = WINDOW, batch: int | None = 256, first: int = 0) -> None:
        allocation = self.allocation(job)
        for _ in range(times):
            self.world.passes(10.0)
            for index, (compute, sync, load) in enumerate(pods, first):
                report = ProgressReport(
                    index=index, batch=batch, compute_seconds=compute, sync_seconds=sync, load_seconds=load
                )
                self.collector.handle_report(job, allocation.run, report, self.world.now)

    def saves(self, job: JobId, *seconds: float) -> None:
        for each in seconds:
            report = ProgressReport(checkpoint_seconds=each)
            self.collector.handle_report(job, self.allocation(job).run, report, self.world.now)

    def allocation(self, job: JobId) -> Allocation:
        allocation = self.world.jobs[job].allocation
        assert allocation is not None
        return allocation

    @property
    def latest(self) -> Findings:
        return self.collector.watch.latest

    def kinds(self, job: JobId) -> list[BottleneckKind]:
        return [found.kind for found in self.latest.by_job.get(job, ())]


def test_a_slow_pod_is_found_with_the_rental_that_it_is_on() -> None:
    room = Reporting()
    job = room.runs(gpus=24)
    room.say(job, WAITS, WAITS, SLOW, times=FOUND - 1)
    assert room.latest.by_job == {}
    room.say(job, WAITS, WAITS, SLOW, times=WINDOW)
    (found,) = room.latest.by_job[job]
    assert (found.kind, found.pod, found.rental) == (BottleneckKind.SLOW_WORKER, 2, "a100-3")
    assert (found.value, found.lost) == (1.44, 0.3)
    assert room.latest.slow_nodes == {"a100-3"}


def test_the_slow_node_is_the_one_on_which_the_scheduler_put_the_pod() -> None:
    room = Reporting()
    job = room.runs(gpus=24)
    held = room.world.jobs[job]
    (run,) = held.runs
    nodes = [pod.node for pod in run.pods]
    pods = tuple(replace(pod, node=node) for pod, node in zip(run.pods, reversed(nodes), strict=True))
    room.world.jobs[job] = replace(held, runs=(replace(run, pods=pods),))
    room.say(job, WAITS, WAITS, SLOW)
    (found,) = room.latest.by_job[job]
    assert (found.pod, found.rental) == (2, "a100-1")
    assert room.latest.slow_nodes == {"a100-1"}


def test_a_job_without_a_class_is_watched_as_well() -> None:
    room = Reporting()
    room.world.job("alone")
    nodes = [room.world.rental().id for _ in range(2)]
    room.world.runs_on("alone", *nodes, gpus=16)
    room.say(JobId("alone"), WAITS, SLOW)
    assert room.kinds(JobId("alone")) == [BottleneckKind.SLOW_WORKER]


def test_a_finding_ends_and_its_node_is_believed_again() -> None:
    room = Reporting()
    job = room.runs(gpus=16)
    room.say(job, WAITS, SLOW)
    room.say(job, EVEN, EVEN)
    assert room.latest == Findings()


def test_another_run_begins_anew_and_the_slow_node_is_kept_in_mind() -> None:
    room = Reporting()
    job = room.runs(gpus=16)
    room.say(job, WAITS, SLOW)
    others = [room.world.rental().id for _ in range(2)]
    room.world.runs_on(job, *others, gpus=16)
    room.say(job, EVEN, EVEN, times=1)
    assert room.latest == Findings(slow_nodes=frozenset({RentalId("a100-2")}))
    room.collector.retain(room.world.jobs.keys(), others)
    assert room.latest == Findings()


def test_a_pod_that_is_slow_after_its_node_was_replaced_casts_no_doubt_on_another_node() -> None:
    room = Reporting()
    job = room.runs(gpus=16)
    room.world.jobs[job] = replace(room.world.jobs[job], nodes_replaced=1)
    room.say(job, WAITS, SLOW)
    assert room.kinds(job) == [BottleneckKind.SLOW_WORKER]
    assert room.latest.slow_nodes == frozenset()


@pytest.mark.parametrize("indexes", [(0, 0), (1, 1), (0, 7)], ids=["both are 0", "both are 1", "there is no 7"])
def test_pods_that_give_wrong_indexes_make_nobody_slow(indexes: tuple[int, int]) -> None:
    room = Reporting()
    job = room.runs(gpus=16)
    for _ in range(2 * WINDOW):
        for index, parts in zip(indexes, (WAITS, SLOW), strict=True):
            room.say(job, parts, times=1, first=index)
    assert BottleneckKind.SLOW_WORKER not in room.kinds(job)


def test_reports_of_another_run_or_of_none_are_left_out() -> None:
    room = Reporting()
    job = room.runs(gpus=16)
    for number in range(WINDOW):
        for index, (compute, sync, _) in enumerate((WAITS, SLOW)):
            report = ProgressReport(index=index, compute_seconds=compute, sync_seconds=sync)
            at = after(room.world.now, number * 10.0)
            room.collector.handle_report(job, 7, report, at)
            room.collector.handle_report(JobId("gone"), 1, report, at)
    assert room.latest == Findings()


def test_a_node_is_slow_by_what_its_class_takes_elsewhere() -> None:
    room = Reporting()
    for number in range(5):
        room.say(room.runs(f"job{number}"), EVEN)
    slow = room.runs("slow")
    room.say(slow, (1.35, 0.0, 0.0))
    (found,) = room.latest.by_job[slow]
    assert (found.kind, found.value, found.rental) == (BottleneckKind.SLOW_NODE, 1.5, "a100-6")
    assert room.latest.slow_nodes == frozenset()  # it may be the job: no node is given back for it
    other = room.runs("other")
    room.say(other, (1.35, 0.0, 0.0), batch=384)
    assert room.kinds(other) == []  # another batch takes longer


def test_a_checkpoint_that_does_not_fit_into_the_grace_period_is_found_at_the_second_save() -> None:
    room = Reporting()
    job = room.runs()
    grace = room.world.jobs[job].grace_seconds
    room.saves(job, 2.0 * grace, 2.0 * grace)
    assert room.kinds(job) == []
    room.saves(job, 2.2 * grace)
    assert room.kinds(job) == [BottleneckKind.CHECKPOINT_TOO_LONG]


def test_jobs_that_are_gone_are_forgotten_and_leave_room_for_others() -> None:
    room = Reporting()
    first, second = room.runs("first", gpus=16), room.runs("second", gpus=16)
    room.collector.watch._most_pods = 3
    room.say(first, WAITS, SLOW)
    room.say(second, WAITS, SLOW)
    assert room.kinds(second) == []
    room.collector.retain({second}, set())
    assert room.latest == Findings()
    room.say(second, WAITS, SLOW)
    assert room.kinds(second) == [BottleneckKind.SLOW_WORKER]
