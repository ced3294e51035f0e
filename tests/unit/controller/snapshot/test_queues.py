"""What a queue of Kueue asks beside Charterer's check: a check of MultiKueue is refused before anything is rented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api.decode import DecodedCheck, DecodedJob, DecodedNamespace, admission_check
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.kueue_checks import CheckAnswer, answers
from charterer.controller.snapshot.observe import observe
from charterer.domain.budget import Mode
from charterer.domain.job import CANNOT_START, Finish, FinishKind
from charterer.domain.plan import ReasonCode
from charterer.domain.snapshot import Snapshot
from charterer.policy.jobs.job_facts import not_wanted
from charterer.workloads.adopted.kueue_workload import decode_workload
from charterer.workloads.adopted.ray_job import ADOPTED_RAY_JOB, QUEUED_RAY_JOBS
from tests import factory
from tests.contract.adopted_objects import ray_job
from tests.unit.controller.snapshot.test_offers import STATE
from tests.unit.workloads.test_kueue_workload import pod_set, workload

NAMESPACE = "research"
TEAM = factory.budget()
REFUSED = (
    "AdmissionCheck far of MultiKueue runs it in another cluster, and nodes that Charterer rents here would stay "
    "empty: keep only one of MultiKueue's check and charterer in its queue"
)


def asked(controller: str) -> DecodedCheck:
    metadata = {"name": "far", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-11-26T19:00:00Z"}
    return admission_check({"metadata": metadata, "spec": {"controllerName": controller}})


def seen(*pod_sets: Any, controller: str = "kueue.x-k8s.io/multikueue", **changes: Any) -> Snapshot:
    """A cluster with one queued Job, whose queue asks this check, too, which is not ready."""
    raw = workload(*pod_sets)
    raw["status"]["admissionChecks"][0] |= {"name": "far", "state": "Pending"}
    target = decode_workload(raw)
    assert target is not None
    state = replace(
        STATE,
        budgets={ObjectKey("", TEAM.id): TEAM},
        namespaces={ObjectKey("", NAMESPACE): DecodedNamespace(NAMESPACE, {"team": TEAM.id})},
        targets=({ObjectKey(NAMESPACE, target.workload): target},),
        checks={ObjectKey("", "far"): asked(controller)},
    )
    return observe(replace(state, **changes), factory.at(600))


def said(snapshot: Snapshot) -> CheckAnswer:
    (only,) = answers(snapshot, {})
    return only


def test_a_queue_that_asks_multikueue_too_is_refused_in_its_check() -> None:
    snapshot = seen()
    assert snapshot.candidates[0].target.problem == REFUSED
    assert (said(snapshot).ready, said(snapshot).message) == (False, REFUSED)
    assert not seen(controller="example.org/other").candidates[0].target.problem


@pytest.mark.parametrize(
    ("pod_sets", "mode"), [((pod_set(gpus=0),), Mode.ENFORCE), ((), Mode.OBSERVE)], ids=["no GPUs", "observes"]
)
def test_what_charterer_pays_nothing_for_is_multikueues_matter(pod_sets: Any, mode: Mode) -> None:
    budgets = {ObjectKey("", TEAM.id): factory.budget(mode=mode)}
    assert said(seen(*pod_sets, budgets=budgets)).ready


def test_no_gpus_are_looked_for_once_its_queue_asks_multikueue_too() -> None:
    """The TrainingJob was made before. What runs already runs on."""
    (candidate,) = seen().candidates
    mine = factory.job(target=candidate.target.ref)
    jobs = {ObjectKey(NAMESPACE, mine.name): DecodedJob(mine, "", "")}
    (job,) = seen(jobs=jobs).jobs.values()
    why = not_wanted(job)
    assert why is not None
    assert (why.code, why.message) == (ReasonCode.NOT_ADOPTED, f"Job sft can begin no run: {REFUSED}")
    assert not job.wants_to_run
    assert job.adopted is not None
    assert replace(job, adopted=replace(job.adopted, suspended=False)).unplaceable == ""


def test_the_check_of_a_job_that_is_given_up_says_why() -> None:
    """Its conditions say only that it has ended."""
    (candidate,) = seen(controller="example.org/other").candidates
    why = "3 runs in a row never started; the last one: run 3 can never start: its submitter: FailedCreate"
    gone = factory.job(
        target=candidate.target.ref, finish=Finish(FinishKind.FAILED, factory.at(500), CANNOT_START, why)
    )
    snapshot = seen(jobs={ObjectKey(NAMESPACE, gone.name): DecodedJob(gone, "", "")})
    (only,) = answers(snapshot, {gone.id: "the job has ended: Failed"})
    assert only.message == f"it is given up: {why}. Delete the Job, and create it again without that"
    assert not only.ready


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"jobDeploymentStatus": "Initializing"}, "KubeRay says Initializing of it, not Running"),
        ({"jobDeploymentStatus": "Running"}, "Ray has not heard of its entrypoint"),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, ""),
        (None, "KubeRay says nothing of it, not Running"),
    ],
)
@pytest.mark.parametrize("queued", [True, False])
def test_a_ray_job_is_not_complete_before_ray_has_heard_of_its_entrypoint(
    status: Any, words: str, queued: bool
) -> None:
    """Its workers may run while its head cannot, or nobody submits. Its Workload says nothing of it."""
    labels = {"kueue.x-k8s.io/queue-name": "research"} if queued else {"charterer.dev/adopt": "true"}
    metadata = {"name": "sft", "namespace": NAMESPACE, "uid": "owner-uid", "resourceVersion": "1", "labels": labels}
    raw = ray_job("sft") | {"metadata": metadata | {"creationTimestamp": "2026-11-26T19:00:00Z"}, "status": status}
    if not queued:
        assert ADOPTED_RAY_JOB.read(raw).incomplete.startswith(words)
        assert bool(words) == bool(ADOPTED_RAY_JOB.read(raw).incomplete)
        return
    waiting = QUEUED_RAY_JOBS.decode(raw)
    told = {} if waiting is None else {ObjectKey(NAMESPACE, "sft"): waiting}
    (candidate,) = seen(controller="example.org/other", waiting=told).candidates
    assert candidate.target.incomplete.startswith(words)
    assert bool(words) == bool(candidate.target.incomplete)
