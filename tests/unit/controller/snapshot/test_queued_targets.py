"""Workloads of Kueue joined with their TrainingJobs: runs that Kueue forgets, slices, and pods of what they are of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.api.decode import JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.runs import candidates, pods_of, run_of
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.jobs.target import Target, TargetRef
from tests import factory

JOB = factory.job()


def workload(name: str = "w", **changes: Any) -> Target:
    fields: dict[str, Any] = {
        "ref": TargetRef("kueue.x-k8s.io/v1beta2", "Workload", name, f"{name}-uid"),
        "namespace": JOB.namespace,
        "resource_version": "1",
        "created": factory.T0,
        "suspended": True,
        "queued_for": "sft",
        "controllers": frozenset(["sft"]),
        "controller_prefix": "sft-",
    }
    return Target(**(fields | changes))


def current(*targets: Target) -> list[Target]:
    keyed = {ObjectKey(target.namespace, target.ref.name): target for target in targets}
    return [found.target for found in candidates({}, {}, {}, keyed)]


def test_a_run_that_kueue_forgot_when_it_was_stopped_is_the_one_still_to_be_recorded() -> None:
    stopped = replace(JOB, replaced=(factory.allocation(run=2),))
    run = run_of(stopped, workload())
    assert run is not None
    assert (run.number, run.suspended) == (2, True)
    assert run_of(JOB, workload()) is None
    assert run_of(stopped, workload(queued_for="")) is None
    placed = run_of(stopped, workload(run=3, job=JOB.id))
    assert placed is not None
    assert placed.number == 3


def test_the_run_of_a_workload_that_others_evicted_is_still_to_be_recorded() -> None:
    given = replace(JOB, allocation=factory.allocation(run=2, since=factory.at(100)))
    evicted = workload(evicted=factory.at(160))
    run = run_of(given, evicted)
    assert run is not None
    assert (run.number, run.suspended) == (2, True)
    assert run_of(given, workload()) is None
    assert run_of(given, workload(evicted=factory.at(90))) is None
    assert run_of(JOB, evicted) is None


def test_what_stopped_the_run_before_is_no_eviction_of_the_next() -> None:
    given = factory.allocation(run=2, since=factory.at(100))
    place = factory.allocation()
    before = RunRecord(
        1, RunOutcome.STOPPED, place.option, place.placements, factory.at(0), factory.at(170), "it moved"
    )
    stopped = replace(JOB, allocation=given, records=(before,))
    assert run_of(stopped, workload(evicted=factory.at(160))) is None
    assert run_of(stopped, workload(evicted=factory.at(180))) is not None


def test_a_workload_by_which_a_job_grows_goes_on_for_the_one_before_until_it_was_started_itself() -> None:
    runs = workload(run=1, job="j", suspended=False, pods=1)
    grows = workload("x", replaces="w", pods=3, placeable=True)
    (now,) = current(runs, grows)
    assert (now.ref.name, now.run, now.pods, now.grows_to, now.suspended) == ("x", 1, 1, 3, False)
    (without_quota,) = current(runs, replace(grows, placeable=False))
    assert (without_quota.run, without_quota.grows_to) == (1, 0)
    (stopped,) = current(runs, replace(grows, admitted=True))
    assert (stopped.run, stopped.suspended, stopped.pods) == (0, True, 3)


def test_workloads_that_name_each_other_end_nothing() -> None:
    assert len(current(workload("a", replaces="b"), workload("b", replaces="a"))) in (1, 2)


def test_its_pods_are_those_of_what_it_is_of_and_of_what_that_made() -> None:
    run = run_of(JOB, workload(run=1, job=JOB.id))
    assert run is not None
    pods = [
        JobPod(JOB.namespace, name, "uid", factory.pod(index))
        for index, name in enumerate(("sft", "sft-node-0", "sftx", "other"))
    ]
    assert len(pods_of(run, workload(), pods)) == 2
