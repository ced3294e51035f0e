"""Simulates the ends of RayJobs and provides a node for heads, because kwok's pods do not run Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import PODS, Resource
from tests.testbed.controlplane import EXIT_CODE, NODE_ANNOTATION
from tests.testbed.kuberay.dashboard import Dashboard

RAY_JOBS = Resource("ray.io", "v1", "rayjobs", namespaced=True)
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", namespaced=True)
_POLL_SECONDS = 0.1


@asynccontextmanager
async def entrypoints(client: Client, namespace: str, dashboard: Dashboard) -> AsyncIterator[None]:
    """Submit the entrypoint of each RayJob in the namespace once its submitter runs.

    It ends with the exit code in the RayJob's annotation EXIT_CODE.
    """

    async def look_again() -> None:
        while True:
            with suppress(ApiError):
                for job in (await client.list(RAY_JOBS.all(namespace))).items:
                    await _act(client, job, dashboard)
            await asyncio.sleep(_POLL_SECONDS)

    task = asyncio.create_task(look_again(), name="entrypoints of RayJobs")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _act(client: Client, job: RawObject, dashboard: Dashboard) -> None:
    """Submit the job in the dashboard server, or end it there and each submitter pod that waits for it."""
    metadata, status = job["metadata"], job.get("status") or {}
    if status.get("jobDeploymentStatus") != "Running" or not status.get("jobId"):
        return
    namespace, code = metadata["namespace"], (metadata.get("annotations") or {}).get(EXIT_CODE)
    submitters = await client.list(PODS.all(namespace), labels=f"batch.kubernetes.io/job-name={metadata['name']}")
    if any(pod["status"].get("phase") == "Running" for pod in submitters.items):
        dashboard.submit(status["jobId"])
    if code is None:
        return
    dashboard.end(status["jobId"], "SUCCEEDED" if code == "0" else "FAILED")
    for pod in submitters.items:
        if EXIT_CODE not in (pod["metadata"].get("annotations") or {}):
            patch = {"metadata": {"annotations": {EXIT_CODE: code}}}
            await client.merge_patch(PODS.one(pod["metadata"]["name"], namespace), patch)


def node_for_heads() -> RawObject:
    """Return a node without GPUs, on which the heads of RayClusters run."""
    size = {"cpu": "64", "memory": "1Ti", "pods": "110"}
    metadata = {
        "name": "heads",
        "labels": {"kubernetes.io/hostname": "heads"},
        "annotations": {NODE_ANNOTATION: "fake"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": size, "allocatable": size}}
