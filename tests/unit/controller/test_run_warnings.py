"""What Events say of runs that start late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from charterer.api import decode
from charterer.cluster.client import Client, Listing
from charterer.cluster.errors import Unreachable
from charterer.controller.run_warnings import RunWarnings
from charterer.domain.job import Job, Run, StartWarnings
from charterer.domain.pod import PodPhase
from charterer.domain.target import TargetRef
from charterer.domain.time import after
from tests.factory import allocation, at, job, pod, run, snapshot
from tests.virtual_time import run_in_virtual_time

SUMMER = 365 * 86_400.0
PENDING = pod(phase=PodPhase.PENDING, ready=False)


def event(reason: str, note: str, second: int) -> dict[str, Any]:
    metadata = {
        "name": f"{reason}-{second}",
        "uid": f"{reason}-{second}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-06-01T00:00:00Z",
    }
    return {
        "metadata": metadata,
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": f"2026-06-01T00:00:{second:02}Z",
    }


class Api:
    """Events by what they are about; ``asked`` about. ``pods``: pods beside a RayJob's workers, by their selectors."""

    def __init__(
        self,
        events: dict[str, list[dict[str, Any]]],
        ray_job: dict[str, Any] | None = None,
        pods: dict[str, list[dict[str, Any]]] | None = None,
    ) -> None:
        self.events = events
        self.ray_job = ray_job
        self.pods = pods or {}
        self.asked: list[str] = []
        self.down = False

    async def list(self, path: str, *, fields: str = "", labels: str = "") -> Listing:
        if self.down:
            raise Unreachable("GET", path, 503, "", "no")
        if labels:
            return Listing(tuple(self.pods.get(labels, [])), 1)
        subject = fields.removeprefix("regarding.uid=").removesuffix(",type=Warning")
        self.asked.append(subject)
        return Listing(tuple(self.events.get(subject, [])), 1)

    async def get(self, path: str) -> dict[str, Any]:
        assert self.ray_job is not None
        assert path.endswith(f"/rayjobs/{self.ray_job['metadata']['name']}")
        return self.ray_job


def looked(
    api: Api, *runs: Run, now: float = 60, times: int = 1, kind: str = ""
) -> tuple[dict[str, StartWarnings], int]:
    """What is known after a look at a job with these runs, and how often a change was told."""
    changes: list[None] = []
    target = TargetRef("v1", kind, "sft-r1", "u") if kind else None
    mine: Iterable[Job] = [job(allocation=allocation(), runs=runs, target=target)]

    async def main() -> dict[str, StartWarnings]:
        warnings = RunWarnings(cast(Client, api), lambda: changes.append(None))
        for _ in range(times):
            await warnings.look(snapshot(*mine, now=at(now)))
        return dict(warnings.latest)

    return run_in_virtual_time(main()), len(changes)


def test_a_job_that_may_not_make_pods_is_told_by_its_last_warning() -> None:
    refused = [event("FailedCreate", "violates PodSecurity", 40), event("FailedCreate", "older", 10)]
    api = Api({"run-uid-sft-1": refused})
    assert looked(api, run(completions=1), times=3) == (
        {"run-uid-sft-1": StartWarnings(missing="FailedCreate: violates PodSecurity")},
        1,
    )


def test_a_pod_that_says_nothing_itself_is_asked_about_as_well() -> None:
    api = Api({PENDING.uid: [event("FailedMount", 'secret "data" not found', 30)]})
    assert looked(api, run(1, PENDING))[0] == {
        "run-uid-sft-1": StartWarnings(pod='FailedMount: secret "data" not found')
    }


@pytest.mark.parametrize(
    "one",
    [
        run(1, pod()),
        run(1, PENDING, started=at(55)),
        run(1, PENDING, suspended=True),
        run(1, PENDING, failed=at(50)),
        run(1, replace(PENDING, trouble="Unschedulable: no node")),
    ],
)
def test_nothing_is_asked_about_a_run_that_runs_or_is_young_or_says_itself_what_it_lacks(one: Run) -> None:
    api = Api({})
    assert looked(api, one) == ({}, 0)
    assert api.asked == []


def test_what_is_known_stays_while_the_api_server_does_not_answer() -> None:
    api = Api({"run-uid-sft-1": [event("FailedCreate", "no quota", 40)]})

    async def main() -> None:
        warnings = RunWarnings(cast(Client, api), lambda: None)
        late = snapshot(job(allocation=allocation(), runs=(run(completions=1),)), now=at(60))
        await warnings.look(late)
        api.down = True
        await warnings.look(late)
        assert warnings.latest == {"run-uid-sft-1": StartWarnings(missing="FailedCreate: no quota")}
        await warnings.look(snapshot(job(), now=at(60)))
        assert warnings.latest == {}

    run_in_virtual_time(main())


def test_what_was_said_of_an_earlier_run_of_the_same_object_is_not_said_of_this_one() -> None:
    api = Api({"run-uid-sft-1": [event("FailedCreate", "violates PodSecurity", 4)]})
    later = run(completions=1, started=after(decode.warning_event(event("", "", 4))[0], 1.0))
    assert looked(api, later, now=SUMMER)[0] == {}


# What a RayJob needs beside its workers, which all run here.

WAITS = replace(run(1, pod()), incomplete="KubeRay says Initializing of it, not Running")
HEAD, SUBMITTER = "ray.io/cluster=sft-x,ray.io/node-type=head", "batch.kubernetes.io/job-name=sft-r1"
RUNS, STARTS = {"phase": "Running"}, {"phase": "Pending"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}


def ray_job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": WAITS.name}, "spec": spec, "status": {"rayClusterName": "sft-x"}}


def beside(uid: str, status: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"metadata": {"uid": uid}, "status": status}]


@pytest.mark.parametrize(
    ("events", "pods", "said"),
    [
        (
            {WAITS.uid: [event("FailedToCreateRayJobSubmitter", "exceeded quota", 30)]},
            {HEAD: beside("head", RUNS)},
            "FailedToCreateRayJobSubmitter: exceeded quota",
        ),
        (
            {f"regarding.kind=Job,regarding.name={WAITS.name}": [event("FailedCreate", "violates PodSecurity", 30)]},
            {HEAD: beside("head", RUNS)},
            "its submitter: FailedCreate: violates PodSecurity",
        ),
        (
            {},
            {HEAD: beside("head", RUNS), SUBMITTER: beside("s", {**STARTS, "conditions": [UNSCHEDULABLE]})},
            "its submitter: Unschedulable: no node",
        ),
        (
            {"s": [event("FailedMount", 'secret "code" not found', 30)]},
            {HEAD: beside("head", RUNS), SUBMITTER: beside("s", STARTS)},
            'its submitter: FailedMount: secret "code" not found',
        ),
        (
            {"regarding.kind=RayCluster,regarding.name=sft-x": [event("FailedToCreateHeadPod", "exceeded quota", 30)]},
            {},
            "its head: FailedToCreateHeadPod: exceeded quota",
        ),
    ],
    ids=["submitter refused", "its pod refused", "its pod has no node", "its pod starts", "head refused"],
)
def test_a_ray_job_that_does_not_begin_is_told_what_it_lacks_beside_its_workers_and_the_remedy(
    events: Any, pods: Any, said: str
) -> None:
    ((text, of_pod),) = looked(Api(events, ray_job(submissionMode="K8sJobMode"), pods), WAITS)[0].values()
    assert not of_pod
    assert text.startswith(f"{said} (let the quotas and admission rules of its namespace allow its head and its submit")
    assert "HTTPMode" in text


def test_a_ray_job_without_a_submitter_is_not_told_to_have_none() -> None:
    about = {"regarding.kind=RayCluster,regarding.name=sft-x": [event("FailedToCreateHeadPod", "exceeded quota", 30)]}
    api = Api(about, ray_job(submissionMode="HTTPMode"))
    ((text, _),) = looked(api, WAITS)[0].values()
    assert text.endswith("(let the quotas and admission rules of its namespace allow its head)")
    assert not [subject for subject in api.asked if "kind=Job" in subject]


def test_nothing_is_said_of_a_ray_job_whose_head_only_takes_its_time() -> None:
    assert looked(Api({}, ray_job(), {HEAD: beside("head", STARTS)}), WAITS) == ({}, 0)


@pytest.mark.parametrize(
    "events",
    [
        {WAITS.uid: [event("FailedToCreateRayJobSubmitter", "exceeded quota", 30)]},
        {f"regarding.kind=Job,regarding.name={WAITS.name}": [event("FailedCreate", "violates PodSecurity", 30)]},
    ],
)
def test_what_was_refused_and_runs_by_now_is_no_longer_told_of(events: Any) -> None:
    assert looked(Api(events, ray_job(), {HEAD: beside("h", RUNS), SUBMITTER: beside("s", RUNS)}), WAITS) == ({}, 0)
    assert looked(Api(events, ray_job(), {HEAD: beside("h", RUNS), SUBMITTER: beside("s", STARTS)}), WAITS) == ({}, 0)


def test_what_is_missing_is_told_apart_from_what_a_pod_waits_for() -> None:
    """The Event about the pod is the newer one."""
    refused, late = [event("FailedCreate", "exceeded quota", 10)], [event("FailedMount", "timed out", 30)]
    found, _ = looked(Api({"run-uid-sft-1": refused, PENDING.uid: late}), run(1, PENDING, completions=2))
    assert found == {"run-uid-sft-1": StartWarnings("FailedCreate: exceeded quota", "FailedMount: timed out")}


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_a_job_of_a_job_set_that_may_not_make_pods_is_told(kind: str) -> None:
    """The JobSet itself has no Event about that. A Job that has its pods is not asked about."""
    jobs = [
        {"metadata": {"name": f"sft-{name}", "uid": name}, "spec": {"parallelism": 2}, "status": {"active": active}}
        for name, active in (("ready", 2), ("node", 1))
    ]
    refused = [event("FailedCreate", "violates PodSecurity", 30)]
    api = Api({"node": refused, "ready": refused}, pods={"jobset.sigs.k8s.io/jobset-name=sft-r1": jobs})
    found, _ = looked(api, run(1, PENDING, completions=4), kind=kind)
    assert found == {"run-uid-sft-1": StartWarnings(missing="Job sft-node: FailedCreate: violates PodSecurity")}
    assert "ready" not in api.asked


def test_workers_of_a_ray_job_that_are_refused_are_told() -> None:
    of_cluster = "regarding.kind=RayCluster,regarding.name=sft-x,reason=FailedToCreateWorkerPod"
    api = Api(
        {of_cluster: [event("FailedToCreateWorkerPod", "exceeded quota", 30)]}, ray_job(), {HEAD: beside("h", RUNS)}
    )
    found, _ = looked(api, replace(WAITS, pods=()))
    assert found == {WAITS.uid: StartWarnings(missing="FailedToCreateWorkerPod: exceeded quota")}
    assert looked(api, WAITS) == ({}, 0)
