"""What happens to objects in a queue of the real Kueue while they run: each kind of object, each event.

Each ends by its own word, its record says what happened, and no machine is paid a minute beyond its last pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.errors import NotFound
from charterer.cluster.paths import GPU_BUDGETS, JOBS, NODES, WORKLOADS, Resource
from charterer.workloads.adopted.ray_job import RAY_JOBS
from tests import lanes, outcome
from tests.contract.adopted_objects import ray_job
from tests.testbed.bed import group
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints, node_for_heads
from tests.testbed.kueue.bed import QUEUE, QUEUE_NAME, KueueBed, open_kueue_bed
from tests.testbed.kueue.process import KueueProcess

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("Kueue, events of a queue")]
NAME = "llm"
RESOURCES: Mapping[str, Resource] = {"Job": JOBS, "RayJob": RAY_JOBS}
PAID_FOR_NOTHING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """An object of one kind in the queue, with all that acts on it."""

    bed: KueueBed
    kueue: KueueProcess
    kind: str

    @property
    def path(self) -> str:
        return RESOURCES[self.kind].one(NAME, self.bed.namespace)

    async def submit(self, labels: Mapping[str, str]) -> None:
        """It asks for two pods, which share a node, and may have spot nodes."""
        labels, spot = {QUEUE_NAME: QUEUE, **labels}, {"charterer.dev/spot": "Allowed"}
        if self.kind == "Job":
            await self.bed.queued(NAME, 2, 2, retries=3, labels=labels, annotations=spot)
            return
        body = ray_job(NAME)
        body["metadata"] |= {"namespace": self.bed.namespace, "labels": labels, "annotations": spot}
        await self.bed.kube.post(RAY_JOBS.all(self.bed.namespace), body, strict=True)

    def trains(self, run: int) -> bool:
        return len(self.bed.of_run(NAME, run)) == 2 and self.bed.state(NAME) == "Running"

    async def ends_well(self) -> None:
        """By its own word; then its machine goes within a minute."""
        ends: RawObject = {"metadata": {"annotations": {EXIT_CODE: "0"}}}
        if self.kind == "RayJob":
            await self.bed.kube.merge_patch(self.path, ends)
        else:
            await self.bed.end(NAME)
        await self.bed.complete(NAME)
        await self.returned()

    async def returned(self) -> None:
        """Once no pod of it runs, its machine goes within a minute."""
        await self.bed.until(lambda: not any(self.bed.of_run(NAME, run) for run in range(5)))
        alone_since = time.monotonic()
        await self.bed.until(lambda: len(self.bed.rentals("Ended")) == len(self.bed.rentals()))
        assert time.monotonic() - alone_since < PAID_FOR_NOTHING_SECONDS

    def said(self) -> str:
        """What the record says of its first run."""
        return str(self.bed.tj(NAME)["runs"][0]["message"])

    async def machine(self, does: str, **how: object) -> None:
        (rental,) = self.bed.rentals("Ready")
        await self.bed.cloud.admin("POST", f"/instances/{rental['status']['instance']}/{does}", how)


async def _notice(it: QueuedObject) -> None:
    await it.machine("interrupt", seconds=30)
    await it.bed.until(lambda: it.trains(2))
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Stopped", "Complete"]
    assert "the cloud takes back" in it.said()


async def _dies(it: QueuedObject) -> None:
    await it.machine("kill", nodeObject="silent")
    await it.bed.until(lambda: it.trains(2))
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Interrupted", "Complete"]


async def _money_ends(it: QueuedObject) -> None:
    limits = {"amount": "0.3", "hardLimit": "0.3"}
    await it.bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": limits})
    await it.bed.until(lambda: it.bed.outcomes(NAME) == ["Stopped"])
    await it.returned()
    assert "hardlimit" in it.said().lower().replace(" ", "")
    limits = {"amount": "1000", "hardLimit": "1000"}
    await it.bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": limits})
    await it.bed.until(lambda: it.trains(2))
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Stopped", "Complete"]


def _restarted(*, operator: bool = False, kueue: bool = False) -> Callable[[QueuedObject], Awaitable[None]]:
    async def act(it: QueuedObject) -> None:
        before = {pod["metadata"]["uid"] for pod in it.bed.of_run(NAME, 1)}
        if operator:
            it.bed.operators[-1].kill()
        if kueue:
            it.kueue.kill()
            await asyncio.to_thread(it.kueue.restart)
        if operator:
            it.bed.operator()
        await it.bed.until(lambda: it.trains(1))
        await it.ends_well()
        assert it.bed.outcomes(NAME) == ["Complete"]
        ran = {pod["metadata"]["uid"] for pod in it.bed.mirror.departed if pod["kind"] == "Pod"}
        assert before <= ran | {pod["metadata"]["uid"] for pod in it.bed.pods(NAME)}

    return act


async def _out_of_time(it: QueuedObject) -> None:
    """Kueue deactivates it: a person decides whether it may go on."""
    await it.bed.until(lambda: it.bed.outcomes(NAME) == ["Stopped"])
    await it.returned()
    assert "MaximumExecutionTimeExceeded" in it.said()
    (workload,) = it.bed.mirror.all(WORKLOADS, it.bed.namespace)
    assert workload["spec"]["active"] is False
    await it.bed.kube.delete(it.path, propagation="Background")
    await it.bed.until(lambda: not it.bed.tj(NAME))


EVENTS: Mapping[str, Callable[[QueuedObject], Awaitable[None]]] = {
    "spot notice": _notice,
    "machine dies": _dies,
    "budget": _money_ends,
    "operator restarted": _restarted(operator=True),
    "Kueue restarted": _restarted(kueue=True),
    "both restarted": _restarted(operator=True, kueue=True),
    "maximum time": _out_of_time,
}
_BY_RAY_JOB = "both restarted"
_SHOWN_WITH_OTHERS = ("operator restarted", "Kueue restarted", _BY_RAY_JOB)


def _cells() -> list[object]:
    shown = [("Job", event) for event in EVENTS if event not in _SHOWN_WITH_OTHERS]
    return [*shown, ("RayJob", _BY_RAY_JOB), *lanes.repeats(*[("Job", event) for event in _SHOWN_WITH_OTHERS])]


@pytest.fixture
async def it(
    cell: tuple[str, str], kueue: KueueProcess, with_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[QueuedObject]:
    """It runs in a bed with a queue, an operator, a budget and a pool of spot nodes; KubeRay acts for a RayJob."""
    kind, event = cell
    kuberay: KubeRayProcess | None = request.getfixturevalue("kuberay") if kind == "RayJob" else None
    groups, resource = [group("a100", capacityType="Spot")], RESOURCES[kind]
    async with (
        open_kueue_bed(with_kueue, tmp_path, groups, [] if kuberay is None else [RAY_JOBS]) as bed,
        AsyncExitStack() as stack,
    ):
        bed.operator()
        await bed.budget()
        await bed.pool(capacityType="Spot")
        await bed.queue()
        if kuberay is not None:
            await bed.kube.post(NODES.all(), node_for_heads())
            await stack.enter_async_context(entrypoints(bed.kube, bed.namespace, kuberay.dashboard))
        made = QueuedObject(bed, kueue, kind)
        await made.submit({"kueue.x-k8s.io/max-exec-time-seconds": "3"} if event == "maximum time" else {})
        await bed.until(lambda: made.trains(1))
        yield made
        if not outcome.failed(request.node):
            with suppress(NotFound):
                await bed.kube.delete(resource.one(NAME, bed.namespace), propagation="Background")
            await bed.close()


@pytest.mark.parametrize("cell", _cells(), ids=" ".join)
async def test_it_goes_on_and_ends_by_its_own_word_whatever_happens(it: QueuedObject, cell: tuple[str, str]) -> None:
    await EVENTS[cell[1]](it)
