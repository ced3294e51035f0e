"""Whoever waits for an object reads its status by kstatus' rules, as Flux and Helm 4 do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from charterer.api.models.base import dump
from charterer.api.names import UNSEEN_GENERATION
from charterer.api.schema import crd_files
from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.status.jobs import job_view
from charterer.controller.status.publisher import invalid_objects
from charterer.domain.interactive import Interactive
from charterer.domain.job import CANNOT_START, Finish, FinishKind, Job
from charterer.domain.pod import PodPhase
from tests.factory import allocation, at, job, pod, run, snapshot


def kstatus(generation: int, status: dict[str, Any]) -> str:
    """What kstatus (pkg/kstatus/status/generic.go of cli-utils) makes of an object of a kind that it does not know."""
    if status.get("observedGeneration", generation) != generation:
        return "InProgress"
    told = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if told.get("Stalled") == "True":
        return "Failed"
    return "Current" if told.get("Ready", "True") == "True" else "InProgress"


def placed(*pods: Any) -> Job:
    return job(allocation=allocation(), runs=(run(1, *pods),) if pods else (), last_run=1)


FAILED = Finish(FinishKind.FAILED, at(9), "BackoffLimitExceeded", "run 4 failed")
DONE = Finish(FinishKind.COMPLETE, at(9), "Completed", "run 1 completed")


@pytest.mark.parametrize(
    ("one", "read"),
    [
        (job(), "InProgress"),
        (job(budget=None), "InProgress"),
        (job(invalid="the template is refused"), "InProgress"),
        (placed(), "InProgress"),
        (placed(pod(phase=PodPhase.PENDING, ready=False)), "InProgress"),
        (placed(pod()), "Current"),
        (placed(pod(ready=False)), "Current"),
        (job(suspend=True), "Current"),
        (job(interactive=Interactive(asks=3, answered=3)), "Current"),
        (job(finish=DONE), "Current"),
        (job(finish=FAILED), "Failed"),
        (job(finish=Finish(FinishKind.FAILED, at(9), CANNOT_START, "")), "Failed"),
    ],
)
def test_a_job_is_current_once_it_is_as_its_spec_asks(one: Job, read: str) -> None:
    status = dump(job_view(one, None, (), snapshot(one)))
    assert kstatus(one.generation, status) == read
    assert kstatus(one.generation + 1, status) == "InProgress"


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (job(budget=None), "no GPUBudget selects namespace"),
        (job(invalid="the template is refused"), "the template is refused"),
        (placed(pod(phase=PodPhase.PENDING, ready=False, trouble="ErrImagePull")), "ErrImagePull"),
        (job(finish=FAILED), "run 4 failed"),
    ],
)
def test_a_job_that_is_not_ready_says_why(one: Job, message: str) -> None:
    (ready,) = [each for each in job_view(one, None, (), snapshot(one)).conditions if each.type == "Ready"]
    assert message in ready.message


def test_an_object_that_cannot_be_read_has_failed_until_its_spec_changes() -> None:
    store = Store(
        [kinds.TRAINING_JOBS, kinds.SPEEDUP_PROFILES, kinds.GPU_BUDGETS, kinds.GPU_POOLS, kinds.GPU_POOL_SETS]
    )
    raw = {"metadata": {"name": "b", "uid": "u", "resourceVersion": "7", "generation": 3}, "spec": {"amount": "x"}}
    store.put(kinds.GPU_BUDGETS, raw)
    (shown,) = invalid_objects(store)
    status = dump(shown.make(snapshot()))
    assert (kstatus(3, status), kstatus(4, status)) == ("Failed", "InProgress")


def test_a_new_object_that_nobody_has_looked_at_is_not_taken_for_one_that_is_ready() -> None:
    """The API server gives it this status; every kind has it but GPURental, which nobody applies."""
    for name, text in crd_files():
        (version,) = yaml.safe_load(text)["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        if name.startswith("gpurentals"):
            assert "default" not in status
            continue
        new = {**status["default"], "observedGeneration": status["properties"]["observedGeneration"]["default"]}
        assert new == {"observedGeneration": UNSEEN_GENERATION}
        assert kstatus(1, new) == "InProgress"
