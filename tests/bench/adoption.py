"""Adopted objects on the test bed: seconds from create to Running with and without Charterer; pods made before a hold.

    python -m tests.bench.adoption [JOBS]

A node with free GPUs is there in both cases, and the operator in both. Every kind has its real
controllers (`make job-controllers kueue kuberay`). The second figure must be 0, however quickly Jobs are created.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import RawObject
from charterer.cluster.paths import CLUSTER_QUEUES, JOBS, NODES, PODS, Resource
from charterer.workloads.adopted.job_set import JOB_SETS, TRAIN_JOBS
from charterer.workloads.adopted.ray_job import RAY_JOBS
from demo.pods import gpus
from tests.bench._adopted_jobs import controllers
from tests.bench._bed import measuring_plane
from tests.cluster.adopted_jobs import ADOPT, create, delete_jobs, plain_job
from tests.contract.adopted_objects import TRAINING_RUNTIMES, job_set, ray_job, train_job, training_runtime
from tests.testbed.bed import group, install_charts
from tests.testbed.controlplane import EXIT_CODE
from tests.testbed.kuberay import program as kuberay_program
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints, node_for_heads
from tests.testbed.kueue import program as kueue_program
from tests.testbed.kueue.bed import QUEUE, QUEUE_NAME, KueueBed, open_kueue_bed
from tests.testbed.kueue.process import KueueProcess

_TRIES = 5
_AT_ONCE = 32
_TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
"""Without Charterer, the author of an object lets its pods onto nodes with GPUs."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A kind of object. ``body``: one of it with one pod of two GPUs, without a label."""

    resource: Resource
    body: Callable[[str], RawObject]
    queued: bool = False


def _job(name: str) -> RawObject:
    body = {**plain_job(name, gpus=2), "metadata": {"name": name}}
    body["spec"]["template"]["spec"]["tolerations"] = _TOLERATIONS
    return body


def _job_set(name: str) -> RawObject:
    body = job_set(name, 1, suspend=False)
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["tolerations"] = _TOLERATIONS
    return body


def _train_job(name: str) -> RawObject:
    """Its tolerations are those of its runtime."""
    return train_job(name, 1, suspend=False)


def _runtime() -> RawObject:
    body = training_runtime()
    (job,) = body["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["tolerations"] = _TOLERATIONS
    return body


def _ray_job(name: str) -> RawObject:
    body = ray_job(name, 1, suspend=False)
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["tolerations"] = _TOLERATIONS
    return body


def _queued(name: str) -> RawObject:
    """Kueue gives its pods the tolerations of the queue's flavor."""
    return {**plain_job(name, gpus=2), "metadata": {"name": name, "labels": {QUEUE_NAME: QUEUE}}}


_KINDS = {
    "Job": _Measured(JOBS, _job),
    "JobSet": _Measured(JOB_SETS, _job_set),
    "TrainJob": _Measured(TRAIN_JOBS, _train_job),
    "RayJob": _Measured(RAY_JOBS, _ray_job),
    "Job in a queue": _Measured(JOBS, _queued, queued=True),
}


def _pods(bed: KueueBed, name: str, *phases: str) -> list[RawObject]:
    """The object's pods with GPUs that are in one of these phases."""
    return [
        pod
        for pod in bed.mirror.all(PODS, bed.namespace)
        if pod["metadata"]["name"].startswith(f"{name}-") and gpus(pod) and pod["status"].get("phase") in phases
    ]


async def _seconds(bed: KueueBed, kind: _Measured, name: str, adopted: bool) -> float:
    """Seconds from create to the running pod; the object ends then, and its node stays."""
    body = kind.body(name)
    body["metadata"]["namespace"] = bed.namespace
    if kind.queued:
        await _ask_charterer(bed, adopted)
    elif adopted:
        body["metadata"]["labels"] = {ADOPT: "true"}
    began = asyncio.get_running_loop().time()
    await bed.kube.post(kind.resource.all(bed.namespace), body)
    await bed.until(lambda: _pods(bed, name, "Running"))
    seconds = asyncio.get_running_loop().time() - began
    ends = {"metadata": {"annotations": {EXIT_CODE: "0"}}}
    if kind.resource == RAY_JOBS:
        await bed.kube.merge_patch(kind.resource.one(name, bed.namespace), ends)
    else:
        for pod in _pods(bed, name, "Running"):
            await bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], bed.namespace), ends)
    await bed.until(lambda: not _pods(bed, name, "Pending", "Running"))
    return seconds


async def _ask_charterer(bed: KueueBed, asked: bool) -> None:
    """Whether the queue has Charterer's check: without, Kueue starts what has quota."""
    strategy = {"admissionChecks": [{"name": KUEUE_CHECK}]} if asked else None
    await bed.kube.merge_patch(bed.cluster_queue, {"spec": {"admissionChecksStrategy": strategy}})
    await bed.until(lambda: _strategy(bed) == strategy)


def _strategy(bed: KueueBed) -> object:
    return ((bed.mirror.one(CLUSTER_QUEUES, bed.own(QUEUE)) or {}).get("spec") or {}).get("admissionChecksStrategy")


async def _held(bed: KueueBed, number: int) -> tuple[int, int]:
    """How many of so many Jobs are stored suspended, and the pods that were made for them, while no operator runs."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(index: int) -> bool:
        async with slots:
            stored = await create(bed, plain_job(f"held-{index}"))
            return bool(stored["spec"]["suspend"])

    suspended = sum(await asyncio.gather(*(one(index) for index in range(number))))
    await bed.until(lambda: len(bed.mirror.all(JOBS, bed.namespace)) >= number)
    pods = (await bed.kube.list(PODS.all(bed.namespace))).items
    return suspended, sum(pod["metadata"]["name"].startswith("held-") for pod in pods)


async def _measure(bed: KueueBed, number: int) -> None:
    await bed.budget()
    suspended, pods = await _held(bed, number)
    print(
        f"{number} Jobs created {_AT_ONCE} at a time: {suspended} stored suspended, {pods} pods made before the hold",
        flush=True,
    )
    await delete_jobs(bed)
    bed.operator()
    await bed.pool()
    await bed.kube.post(NODES.all(), node_for_heads())
    await bed.kube.post(TRAINING_RUNTIMES.all(bed.namespace), _in(bed, _runtime()))
    await bed.queue()
    await create(bed, plain_job("first", gpus=2))
    await bed.until(lambda: _pods(bed, "first", "Running"))  # the other half of its node is there for those that follow
    print(f"{'seconds from create to Running':32}{'with Charterer':>22}{'without':>22}{'difference':>12}")
    for title, kind in _KINDS.items():
        taken: dict[bool, list[float]] = {True: [], False: []}
        for index in range(_TRIES):
            for adopted, tries in taken.items():
                name = f"{title.lower().replace(' ', '-')}-{'ours' if adopted else 'plain'}-{index}"
                tries.append(await _seconds(bed, kind, name, adopted))
        told = [f"{median(tries):.2f} ({min(tries):.2f}-{max(tries):.2f})" for tries in taken.values()]
        more = median(taken[True]) - median(taken[False])
        print(f"{title:32}{told[0]:>22}{told[1]:>22}{more:>12.2f}", flush=True)


def _in(bed: KueueBed, body: RawObject) -> RawObject:
    return {**body, "metadata": {**body["metadata"], "namespace": bed.namespace}}


async def main() -> None:
    """Print the figures: medians, fewest and most of five."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    async with AsyncExitStack() as stack:
        plane, directory = await stack.enter_async_context(measuring_plane())
        stack.enter_context(controllers(plane, directory / "job-controllers"))
        kueue, kuberay = kueue_program.find(), kuberay_program.find()
        if kueue is None or kuberay is None:
            raise SystemExit("run `make kueue kuberay` first")
        folder = directory / "queues"
        ray = stack.enter_context(KubeRayProcess.start(plane, kuberay, folder / "kuberay"))
        stack.enter_context(KueueProcess.start(plane, kueue, folder / "kueue"))
        install_charts(plane, "kueue.enabled=true")
        more = (JOB_SETS, TRAIN_JOBS, RAY_JOBS)
        bed = await stack.enter_async_context(open_kueue_bed(plane, directory, [group("a100")], more))
        await stack.enter_async_context(entrypoints(bed.kube, bed.namespace, ray.dashboard))
        await _measure(bed, number)


if __name__ == "__main__":
    asyncio.run(main())
