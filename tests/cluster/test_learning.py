"""Learning on a real API server: a job reports, its class's profile appears, and the next operator remembers."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest

from charterer.api.models.learned import ClassStatistics
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.api.names import LABEL_LEARNED, token_audience
from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, SECRETS, SPEEDUP_PROFILES, TRAINING_JOBS
from charterer.controller.learning.profile_writer import WriteIntervals
from charterer_trainer.client import Answer, Client, Unanswered
from charterer_trainer.environment import Environment
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import SYSTEM, Bed
from tests.testbed.operators import OperatorProcess

QUICK = WriteIntervals(poll=0.2, digest=0.0, sources=0.1, drift=0.5, reports=0.5, retry=0.5)
GRADIENTS = {"gradSqr": 1.0, "gradVar": 500.0}


class Trainer:
    """The training process of a job's only pod, which talks to whichever operator leads."""

    def __init__(self, bed: Bed, job: str, directory: Path) -> None:
        self._bed, self._job, self._directory = bed, job, directory

    async def report(self, operator: OperatorProcess, times: int = 4, **numbers: object) -> Answer:
        """The last of so many answers; the operator may still be starting."""
        client = Client(Environment.read(await self._environ(operator)))
        answer = await self._post(client, {"fraction": 0.1, "batch": 256, "stepSeconds": 0.5, **numbers})
        for _ in range(times - 1):
            answer = await self._post(client, {"fraction": 0.1, "batch": 256, "stepSeconds": 0.5, **numbers})
        return answer

    async def _post(self, client: Client, numbers: dict[str, object]) -> Answer:
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                try:
                    return await asyncio.to_thread(client.post, {"run": self._bed.run(self._job), **numbers})
                except Unanswered:
                    await asyncio.sleep(0.2)

    async def _environ(self, operator: OperatorProcess) -> dict[str, str]:
        bed = self._bed
        (pod,) = [pod for pod in bed.pods(self._job) if pod["status"].get("phase") == "Running"]
        job = bed.mirror.one(TRAINING_JOBS, self._job, bed.namespace) or {}
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        bound = ("--bound-object-kind", "Pod", "--bound-object-name", name, "--bound-object-uid", uid)
        audience = token_audience(job["metadata"]["uid"])
        words = ("create", "token", "default", "-n", bed.namespace, "--audience", audience, *bound)
        (self._directory / "token").write_text(bed.plane.kubectl(*words))
        secret = await bed.kube.get(SECRETS.one("charterer-progress-tls", SYSTEM))
        return {
            "CHARTERER_PROGRESS_URL": f"https://localhost:{await progress_port(operator)}",
            "CHARTERER_CA": base64.b64decode(secret["data"]["ca.crt"]).decode(),
            "CHARTERER_TOKEN_FILE": str(self._directory / "token"),
        }


async def progress_port(operator: OperatorProcess) -> int:
    """Where the present process listens, from its log."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            found = re.findall(rf" {operator.pid} INFO .*progress on port (\d+)", operator.log.read_text())
            if found:
                return int(found[-1])
            await asyncio.sleep(0.1)


def profile(bed: Bed) -> dict[str, Any]:
    return bed.mirror.one(SPEEDUP_PROFILES, "resnet", bed.namespace) or {}


def learned(bed: Bed) -> dict[str, Any]:
    found: dict[str, Any] = (profile(bed).get("status") or {}).get("learned") or {}
    return found


def statistics(bed: Bed) -> ClassStatistics:
    """What the profile's machine state holds."""
    return SpeedupProfileRecord.model_validate(profile(bed).get("status", {})).statistics() or ClassStatistics()


def _option(bed: Bed) -> RawObject:
    """What the job's allocation is of. ``status.gpus`` is written after the allocation, and may be the one before."""
    option: RawObject = bed.tj("train")["allocation"]["option"]
    return option


async def _ground(bed: Bed) -> OperatorProcess:
    operator = bed.operator(learning=QUICK)
    await bed.pool()
    await bed.budget()
    gpus = {"min": 1, "preferred": 4, "max": 8}
    template = {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "trainer", "image": "train:1"}]}}
    spec = {"profileName": "resnet", "gpus": gpus, "resizePolicy": "Restart", "template": template}
    await bed.create("TrainingJob", "train", spec)
    await bed.running("train")
    return operator


async def _profile(bed: Bed, **spec: object) -> None:
    body = {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "SpeedupProfile",
        "metadata": {"name": "resnet", "namespace": bed.namespace},
        "spec": spec,
    }
    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), body)


async def test_a_class_is_learned_into_a_profile_and_the_next_operator_remembers_it(bed: Bed, tmp_path: Path) -> None:
    operator = await _ground(bed)
    trainer = Trainer(bed, "train", tmp_path)
    await trainer.report(operator)
    await bed.until(lambda: learned(bed).get("reports") == 3)
    assert profile(bed)["metadata"]["labels"][LABEL_LEARNED] == "true"
    widths = {width["gpus"]: width for width in learned(bed)["phases"][0]["widths"]}
    assert (widths[4]["source"], widths[4]["reports"], widths[4]["batch"]) == ("Measured", 3, 256)
    assert {gpus: widths[gpus]["source"] for gpus in (1, 2, 8)} == dict.fromkeys((1, 2, 8), "Extrapolated")
    await bed.until(lambda: bed.condition(profile(bed), "Ready").get("reason") == "Learned")
    operator.restart()
    await trainer.report(operator)
    await bed.until(lambda: learned(bed).get("reports") == 6)
    (cell,) = statistics(bed).step_times
    assert (cell.gpus, cell.reports, cell.seconds) == (4, 6, 0.5)


async def test_what_somebody_spoilt_is_ignored_and_said_and_learned_anew(bed: Bed, tmp_path: Path) -> None:
    operator = await _ground(bed)
    trainer = Trainer(bed, "train", tmp_path)
    await trainer.report(operator)
    await bed.until(lambda: learned(bed).get("reports") == 3)
    operator.kill()
    path = SPEEDUP_PROFILES.status("resnet", bed.namespace)
    await bed.kube.merge_patch(path, {"status": {"learned": {"batch": {"own": 512}}}})
    operator.restart()
    await bed.until(lambda: bed.condition(profile(bed), "Ready").get("reason") == "LearnedUnreadable")
    await trainer.report(operator, times=6)  # not before it has looked: what it cannot place yet teaches nothing
    await bed.until(lambda: learned(bed).get("reports") == 5)
    assert learned(bed)["batch"]["own"] == 256
    events = (await bed.kube.list(EVENTS.all(bed.namespace), fields="reason=LearnedUnreadable")).items
    assert ["status.learned.batch: own 512 exceeds largest 256" in event["note"] for event in events] == [True]


async def test_deleting_a_profile_forgets_its_class(bed: Bed, tmp_path: Path) -> None:
    operator = await _ground(bed)
    trainer = Trainer(bed, "train", tmp_path)
    await trainer.report(operator)
    await bed.until(lambda: learned(bed).get("reports") == 3)
    await bed.kube.delete(SPEEDUP_PROFILES.one("resnet", bed.namespace))
    await bed.until(lambda: not profile(bed))
    await bed.until(lambda: "is forgotten" in operator.tail())
    await trainer.report(operator, times=2)
    await bed.until(lambda: learned(bed).get("reports") == 2)


@pytest.mark.repeats  # tests/unit/controller/learning
async def test_a_job_hears_the_batch_size_that_its_gradients_call_for(bed: Bed, tmp_path: Path) -> None:
    await _profile(bed, batch={"own": 256, "largest": 4096, "largestPerGpu": 256})
    operator = await _ground(bed)
    trainer = Trainer(bed, "train", tmp_path)
    answer = await trainer.report(operator, times=8, **GRADIENTS)
    assert answer.batch is not None
    assert 256 < answer.batch <= 4096
    await bed.until(lambda: statistics(bed).noise_reports == 7)


@pytest.mark.repeats  # tests/unit/controller/learning
async def test_a_width_on_which_a_run_fails_is_remembered_and_left(bed: Bed, tmp_path: Path) -> None:
    """As one does that has too little memory: the job goes on where it can, and loses one try."""
    await _profile(bed, meanWork=100_000)
    operator = await _ground(bed)
    trainer = Trainer(bed, "train", tmp_path)
    # Twelve count. A width is known by the tenth that a fit has; a fit at the ninth is made anew at the twelfth.
    await trainer.report(operator, times=13, fraction=0.01)
    await bed.running_again("train", after=1)
    assert _option(bed)["gpus"] == 8
    assert _option(bed)["trial"] is True
    await bed.finish("train", exit_code=1)
    await bed.until(lambda: bed.run("train") == 3 and bed.state("train") == "Running")
    assert _option(bed)["gpus"] < 8
    assert bed.tj("train")["failures"] == 1
    await bed.until(lambda: bool(learned(bed).get("failed")))
    (failed,) = learned(bed)["failed"]
    assert (failed["gpus"], failed["failures"]) == (8, 1)
    assert "exited with 1" in failed["message"]
    operator.restart()
    await trainer.report(operator, fraction=0.02)
    assert _option(bed)["gpus"] < 8
