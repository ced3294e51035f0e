"""Workloads of Kueue joined with their TrainingJobs: runs that Kueue forgets, slices, and pods of what they are of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.api.decode import DecodedJob, JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.runs import candidates, pods_of, run_of, targets_by_job
from charterer.domain.target import Target, TargetRef
from tests import factory

JOB = factory.job()


REF = TargetRef("batch/v1", "Job", "sft", "object-1", queued=True)


def workload(name: str = "w", **changes: Any) -> Target:
    fields: dict[str, Any] = {
        "ref": REF,
        "namespace": JOB.namespace,
        "resource_version": "1",
        "created": factory.T0,
        "suspended": True,
        "workload": name,
        "controllers": frozenset(["sft"]),
        "controller_prefix": "sft-",
    }
    return Target(**(fields | changes))


def current(*targets: Target) -> list[Target]:
    keyed = {ObjectKey(target.namespace, target.workload): target for target in targets}
    return [found.target for found in candidates({}, {}, {}, keyed)]


def test_a_stopped_object_has_the_run_that_is_to_be_recorded_else_the_one_that_kueue_is_to_be_told() -> None:
    stopped = replace(JOB, replaced=(factory.allocation(run=2),), allocation=factory.allocation(run=3))
    run = run_of(stopped, workload())
    assert run is not None
    assert (run.number, run.suspended) == (2, True)
    next_one = run_of(replace(stopped, replaced=()), workload())
    assert next_one is not None
    assert (next_one.number, next_one.suspended) == (3, True)
    assert run_of(JOB, workload()) is None
    assert run_of(stopped, workload(ref=REF._replace(queued=False))) is None
    carried = run_of(stopped, workload(run=4, job=JOB.id, suspended=False))
    assert carried is not None
    assert carried.number == 4


def test_a_job_has_its_object_while_kueue_makes_another_workload_of_it() -> None:
    decoded = {JOB.id: DecodedJob(replace(JOB, target=REF), "", "")}
    (waits,) = targets_by_job(decoded, {}).values()
    assert (waits.workload, waits.has_quota, waits.placeable, waits.ref) == ("", False, False, REF)
    other = replace(waits, workload="other", ref=REF._replace(uid="object-2"))
    (still,) = targets_by_job(decoded, {ObjectKey(JOB.namespace, "other"): other}).values()
    assert still == waits
    labelled = {JOB.id: DecodedJob(replace(JOB, target=REF._replace(queued=False)), "", "")}
    assert not targets_by_job(labelled, {ObjectKey(JOB.namespace, "w"): workload()})


def test_of_two_workloads_of_an_object_that_counts_which_is_not_being_deleted() -> None:
    former = workload("w", deleting=True, created=factory.at(5))
    (now,) = current(former, workload("x"))
    assert now.workload == "x"


def test_a_workload_by_which_a_job_grows_goes_on_for_the_one_before_until_it_was_started_itself() -> None:
    runs = workload(run=1, job="j", suspended=False, pods=1)
    grows = workload("x", replaces="w", pods=3, placeable=True)
    (now,) = current(runs, grows)
    assert (now.workload, now.run, now.pods, now.grows_to, now.suspended) == ("x", 1, 1, 3, False)
    (without_quota,) = current(runs, replace(grows, placeable=False))
    assert (without_quota.run, without_quota.grows_to) == (1, 0)
    for stopped in (replace(grows, admitted=True), replace(grows, evicted=True)):
        (now,) = current(runs, stopped)
        assert (now.run, now.suspended, now.pods) == (0, True, 3)


def test_a_run_goes_on_if_kueue_ends_the_workload_before_it_lists_the_checks_of_the_one_that_replaces_it() -> None:
    replaced = workload(run=1, job="j", suspended=False, pods=2, deleting=True, checks=("charterer",))
    (now,) = current(replaced, workload("x", replaces="w", pods=3, reserved=True))
    assert (now.workload, now.run, now.pods, now.suspended, now.deleting, now.grows_to) == ("x", 1, 2, False, False, 0)


def test_a_workload_without_checks_is_nobodys_unless_it_replaces_one_of_charterers() -> None:
    assert current(workload("x", replaces="w")) == []
    (now,) = current(workload("x", replaces="w", checks=("charterer",)))
    assert now.workload == "x"


def test_workloads_that_name_each_other_end_nothing() -> None:
    assert len(current(workload("a", replaces="b"), workload("b", replaces="a"))) == 1


def test_its_pods_are_those_of_what_it_is_of_and_of_what_that_made() -> None:
    run = run_of(JOB, workload(run=1, job=JOB.id))
    assert run is not None
    pods = [
        JobPod(JOB.namespace, name, "uid", factory.pod(index))
        for index, name in enumerate(("sft", "sft-node-0", "sftx", "other"))
    ]
    assert len(pods_of(run, workload(), pods)) == 2


def test_the_pods_of_a_queued_job_are_numbered_where_it_numbers_none_itself() -> None:
    run = run_of(JOB, workload(run=1, job=JOB.id))
    assert run is not None
    both = [
        JobPod(JOB.namespace, "sft", "uid", factory.pod(0, name=name, uid=name), numbered=False) for name in ("a", "b")
    ]
    assert [pod.index for pod in pods_of(run, workload(indexed=True), both)] == [0, 1]
    indexed = [JobPod(JOB.namespace, "sft", "uid", factory.pod(index)) for index in (1, 2)]
    assert [pod.index for pod in pods_of(run, workload(indexed=True), indexed)] == [1, 2]
