"""The demo's jobs as objects that teams already have: they ask for what the demo's TrainingJobs do."""

from __future__ import annotations

from charterer.workloads.adopted.job import ADOPTED_JOB
from charterer.workloads.adopted.job_set import ADOPTED_TRAIN_JOB
from demo.pace import Json
from demo.scenario import training_job, workload
from tests.bench._adopted_jobs import plain_job, train_job

HOUR = workload(30)
_ASKED = ("gpus", "resizePolicy", "spotPolicy", "profileName")
_STORED = {"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-11-27T00:00:00Z"}


def _asked(spec: Json) -> Json:
    return {field: spec[field] for field in _ASKED}


def _created(body: Json) -> Json:
    return body | {"metadata": body["metadata"] | _STORED}


def test_a_labelled_plain_job_asks_for_the_widths_and_the_spot_nodes_of_the_training_job() -> None:
    for job in HOUR.jobs:
        assert _asked(ADOPTED_JOB.shadow(_created(plain_job(HOUR, job)))) == _asked(training_job(HOUR, job)["spec"])


def test_a_train_job_has_the_width_that_the_training_job_prefers_and_no_other() -> None:
    for job in HOUR.jobs:
        preferred = training_job(HOUR, job)["spec"]["gpus"]["preferred"]
        assert _asked(ADOPTED_TRAIN_JOB.shadow(_created(train_job(HOUR, job)))) == {
            "gpus": {"min": preferred, "preferred": preferred, "max": preferred},
            "resizePolicy": "Never",
            "spotPolicy": "Never",
            "profileName": job.application.name,
        }


def test_a_train_job_has_as_few_nodes_as_the_gpus_asked_for_allow() -> None:
    nodes = {job.asked: train_job(HOUR, job)["spec"]["trainer"]["numNodes"] for job in HOUR.jobs}
    assert nodes == {1: 1, 4: 1, 6: 2, 8: 2, 12: 3, 16: 4, 24: 6}
