"""How a notebook's kernel asks for its GPU, and what it says where it may not: against a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from charterer.cluster.client import RawObject
from charterer_trainer.jupyter.cluster import Cluster, ClusterError
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


def cluster(api: ControlPlane, account: Path, job: str) -> Cluster:
    return Cluster(api.url.removeprefix("https://"), account, "default", job)


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
