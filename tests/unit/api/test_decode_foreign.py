"""Jobs and pods that are not Charterer's, as far as their past can be simulated."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api.decode import ForeignWorker, foreign_job, foreign_worker
from charterer.domain.time import parse_instant


def job(**changes: Any) -> dict[str, Any]:
    container = {"name": "t", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    template = {"spec": {"containers": [container], "nodeSelector": {"nvidia.com/gpu.product": "A100"}}}
    return {
        "metadata": {
            "name": "train",
            "namespace": "team",
            "uid": "u1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-06-01T10:00:00Z",
            "labels": {"charterer.dev/profile": "sft"},
            **changes.pop("metadata", {}),
        },
        "spec": {"parallelism": 3, "completions": 2, "template": template, **changes.pop("spec", {})},
        "status": {
            "startTime": "2026-06-01T10:00:01Z",
            "completionTime": "2026-06-01T11:00:00Z",
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-06-01T11:00:02Z"}],
            **changes,
        },
    }


def pod(**status: Any) -> dict[str, Any]:
    owner = {"uid": "u1", "kind": "Job", "name": "train", "controller": True}
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "team",
            "uid": "p1",
            "resourceVersion": "8",
            "creationTimestamp": "2026-06-01T10:00:01Z",
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "t", "resources": {"limits": {"nvidia.com/gpu": 4}}}]},
        "status": {"phase": "Succeeded", "startTime": "2026-06-01T10:05:00Z", **status},
    }


def test_a_job_has_the_gpus_of_the_pods_that_it_runs_at_a_time() -> None:
    found = foreign_job(job())
    assert found is not None
    assert (found.gpus, found.gpu_type, found.profile, found.part_of) == (8, "A100", "sft", "")
    assert found.complete == parse_instant("2026-06-01T11:00:00Z")
    assert found.failed is None


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"labels": {"charterer.dev/job-uid": "x"}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "cpu"}]}}}},
        {"spec": {"template": {}}},
        {"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "some"}}}]}}}},
        {"spec": {"parallelism": 0}},
    ],
)
def test_charterer_s_own_jobs_and_jobs_without_gpus_are_none(changes: dict[str, Any]) -> None:
    assert foreign_job(job(**changes)) is None


def test_a_cron_jobs_job_stands_for_itself_and_a_job_sets_does_not() -> None:
    for kind, part_of in (("CronJob", ""), ("JobSet", "JobSet")):
        found = foreign_job(job(metadata={"ownerReferences": [{"uid": "o", "kind": kind, "controller": True}]}))
        assert found is not None
        assert found.part_of == part_of


def test_a_pod_started_when_its_container_did_or_its_node_took_it() -> None:
    told = {"containerStatuses": [{"state": {"terminated": {"startedAt": "2026-06-01T10:09:00Z"}}}]}
    for status, started in ((told, "2026-06-01T10:09:00Z"), ({}, "2026-06-01T10:05:00Z")):
        assert foreign_worker(pod(**status)) == ForeignWorker(
            "team", "u1", "Job", 4, live=False, succeeded=True, started=parse_instant(started)
        )
    assert foreign_worker({**pod(), "spec": {"containers": [{"name": "cpu"}]}}) is None
