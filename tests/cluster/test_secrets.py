"""No secret is in any log, Event, status or error, whatever goes wrong."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import yaml

from charterer.cluster.paths import (
    EVENTS,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_RENTALS,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
)
from charterer.controller.outcome import Executor
from tests.testbed.bed import HASTY, PATIENT, Bed
from tests.testbed.operators import OperatorProcess

CLOUD = {
    "CHARTERER_FAKECLOUD_TOKEN": "recognisable-fakecloud-token",
    "AWS_ACCESS_KEY_ID": "AKIARECOGNISABLE0001",
    "AWS_SECRET_ACCESS_KEY": "recognisable/aws+secret0access0key",
    "AWS_SESSION_TOKEN": "recognisable-aws-session-token",
}
OF_A_JOB = "recognisable-password-of-a-job"
OF_A_POD = "recognisable.token.of-a-pod"


@dataclass(frozen=True, slots=True)
class WithSecrets:
    """Gives an operator's process credentials of clouds."""

    secrets: Mapping[str, str]

    def around(self, executor: Executor) -> Executor:
        os.environ.update(self.secrets)
        return executor


async def said(operator: OperatorProcess, pattern: str, seconds: float = 60) -> re.Match[str]:
    """Wait until the operator's log has this."""
    async with asyncio.timeout(seconds):
        while True:
            text = operator.log.read_text() if operator.log.exists() else ""
            if (found := re.search(pattern, text)) is not None:
                return found
            await asyncio.sleep(0.2)


async def refused(port: int) -> str:
    """The answer to a pod whose token nobody knows."""
    headers = {"Authorization": f"Bearer {OF_A_POD}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"https://127.0.0.1:{port}/v1/progress", json={"step": 1}, ssl=False) as answer,
    ):
        assert answer.status in (401, 403)
        return await answer.text()


def tokens(operator: OperatorProcess) -> list[str]:
    """The token of the operator's kubeconfig, whole and in its parts."""
    assert operator.settings.kubeconfig is not None
    (user,) = yaml.safe_load(operator.settings.kubeconfig.read_text())["users"]
    token: str = user["user"]["token"]
    return [token, token.rpartition(".")[2]]


async def test_no_secret_is_in_any_log_event_status_or_error(bed: Bed) -> None:
    operator = bed.operator(killer=WithSecrets(CLOUD), lease=HASTY)
    await bed.budget()
    await bed.pool()
    await bed.pool("nowhere", fake={"endpoint": "http://127.0.0.1:9", "group": "nowhere"})
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_POOLS, "a100"), "Ready").get("status") == "True")
    for status, code in ((401, "Unauthorized"), (400, "InvalidRequest"), (500, "InternalError"), (418, "Teapot")):
        await bed.cloud.admin(
            "POST", "/faults", {"match": {"path": "/v1/*"}, "times": 2, "kind": "error", "status": status, "code": code}
        )
    for kind in ("lost-answer", "lost-request", "throttle"):
        await bed.fault(kind, 2, path="/v1/*")
    container = {"name": "trainer", "image": "train:1", "env": [{"name": "PASSWORD", "value": OF_A_JOB}]}
    template = {"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}}
    spec = {"gpus": {"min": 4, "max": 4}, "template": template}
    await bed.create("TrainingJob", "train", spec)
    await bed.create(
        "TrainingJob", "invalid", {**spec, "template": {"spec": {"containers": [{**container, "image": ""}]}}}
    )
    await bed.running("train")
    await said(operator, "UnknownCode|Unauthorized")  # before there is another that would meet the faults
    await bed.fault("throttle", 2, path="/v1/*")
    dry = bed.operator("charterer-dry", dry_run=True, killer=WithSecrets(CLOUD))
    await said(dry, "dry run, not written: ")
    port = await said(operator, r"progress on port (\d+)")
    answer = await refused(int(port[1]))
    bed.gate.close()
    await said(operator, "ending at once|leads no more")
    bed.gate.open()
    operator.restart(lease=PATIENT)  # nobody would start it a third time
    await bed.finish("train")
    await bed.complete("train")
    await bed.delete("TrainingJob", "invalid")

    listings = [await bed.kube.list(EVENTS.all())]
    for resource in (GPU_BUDGETS, GPU_POOLS, GPU_RENTALS, SPEEDUP_PROFILES, TRAINING_JOBS):
        listings.append(await bed.kube.list(resource.all()))
    shown = [str(item.get("status", item)) for listing in listings for item in listing.items]
    logs = [item.log.read_text() for item in (operator, dry)]
    assert min(map(len, logs)) > 1000
    for secret in (*CLOUD.values(), OF_A_JOB, OF_A_POD, *tokens(operator), *tokens(dry)):
        assert not [text for text in (*logs, *shown, answer) if secret in text], secret
