"""Resizes in place with the real Job controller; trainers that form groups are played by posts of their pods."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from charterer.api.names import ANNOTATION_ALLOCATION, token_audience
from charterer.cluster.client import RawObject
from charterer.cluster.paths import JOBS, SECRETS, TRAINING_JOBS
from tests.cluster.test_learning import progress_port
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import SYSTEM, Bed
from tests.testbed.operators import Killer, OperatorProcess


class Pods:
    """The training processes of a job's pods, which talk to whichever operator leads."""

    def __init__(self, bed: Bed, job: str, operator: OperatorProcess) -> None:
        self._bed, self._job, self._operator = bed, job, operator
        self._tokens: dict[str, str] = {}

    async def says(self, index: int = 0, **numbers: object) -> Mapping[str, Any]:
        """The answer to a report of the pod with that index; the operator may still be starting."""
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                answer = await self._post(index, {"run": self._bed.run(self._job), "index": index, **numbers})
                if answer is not None:
                    return answer
                await asyncio.sleep(0.2)

    async def hears_of(self, expected: int, index: int = 0, **numbers: object) -> Mapping[str, Any]:
        """The members of that generation, as the pod hears of them; it waits for each change."""
        known = expected - 1
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                members: dict[str, Any] = (await self.says(index, waitGeneration=known, **numbers))["members"]
                if members["generation"] >= expected:
                    return members

    async def trains_in(self, generation: int, fraction: float) -> None:
        """The leader says it, again and again as trainers do, until that is on record."""
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while self._bed.tj(self._job).get("group", {}).get("formed") != generation:
                await self.says(generation=generation, fraction=fraction, resizeSeconds=0.5)
                await asyncio.sleep(0.2)

    async def _post(self, index: int, numbers: Mapping[str, object]) -> dict[str, Any] | None:
        secret = await self._bed.kube.get(SECRETS.one("charterer-progress-tls", SYSTEM))
        authority = base64.b64decode(secret["data"]["ca.crt"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        url = f"https://localhost:{await progress_port(self._operator)}/v1/progress"
        headers = {"Authorization": f"Bearer {self._token(index)}"}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, json=dict(numbers), headers=headers, ssl=tls) as answer,
            ):
                return await answer.json() if answer.status == 200 else None
        except aiohttp.ClientError:
            return None

    def _token(self, index: int) -> str:
        pod = by_index(self._bed, self._job)[index]["metadata"]
        if pod["uid"] not in self._tokens:
            uid = (self._bed.mirror.one(TRAINING_JOBS, self._job, self._bed.namespace) or {})["metadata"]["uid"]
            bound = ("--bound-object-kind", "Pod", "--bound-object-name", pod["name"], "--bound-object-uid", pod["uid"])
            words = ("create", "token", "default", "-n", self._bed.namespace, "--audience", token_audience(uid))
            self._tokens[pod["uid"]] = self._bed.plane.kubectl(*words, *bound).strip()
        return self._tokens[pod["uid"]]


def by_index(bed: Bed, job: str) -> dict[int, RawObject]:
    """The job's pods that run."""
    key = "batch.kubernetes.io/job-completion-index"
    running = [pod for pod in bed.pods(job) if pod["status"].get("phase") == "Running"]
    return {int(pod["metadata"]["annotations"][key]): pod for pod in running}


def _job(bed: Bed) -> dict[str, Any]:
    found: dict[str, Any] = (bed.mirror.one(JOBS, "train-r1", bed.namespace) or {})["spec"]
    return found


def _told(bed: Bed) -> list[int]:
    """The width of the run as each of its pods may read it."""
    return [json.loads(pod["metadata"]["annotations"][ANNOTATION_ALLOCATION])["gpus"] for pod in bed.pods("train")]


def _resizing(bed: Bed) -> str:
    raw = bed.mirror.one(TRAINING_JOBS, "train", bed.namespace)
    return str(bed.condition(raw, "Resizing").get("message", ""))


async def _wants(bed: Bed, gpus: int) -> None:
    spec = {"gpus": {"min": gpus, "preferred": gpus, "max": gpus}}
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": spec})


async def _ground(bed: Bed, operator: OperatorProcess, **spec: Any) -> Pods:
    """A job of one pod, whose trainer has named its group."""
    await bed.pool()
    await bed.budget()
    await bed.job("train", resizePolicy="InPlace", **spec)
    await bed.running("train")
    pods = Pods(bed, "train", operator)
    answer = await pods.says(fraction=0.0)
    assert answer["members"]["indexes"] == [0]
    assert answer["members"]["addresses"] == ["train-r1-0.train"]
    await pods.trains_in(1, 0.1)
    return pods


async def _there_and_back(bed: Bed, pods: Pods) -> None:
    """From one pod to two and back: the first one trains all the time."""
    (first,) = by_index(bed, "train").values()
    await _wants(bed, 8)
    members = await pods.hears_of(2)
    assert members["indexes"] == [0, 1]
    await bed.until(lambda: set(by_index(bed, "train")) == {0, 1})
    assert (await pods.says(1, waitGeneration=1))["members"]["indexes"] == [0, 1]
    await bed.until(lambda: _resizing(bed).startswith("1 of 2 pods trains; 1 is getting ready"))
    assert (bed.tj("train")["gpus"], bed.state("train")) == (4, "Resizing")
    assert _job(bed)["backoffLimit"] > 0
    await pods.trains_in(2, 0.2)
    await bed.until(lambda: bed.tj("train").get("gpus") == 8 and bed.state("train") == "Running")
    await bed.until(lambda: _job(bed)["backoffLimit"] == 0 and _told(bed) == [8, 8])
    await _wants(bed, 4)
    assert (await pods.hears_of(3, generation=2))["indexes"] == [0]
    assert _job(bed)["completions"] == 2
    assert set(by_index(bed, "train")) == {0, 1}
    await pods.trains_in(3, 0.3)
    await bed.until(lambda: bed.tj("train").get("gpus") == 4 and _job(bed)["completions"] == 1)
    await bed.until(lambda: _told(bed) == [4] and bed.state("train") == "Running")
    (last,) = by_index(bed, "train").values()
    assert last["metadata"]["uid"] == first["metadata"]["uid"]
    assert (bed.run("train"), bed.tj("train").get("runs", [])) == (1, [])


@pytest.mark.repeats  # the next test, with kills
async def test_a_run_is_widened_and_narrowed_in_place_and_its_width_counts_when_the_leader_says_so(bed: Bed) -> None:
    operator = bed.operator()
    pods = await _ground(bed, operator)
    await _there_and_back(bed, pods)
    await pods.says(fraction=1.0, generation=3)
    await bed.finish("train")
    await bed.complete("train")


async def test_killed_around_each_step_in_place_the_operator_goes_on_where_it_was(bed: Bed) -> None:
    steps = frozenset({"Allocate", "ResizeRun", "RecordGroup", "AnnotatePod"})
    journal = bed.directory / "journal"
    operator = bed.operator(killer=Killer(journal, steps))
    async with operator.revived():
        await _there_and_back(bed, await _ground(bed, operator))
    assert set(journal.read_text().splitlines()) == {f"{when} {kind}" for when in ("before", "after") for kind in steps}


@pytest.mark.repeats  # tests/unit/lifecycle/test_group.py; tests/scenarios/policy/test_in_place.py
async def test_pods_that_are_not_ready_in_time_are_taken_away_and_training_goes_on(bed: Bed) -> None:
    operator = bed.operator()
    pods = await _ground(bed, operator)
    hurry = {"spec": {"readyTimeoutSeconds": 3}}
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), hurry)
    await _wants(bed, 8)
    assert (await pods.hears_of(2))["indexes"] == [0, 1]
    assert (await pods.hears_of(3, generation=1))["indexes"] == [0]
    await pods.trains_in(3, 0.2)
    await bed.until(lambda: _job(bed)["completions"] == 1 and len(bed.pods("train")) == 1)
    await bed.until(lambda: bed.state("train") == "Running")
    status = bed.tj("train")
    assert (status["gpus"], status["allocation"]["run"]) == (4, 1)
    assert (status["group"]["withdrawn"], status["group"]["formed"]) == (1, 3)
    assert status.get("runs", []) == []


@pytest.mark.repeats  # tests/unit/lifecycle/test_group.py; tests/contract/test_workload.py
async def test_a_pod_that_joins_and_fails_ends_neither_the_run_nor_its_training(bed: Bed) -> None:
    operator = bed.operator()
    pods = await _ground(bed, operator)
    await _wants(bed, 8)
    await pods.hears_of(2)
    await bed.until(lambda: set(by_index(bed, "train")) == {0, 1})
    await bed.finish("train", exit_code=1, index=1)
    members = await pods.hears_of(3, generation=1)
    assert members["indexes"] == [0]
    await pods.trains_in(members["generation"], 0.2)
    # one where the Job controller counted the failure before the pod was beyond completions
    await bed.until(lambda: _job(bed)["completions"] == 1 and _job(bed)["backoffLimit"] in (0, 1))
    await bed.until(lambda: bed.state("train") == "Running" and set(by_index(bed, "train")) == {0})
    assert (bed.run("train"), bed.tj("train").get("failures", 0)) == (1, 0)


@pytest.mark.repeats  # tests/unit/lifecycle/test_group.py; tests/contract/test_workload.py
async def test_a_trainer_that_cannot_form_its_group_is_restarted_as_after_an_interruption(bed: Bed) -> None:
    operator = bed.operator()
    await _ground(bed, operator, backoffLimit=0)
    await bed.finish("train", exit_code=75)
    await bed.until(lambda: bed.run("train") == 2 and bed.state("train") == "Running")
    assert [run["outcome"] for run in bed.tj("train")["runs"]] == ["Interrupted"]
    assert (bed.tj("train").get("failures", 0), bed.tj("train")["restarts"]) == (0, 1)
