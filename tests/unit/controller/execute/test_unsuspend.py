"""The pods of a run start when an uncached list shows no live pod of any other run of the job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.controller.execute import ExecutionContext, Stale
from charterer.controller.execute.run_steps import unsuspend
from charterer.domain.steps import Unsuspend
from charterer.workloads.workload import INDEXED_JOB
from tests.factory import job, run

RUNS = tuple(run(number, suspended=True) for number in (1, 2, 3))
JOB = job(runs=RUNS)


def listed(number: int, phase: str) -> dict[str, Any]:
    """A pod of the run of that number, as the API server lists it."""
    of = RUNS[number - 1]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of.name, "uid": of.uid, "controller": True}
    meta = {
        "name": f"{of.name}-0",
        "namespace": JOB.namespace,
        "uid": f"pod-of-{number}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-03-10T12:00:00Z",
        "labels": {"charterer.dev/job-uid": JOB.id, "charterer.dev/job": JOB.name},
        "ownerReferences": [owner],
    }
    return {"metadata": meta, "spec": {"containers": []}, "status": {"phase": phase}}


async def started(*pods: dict[str, Any]) -> list[str]:
    """The objects that were written to start run 3."""
    written: list[str] = []

    async def listing(path: str, labels: str) -> Any:
        return SimpleNamespace(items=pods)

    async def merge_patch(kind: Any, path: str, version: str, body: Any) -> None:
        written.append(path.rpartition("/")[2])

    decided = SimpleNamespace(decided_job=lambda _: JOB, run=lambda _, number: (JOB, RUNS[number - 1]))
    context = SimpleNamespace(
        decided=decided,
        client=SimpleNamespace(list=listing),
        objects=SimpleNamespace(merge_patch=merge_patch),
        workload=INDEXED_JOB,
    )
    await unsuspend(cast(ExecutionContext, context), Unsuspend(JOB.id, 3))
    return written


async def test_a_run_starts_beside_the_ended_pods_of_others() -> None:
    assert await started(listed(1, "Failed"), listed(2, "Succeeded"), listed(3, "Running")) == ["sft-r3"]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_run_starts_beside_no_live_pod_of_any_run_before_it(number: int) -> None:
    with pytest.raises(Stale):
        await started(listed(number, "Running"))
