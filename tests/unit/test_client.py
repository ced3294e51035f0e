"""``charterer.client``: what is refused without a cluster, and how a job's end is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click
import pytest

from charterer import client
from charterer.cluster.client import Client
from charterer.cluster.credentials import Access
from charterer.cluster.errors import ApiError, NotFound, Unreachable
from charterer.domain.job import ResizePolicy
from tests.unit.api import values
from tests.unit.cli.run.repository import repository


class Answers:
    """An API server that gives these answers to reads of the job, one after the other; the last one again and again."""

    def __init__(self, *answers: Mapping[str, Any] | ApiError) -> None:
        self._answers = list(answers)

    async def __aenter__(self) -> Answers:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get(self, path: str) -> Mapping[str, Any]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer


@dataclass(frozen=True, slots=True)
class Cluster(client.ClusterOptions):
    answers: Answers = field(default_factory=Answers)

    def access(self) -> Access:
        return cast(Access, None)

    def client(self, access: Access) -> Client:
        return cast(Client, self.answers)


JOB = values.raw_job()
SUBMITTED = client.SubmittedJob(JOB["metadata"]["namespace"], JOB["metadata"]["name"], JOB["metadata"]["uid"])
FINISH = {"kind": "Complete", "at": "2026-11-30T08:00:00Z", "reason": "Complete", "message": ""}
COMPLETE = values.raw_job(status={"finish": FINISH})
SILENT = Unreachable("GET", "/", 0, "NoAnswer", "no answer")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer.tools.submission.creation._LOOK_SECONDS", 0.0)


def test_a_job_is_waited_for_until_it_has_ended_however_often_nobody_answers() -> None:
    told: list[str] = []
    ended = client.wait(SUBMITTED, Cluster(answers=Answers(JOB, SILENT, JOB, COMPLETE)), tell=told.append)
    assert ended == client.Ended(True, "Complete", "")
    assert told == ["the API server does not answer, trying again: no answer"]


def test_it_may_be_waited_for_where_an_event_loop_runs() -> None:
    async def notebook() -> client.Ended:
        return client.wait(SUBMITTED, Cluster(answers=Answers(COMPLETE)))

    assert asyncio.run(notebook()).complete


def test_waiting_has_an_end_if_the_job_has_none() -> None:
    with pytest.raises(TimeoutError):
        client.wait(SUBMITTED, Cluster(answers=Answers(JOB)), seconds=0.01)


def other() -> Mapping[str, Any]:
    return {**JOB, "metadata": {**JOB["metadata"], "uid": "another"}}


@pytest.mark.parametrize("answer", [NotFound("GET", "/", 404, "NotFound", "gone"), other()], ids=["gone", "another"])
def test_a_job_that_was_deleted_or_is_another_one_is_an_error(answer: Mapping[str, Any] | ApiError) -> None:
    with pytest.raises(client.ClientError, match=f"TrainingJob {SUBMITTED} was deleted"):
        client.wait(SUBMITTED, Cluster(answers=Answers(JOB, answer)))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"gpus": (8, 4)}, "gpus is (8, 4): write a number of GPUs, 4, or the least and the most, (4, 32)"),
        ({"gpus": 0}, "gpus is 0: write"),
        ({"gpus": 1, "git": "HEAD"}, "--git and --no-code exclude each other"),
        ({"gpus": 1, "resize": "Sometimes"}, "resize is 'Sometimes': write Never, Restart, InPlace"),
        ({"gpus": 1, "max_cost": "twenty"}, "max_cost: 'twenty' is no amount of money"),
        ({"gpus": 1, "max_cost": "0"}, "can never run"),
        ({"gpus": 1, "complete_by": datetime(2026, 12, 1)}, "has no time zone: add tzinfo"),  # noqa: DTZ001 - meant
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(given: dict[str, Any], wanted: str) -> None:
    with pytest.raises(client.ClientError) as error:
        client.new_job(["python", "train.py"], no_code=True, **given)
    assert wanted in str(error.value)
    assert isinstance(error.value, click.ClickException)


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(client.ClientError, match="the command is empty"):
        client.new_job([], gpus=1, no_code=True)


def test_a_job_has_what_was_asked_for_and_the_code_of_its_directory(tmp_path: Path) -> None:
    code = repository(tmp_path, {"train.py": "print(1)"})
    (code / "notes.txt").write_text("")
    by = datetime(2026, 12, 1, 18, tzinfo=UTC)
    job = client.new_job(
        ["python", "train.py"],
        gpus=(4, 32),
        directory=code,
        resize="Restart",
        max_cost="20.50",
        complete_by=by,
        env={"HF_TOKEN": "x"},
        volumes=[("data", "/data"), ("data", "/more")],
    )
    assert (job.gpus.min, job.gpus.max, job.resize, str(job.max_cost)) == (4, 32, ResizePolicy.RESTART, "$20.50")
    assert [(volume.claim, volume.path) for volume in job.volumes] == [("data", "/data"), ("data", "/more")]
    assert isinstance(job.code, bytes)
    assert job.name.startswith("train-")
    untracked, secret = job.warnings
    assert untracked.startswith("notes.txt stays here")
    assert secret.startswith("HF_TOKEN may be secret")
