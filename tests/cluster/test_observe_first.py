"""Plain Jobs of a team beside an operator whose budget observes: they run as ever, and nobody writes to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, JOBS, NODES, PODS
from tests.cluster.commands import charterer
from tests.cluster.history import history
from tests.contract.runs import node
from tests.testbed.bed import Bed


def plain_job(name: str, *, adopted: bool) -> RawObject:
    """A Job of one GPU, as a team has it; labelled for later, or not."""
    container = {"name": "t", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    metadata: RawObject = {"annotations": {"testbed.charterer.dev/complete-after": "1s"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"charterer.dev/adopt": "true"} if adopted else {}},
        "spec": {"template": {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def test_observing_changes_no_object_of_a_team(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget(mode="Observe")
    await bed.until(lambda: "state" in ((bed.mirror.one(GPU_BUDGETS, "team") or {}).get("status") or {}))
    machine = f"owned-{bed.namespace}"
    team = [plain_job("plain", adopted=False), plain_job("labelled", adopted=True)]
    names = [job["metadata"]["name"] for job in team]
    here = ("-n", bed.namespace)
    async with (
        history(bed.kube, JOBS, bed.namespace) as jobs,
        history(bed.kube, PODS, bed.namespace) as pods,
        history(bed.kube, NODES) as nodes,
    ):
        bed.plane.kubectl("create", "-f", "-", input=json.dumps(node(machine)))
        for job in team:
            bed.plane.kubectl("create", *here, "-f", "-", input=json.dumps(job))
        await jobs.until(lambda: all(complete(jobs.versions(name)) for name in names))
        told = await charterer(bed.plane.kubeconfig, "report", "-o", "json")
        planned = await charterer(bed.plane.kubeconfig, "plan")
        assert (told.code, planned.code) == (0, 0), told.err + planned.err
    (budget,) = told.json["budgets"]
    assert f"{len(team)} jobs of the last 30 days can be simulated" in budget["noNumberBecause"]
    seen = [raw for each in (jobs, pods, nodes) for _, raw in each.events]
    assert {raw["metadata"]["name"] for raw in seen} >= {machine, *names}
    assert not [raw for raw in jobs.versions("labelled") if raw["spec"].get("suspend")], "it was held"
    assert {raw["metadata"]["name"]: ours for raw in seen if (ours := writers(raw))} == {}
    assert (bed.rentals(), await bed.launched()) == ([], 0)
    for name in names:
        await bed.kube.delete(JOBS.one(name, bed.namespace))
    await bed.kube.delete(NODES.one(machine))


def complete(versions: Sequence[RawObject]) -> bool:
    """Whether the last version of a Job says so."""
    conditions: list[Any] = [
        each for raw in versions[-1:] for each in (raw.get("status") or {}).get("conditions") or ()
    ]
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def writers(raw: RawObject) -> set[str]:
    """Charterer among the owners of an object's fields: what the test itself makes is kubectl's."""
    managers = {str(entry["manager"]) for entry in raw["metadata"].get("managedFields") or ()}
    return {manager for manager in managers if "charterer" in manager}
