"""``charterer logs``: what pods print, and what is left when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import click
import pytest

from charterer.cluster.client import Client, Listing
from charterer.cluster.errors import BadRequest, NotFound
from charterer.tools.commands.logs import LogOptions, print_logs
from charterer.tools.commands.shared.one_namespace import JobName
from tests.unit.api import values

UID, NAME = values.UID, values.raw_job()["metadata"]["name"]


def owned(name: str, kind: str, owner: str, owner_uid: str, **meta: Any) -> dict[str, Any]:
    group = "batch/v1" if kind == "Job" else "charterer.dev/v1alpha1"
    reference = {"apiVersion": group, "kind": kind, "name": owner, "uid": owner_uid, "controller": True}
    times = {"resourceVersion": "7", "creationTimestamp": "2026-01-31T12:00:00Z"}
    return {"metadata": {"name": name, "uid": f"uid-{name}", **times, "ownerReferences": [reference], **meta}}


def batch_job(run: int, owner_uid: str = UID) -> dict[str, Any]:
    labels = {"charterer.dev/job-uid": UID, "charterer.dev/run": str(run)}
    return owned(f"{NAME}-r{run}", "TrainingJob", NAME, owner_uid, labels=labels)


def pod(run: int, index: object, name: str = "", job_uid: str = "", label: str = "") -> dict[str, Any]:
    """A pod of a run's Job, unless ``job_uid`` is another's; labels say what they like."""
    made = owned(
        name or f"{NAME}-r{run}-{index}",
        "Job",
        f"{NAME}-r{run}",
        job_uid or f"uid-{NAME}-r{run}",
        labels={"charterer.dev/job-uid": UID, "charterer.dev/run": label or str(run)},
        annotations={"batch.kubernetes.io/job-completion-index": str(index)},
    )
    return made | {"spec": {"containers": [{"name": "trainer"}, {"name": "sidecar"}]}}


class Api:
    """One TrainingJob with two runs, its pods, and their logs by name; a pod without logs has not started."""

    def __init__(self, status: Mapping[str, Any], *pods: dict[str, Any], **logs: str) -> None:
        self.raw = {**values.raw_job(), "status": status}
        self.jobs = (batch_job(1), batch_job(2), batch_job(99, "of somebody else"))
        self.pods = pods
        self.logs = {name.replace("_", "-"): text for name, text in logs.items()}
        self.asked: list[Mapping[str, str]] = []

    async def get(self, path: str) -> Mapping[str, Any]:
        if not path.endswith(f"/{self.raw['metadata']['name']}"):
            raise NotFound("GET", path, 404, "NotFound", "no such job")
        return self.raw

    async def list(self, path: str, *, labels: str = "") -> Listing:
        if path.endswith("/trainingjobs"):
            return Listing((self.raw,), 1)
        assert labels == f"charterer.dev/job-uid={self.raw['metadata']['uid']}"
        return Listing(self.jobs if path.endswith("/jobs") else self.pods, 1)

    async def lines(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[str]:
        self.asked.append(query)
        name = path.split("/")[-2]
        if name not in self.logs:
            raise BadRequest("GET", path, 400, "BadRequest", "container trainer is waiting to start")
        for line in self.logs[name].removesuffix("\n").split("\n"):
            yield line


PLACES = [{"rental": "a100-1", "gpus": 4}]
FAILED = {
    "number": 1,
    "outcome": "Failed",
    "option": {"pool": "a100", "gpus": 4, "speed": 1.0, "hourly": "12.00"},
    "placements": PLACES,
    "since": "2026-01-31T12:00:00.000000Z",
    "until": "2026-01-31T12:01:00.000000Z",
    "message": "pod sft-r1-0 exited with 1: Error: CUDA out of memory",
}


def printed(
    api: Api, capsys: pytest.CaptureFixture[str], options: LogOptions | None = None, name: str = NAME
) -> tuple[list[str], str]:
    asyncio.run(print_logs(cast(Client, api), JobName("", name), "research", options or LogOptions()))
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_the_latest_run_that_has_pods_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api({}, pod(1, 0), pod(2, 0), sft_r1_0="old", sft_r2_0="step 1\nstep 2")
    assert printed(api, capsys)[0] == ["step 1", "step 2"]
    assert printed(api, capsys, LogOptions(run=1, tail=5, follow=True))[0] == ["old"]
    assert api.asked[-1] == {"follow": "true", "tailLines": "5", "container": "trainer"}


def test_the_lines_of_several_pods_begin_with_their_index(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api({}, pod(2, 1), pod(2, 0), sft_r2_0="zero", sft_r2_1="one")
    assert printed(api, capsys)[0] == ["[0] zero", "[1] one"]


def test_a_pod_that_has_not_started_does_not_hide_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = printed(Api({}, pod(2, 0), pod(2, 1), sft_r2_1="one"), capsys)
    assert lines == ["[1] one"]
    assert "[0] sft-r2-0: container trainer is waiting to start" in said


def test_only_pods_of_runs_that_the_job_controls_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Labels, names and owners as somebody with the right to create pods writes them into his own."""
    forged = [
        pod(99, 0),
        pod(2, 0, name="labels", job_uid="uid-of-a-job-that-is-none"),
        pod(2, 0, name="no-number", job_uid="another", label="x"),
        pod(2, "x", name="no-index"),
    ]
    api = Api({}, pod(2, 0, label="x"), *forged, sft_r99_0="bad", sft_r2_0="good", labels="bad", no_number="bad")
    lines, said = printed(api, capsys)
    assert lines == ["good"]
    assert "sft-r2: 1 pod" in said


def test_a_terminal_shows_control_characters_and_a_pipe_gets_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api({}, pod(2, 0), sft_r2_0="\x1b[2Jnothing wrong\u202e\n 10%|#\r 20%|##\n")
    assert printed(api, capsys)[0] == ["\x1b[2Jnothing wrong\u202e", " 10%|#", " 20%|##"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert printed(api, capsys)[0] == ["\\u001b[2Jnothing wrong\\u202e", " 20%|##"]


def test_when_the_pods_are_gone_the_kept_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = printed(Api({"runs": [FAILED], "lastRun": 1}), capsys)
    assert lines == ["pod sft-r1-0 exited with 1: Error: CUDA out of memory"]
    assert "has ended (Failed), and its pods are gone" in said


def test_a_job_without_a_run_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = printed(Api({"state": "Queued", "why": "NoOption"}), capsys)
    assert lines == []
    assert "has no pods: it is Queued (NoOption); see charterer explain" in said


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [("other", LogOptions(), "no TrainingJob 'other'"), (NAME, LogOptions(run=7), "those on record are: 1")],
)
def test_what_does_not_exist_is_an_error(
    name: str, options: LogOptions, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(click.ClickException, match=message):
        printed(Api({"runs": [FAILED], "lastRun": 1}), capsys, options, name)
