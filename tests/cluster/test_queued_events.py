"""What happens to objects in a queue of the real Kueue while they run: each kind of object, each event.

Each ends by its own word, its record says what happened, and no machine is paid a minute beyond its last pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.errors import Forbidden, Invalid, NotFound
from charterer.cluster.paths import GPU_BUDGETS, JOBS, NODES, PODS, TRAINING_JOBS, WORKLOADS, Resource
from charterer.workloads.adopted.job_set import JOB_SETS, TRAIN_JOBS
from charterer.workloads.adopted.ray_job import RAY_JOBS
from tests import lanes, outcome
from tests.contract.adopted_objects import TRAINING_RUNTIMES, job_set, ray_job, train_job, training_runtime
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import group, install_charts
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints, node_for_heads
from tests.testbed.kueue.bed import PRIORITIES, QUEUE, QUEUE_NAME, KueueBed, open_kueue_bed
from tests.testbed.kueue.process import KueueProcess

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("Kueue, events of a queue")]
NAME = "llm"
RETRIES = 3
"""How often an object begins again by itself after a pod was lost."""
RESOURCES: Mapping[str, Resource] = {"Job": JOBS, "JobSet": JOB_SETS, "TrainJob": TRAIN_JOBS, "RayJob": RAY_JOBS}
BODIES: Mapping[str, Callable[[str], RawObject]] = {
    "JobSet": partial(job_set, failurePolicy={"maxRestarts": RETRIES}),
    "TrainJob": train_job,
    "RayJob": ray_job,
}
ON_SPOT_NODES = ("Job", "RayJob")
"""The kinds that get some: the others may fail for good with a lost node."""
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
        """It asks for two pods, which share a node, and for spot nodes if it may have any."""
        labels = {QUEUE_NAME: QUEUE, **labels}
        spot = {"charterer.dev/spot": "Allowed"} if self.kind in ON_SPOT_NODES else {}
        if self.kind == "Job":
            await self.bed.queued(NAME, 2, 2, retries=RETRIES, labels=labels, annotations=spot)
            return
        body = BODIES[self.kind](NAME)
        body["metadata"] |= {"namespace": self.bed.namespace, "labels": labels, "annotations": spot}
        await self.bed.kube.post(RESOURCES[self.kind].all(self.bed.namespace), body, strict=True)

    def trains(self, run: int) -> bool:
        return len(self.bed.of_run(NAME, run)) == 2 and self.bed.state(NAME) == "Running"

    async def ends_well(self) -> None:
        """By its own word; then its machine goes within a minute."""
        await self.end("0")
        await self.bed.complete(NAME)
        await self.returned()

    async def end(self, exit_code: str) -> None:
        """The processes of its pods end with this code."""
        ends: RawObject = {"metadata": {"annotations": {EXIT_CODE: exit_code}}}
        if self.kind == "RayJob":
            await self.bed.kube.merge_patch(self.path, ends)
            return
        for pod in self.in_training():
            with suppress(NotFound):
                await self.bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], self.bed.namespace), ends)

    def in_training(self) -> list[RawObject]:
        """Its pods that run and were not told to end."""
        pods = self.bed.of_run(NAME, self.bed.run(NAME))
        return [pod for pod in pods if EXIT_CODE not in (pod["metadata"].get("annotations") or {})]

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


async def _deactivated(it: QueuedObject) -> None:
    (workload,) = it.bed.mirror.all(WORKLOADS, it.bed.namespace)
    path = WORKLOADS.one(workload["metadata"]["name"], it.bed.namespace)
    await it.bed.kube.merge_patch(path, {"spec": {"active": False}})
    await it.bed.until(lambda: it.bed.outcomes(NAME) == ["Stopped"])
    await it.returned()
    assert "Deactivated" in it.said()
    await it.bed.kube.merge_patch(path, {"spec": {"active": True}})
    await it.bed.until(lambda: it.trains(2))
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Stopped", "Complete"]


async def _preempted(it: QueuedObject) -> None:
    """A Job of a higher priority takes all GPUs of the queue."""
    await it.bed.put(PRIORITIES, "WorkloadPriorityClass", it.bed.own("high"), {}, value=1000)
    spot = {"charterer.dev/spot": "Allowed"}  # as all nodes of the pool may be; only a Job with retries gets them
    labels = {"kueue.x-k8s.io/priority-class": it.bed.own("high")}
    await it.bed.queued("high", retries=RETRIES, labels=labels, annotations=spot)
    await it.bed.until(lambda: it.bed.outcomes(NAME) == ["Stopped"])
    assert "Preempted" in it.said()
    await it.bed.trains("high")
    await it.bed.until(lambda: len(it.bed.rentals()) == 1)
    await it.bed.ends_well("high")
    await it.bed.kube.delete(JOBS.one("high", it.bed.namespace), propagation="Background")
    await it.bed.until(lambda: it.trains(2))
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Stopped", "Complete"]


async def _deleted(it: QueuedObject) -> None:
    await it.bed.kube.delete(it.path, propagation="Background")
    await it.bed.until(lambda: not it.bed.mirror.all(TRAINING_JOBS, it.bed.namespace))
    await it.returned()


async def _runs(it: QueuedObject) -> None:
    """To its end, without an event."""
    await it.ends_well()
    assert it.bed.outcomes(NAME) == ["Complete"]


async def _fails(it: QueuedObject) -> None:
    """As often as its own controller begins it again."""

    def over() -> bool:
        return it.bed.state(NAME) == "Failed"

    while not over():
        await it.end("1")
        await it.bed.until(lambda: over() or (it.kind != "RayJob" and bool(it.in_training())))
    await it.returned()
    assert it.bed.outcomes(NAME) == ["Failed"]


EVENTS: Mapping[str, Callable[[QueuedObject], Awaitable[None]]] = {
    "spot notice": _notice,
    "machine dies": _dies,
    "budget": _money_ends,
    "operator restarted": _restarted(operator=True),
    "Kueue restarted": _restarted(kueue=True),
    "both restarted": _restarted(operator=True, kueue=True),
    "maximum time": _out_of_time,
    "deactivated": _deactivated,
    "preempted": _preempted,
    "deleted": _deleted,
    "keepOff": _runs,
    "fails": _fails,
}
_KEPT_OFF = (
    "kueue.enabled=true",
    "keepOff.taint=nvidia.com/gpu",
    "kueue.owners={jobsets.jobset.x-k8s.io,trainjobs.trainer.kubeflow.org,rayjobs.ray.io}",
)
"""The chart refuses kinds of which it is not known who makes their pods."""
_BY_PEOPLE = ("deactivated", "preempted", "deleted")
"""Jobs: tests/cluster/test_kueue_stops.py."""
_RESTARTS = ("operator restarted", "Kueue restarted", "both restarted")
_IN_MAKE_TEST = (
    *[("Job", event) for event in ("spot notice", "machine dies", "budget", "maximum time", "keepOff")],
    ("JobSet", "machine dies"),
    ("TrainJob", "fails"),
    ("RayJob", "both restarted"),
)
_REPEATED: Mapping[str, tuple[str, ...]] = {
    "Job": (*_RESTARTS, "fails"),
    "JobSet": ("budget", "maximum time", "keepOff", "fails", *_BY_PEOPLE, *_RESTARTS),
    "TrainJob": ("machine dies", "budget", "maximum time", "keepOff", *_BY_PEOPLE, *_RESTARTS),
    "RayJob": (
        "spot notice",
        "machine dies",
        "budget",
        "maximum time",
        "keepOff",
        "fails",
        *_BY_PEOPLE,
        *_RESTARTS[:2],
    ),
}


def _cells() -> list[object]:
    repeated = [(kind, event) for kind, events in _REPEATED.items() for event in events]
    return [*_IN_MAKE_TEST, *lanes.repeats(*repeated)]


@pytest.fixture
async def it(
    cell: tuple[str, str], kueue: KueueProcess, with_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[QueuedObject]:
    """It runs in a bed with a queue, an operator, a budget and a pool, beside its own controller."""
    (kind, event), plane = cell, with_kueue
    kuberay: KubeRayProcess | None = request.getfixturevalue("kuberay") if kind == "RayJob" else None
    if kind in ("JobSet", "TrainJob"):
        request.getfixturevalue("job_controllers")
    capacity = "Spot" if kind in ON_SPOT_NODES else "OnDemand"
    async with (
        open_kueue_bed(plane, tmp_path, [group("a100", capacityType=capacity)], [RESOURCES[kind]]) as bed,
        AsyncExitStack() as stack,
    ):
        if event == "keepOff":
            await stack.enter_async_context(_kept_off(bed))
        bed.operator()
        await bed.budget()
        await bed.pool(capacityType=capacity)
        if event == "preempted":
            await bed.queue(4, preemption={"withinClusterQueue": "LowerPriority"})
        else:
            await bed.queue(tolerates=event != "keepOff")  # or a RayJob's submitter would tolerate the taint too
        if kind == "TrainJob":
            runtime = training_runtime(backoff_limit=RETRIES)
            runtime["metadata"]["namespace"] = bed.namespace
            await bed.kube.post(TRAINING_RUNTIMES.all(bed.namespace), runtime)
        if kuberay is not None:
            await bed.kube.post(NODES.all(), node_for_heads())
            await stack.enter_async_context(entrypoints(bed.kube, bed.namespace, kuberay.dashboard))
        made = QueuedObject(bed, kueue, kind)
        await made.submit({"kueue.x-k8s.io/max-exec-time-seconds": "3"} if event == "maximum time" else {})
        await bed.until(lambda: made.trains(1))
        yield made
        if not outcome.failed(request.node):
            with suppress(NotFound):
                await bed.kube.delete(made.path, propagation="Background")
            await bed.close()


@asynccontextmanager
async def _kept_off(bed: KueueBed) -> AsyncIterator[None]:
    """Pods that are of no run are kept off rented nodes; the API server takes a moment to know that."""
    limits = {"limits": {"nvidia.com/gpu": 1}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    spec = {"tolerations": tolerations, "containers": [{"name": "x", "image": "x:1", "resources": limits}]}
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}
    await asyncio.to_thread(install_charts, bed.plane, *_KEPT_OFF)
    try:
        async with asyncio.timeout(OPERATORS_PATIENCE):
            with suppress(Forbidden, Invalid):
                while True:
                    await bed.kube.post(PODS.all(bed.namespace), stranger, dry_run=True)
                    await asyncio.sleep(0.1)
        yield
    finally:
        await asyncio.to_thread(install_charts, bed.plane, _KEPT_OFF[0])


@pytest.mark.parametrize("cell", _cells(), ids=" ".join)
async def test_it_goes_on_and_ends_by_its_own_word_whatever_happens(it: QueuedObject, cell: tuple[str, str]) -> None:
    await EVENTS[cell[1]](it)
