"""How a notebook's kernel asks for its GPU, and what it says where it may not: against a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import TRAINING_JOBS
from charterer_trainer.jupyter.cluster import Cluster, ClusterError, JobView, MissingJobError
from tests.cluster.crd_cases import make
from tests.cluster.raw_objects import create, delete
from tests.testbed.controlplane import ControlPlane


@pytest.fixture
def account(api: ControlPlane, tmp_path: Path) -> Path:
    """An administrator's token where a pod has its service account's."""
    (tmp_path / "token").write_text(api.admin_token + "\n")
    (tmp_path / "ca.crt").write_bytes(api.ca_file.read_bytes())
    return tmp_path


@pytest.fixture
def jobs(api: ControlPlane) -> Iterator[Callable[..., None]]:
    """Creates a TrainingJob of that name, which is deleted at the end."""
    made: list[RawObject] = []

    def create_job(name: str, **spec: object) -> None:
        made.append(create(api, make("TrainingJob", name, **spec)))

    yield create_job
    for raw in made:
        delete(api, raw)


def cluster(api: ControlPlane, account: Path, job: str, **told: Any) -> Cluster:
    return Cluster(api.url.removeprefix("https://"), account, "default", job, **told)


def test_asks_are_counted_up_and_taken_back(api: ControlPlane, account: Path, jobs: Callable[..., None]) -> None:
    jobs("asked", interactive={})
    job = cluster(api, account, "asked")
    assert [job.ask(), job.ask()] == [1, 2]
    path = "/apis/charterer.dev/v1alpha1/namespaces/default/trainingjobs/asked/status"
    api.call("PATCH", path, {"status": {"interactive": {"answered": 1}}})
    job.withdraw()
    assert (job.view().asks, job.view().answered) == (1, 1)
    api.call("PATCH", path, {"status": {"interactive": {"answered": 7}}})
    assert job.ask() == 8


def test_a_job_that_never_gets_a_gpu_is_told_of(api: ControlPlane, account: Path, jobs: Callable[..., None]) -> None:
    jobs("ended", interactive={})
    finish = {"kind": "Failed", "at": "2026-01-01T00:00:00Z", "reason": "X", "message": "it failed 4 times"}
    path = "/apis/charterer.dev/v1alpha1/namespaces/default/trainingjobs/ended/status"
    api.call("PATCH", path, {"status": {"finish": finish}})
    with pytest.raises(ClusterError, match="default/ended gets no GPU any more: it is Failed: it failed 4 times"):
        cluster(api, account, "ended").ask()
    jobs("plain")
    with pytest.raises(ClusterError, match=r"default/plain has no spec.interactive: create it with one"):
        cluster(api, account, "plain").ask()


def test_what_is_refused_says_what_to_do(api: ControlPlane, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"not found. Create TrainingJob missing with spec.interactive in namespace"):
        cluster(api, account, "missing").ask()
    (account / "token").write_text("nobody")
    with pytest.raises(ClusterError, match="is not accepted"):
        cluster(api, account, "missing").ask()
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(ClusterError, match="the Kubernetes API server does not answer: ConnectionRefusedError"):
        Cluster("127.0.0.1:1", account, "default", "x").ask()


def test_a_kernel_makes_a_job_of_its_own_and_deletes_it(
    api: ControlPlane, account: Path, jobs: Callable[..., None]
) -> None:
    jobs("like-this", interactive={"hourly": "20", "asks": 3})
    pod = {"metadata": {"name": "notebook"}, "spec": {"containers": [{"name": "jupyter", "image": "notebook:gpu"}]}}
    uid = api.call("POST", "/api/v1/namespaces/default/pods", pod)["metadata"]["uid"]
    own = cluster(api, account, "like-this-1a", template="like-this", pod=("notebook", uid))
    with pytest.raises(MissingJobError):
        own.view()
    assert [own.ask(), own.ask()] == [1, 2]
    made = api.call("GET", TRAINING_JOBS.one("like-this-1a", "default"))
    template = api.call("GET", TRAINING_JOBS.one("like-this", "default"))
    assert made["spec"] == template["spec"] | {"interactive": {"hourly": "20", "asks": 2}}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "notebook", uid)
    api.call("DELETE", "/api/v1/namespaces/default/pods/notebook?gracePeriodSeconds=0")
    own.delete()
    own.delete()
    with pytest.raises(MissingJobError):
        own.view()


def test_a_kernel_is_told_that_its_template_is_missing(api: ControlPlane, account: Path) -> None:
    own = cluster(api, account, "none-1a", template="none")
    with pytest.raises(ClusterError, match=r"Create TrainingJob none with spec\.interactive in namespace default"):
        own.ask()


def test_what_was_said_before_a_gpu_was_asked_for_is_not_why_there_is_none() -> None:
    conditions = [{"type": "CapacityAvailable", "reason": "NoGPUWanted", "message": "nothing is asked for"}]
    status = {"why": "NoGPUWanted", "conditions": conditions}
    asked = JobView.of({"spec": {"interactive": {"asks": 1}}, "status": status})
    idle = JobView.of({"spec": {"interactive": {"asks": 0}}, "status": status})
    assert (asked.why, idle.why) == ("", "nothing is asked for")
