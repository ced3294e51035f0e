"""What people do today, for `versus_karpenter`: plain Jobs of the width asked for, on a NodePool of Karpenter."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from demo import karpenter, scenario
from demo.columns import Column, really_run
from demo.kube import Access, Kube
from demo.pace import Json
from demo.pods import ALLOCATION, LABEL_JOB, LABEL_RUN
from demo.replay import Kind, Replay
from demo.scenario import NAMESPACE, ReplayJob, Scenario
from tests.testbed.controlplane import ControlPlane
from tests.testbed.karpenter_process import GPU, NODE_CLASS, CloudInstance, KarpenterProcess

_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_POLL_SECONDS = 0.5
_MOST_HOURS = 24
"""Workload hours after the last submission in which all jobs have to end, and all nodes after them."""


def gpus_per_pod(gpus: int, node: int) -> int:
    """The most GPUs that equal pods can have which together have ``gpus``, and each at most those of a node."""
    return max(size for size in range(1, node + 1) if gpus % size == 0)


def plain_job(of: Scenario, job: ReplayJob) -> Json:
    """An indexed Job with as few pods as the GPUs that were asked for allow. What disrupts a pod counts as no failure.

    Kubernetes' back-off is at least 10 s after each disruption, and no pace shortens it, so it is spared the job. Its
    pods have the labels by which the demo trains them; no controller of this cluster reads these.
    """
    gpus = min(job.asked, of.widest)
    each = gpus_per_pod(gpus, of.pools[0].gpus_per_node)
    pods = gpus // each
    container = {
        "name": "trainer",
        "image": f"example.invalid/{job.application.name}:demo",
        "resources": {"limits": {GPU: str(each)}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.name, "namespace": NAMESPACE},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            "template": {
                "metadata": {
                    "labels": {LABEL_JOB: job.name, LABEL_RUN: "1"},
                    "annotations": {
                        ALLOCATION: json.dumps({"pods": pods, "gpus": gpus}),
                        "testbed.charterer.dev/stopped-at": "2000-01-01T00:00:00Z",
                    },
                },
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [container],
                },
            },
        },
    }


def ended(job: Json) -> str | None:
    """None while the Job goes on, "" when it has completed, else why it failed."""
    told = {each["type"]: each for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"}
    if "Failed" in told:
        return f"{told['Failed'].get('reason', '')}: {told['Failed'].get('message', '')}"
    return "" if "Complete" in told else None


def placed(job: Json) -> tuple[int, str]:
    """The only run, in any pool: all have the GPUs that were asked for."""
    return 1, "t4-a"


PLAIN_JOBS = Kind(_JOBS, _JOBS, plain_job, ended, placed, reports=False)


def node_pool(instance_type: str) -> Json:
    """A NodePool of on-demand nodes of one type. All that it does not say is Karpenter's default."""
    requirements = {"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": instance_type}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": dict(NODE_CLASS),
                    "requirements": [
                        {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
                    ],
                }
            }
        },
    }


async def measure(of: Scenario, folder: Path) -> Column:
    """Run the scenario's jobs as plain Jobs, until all have ended and the last node too; ``folder`` is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    with (
        ControlPlane.start(folder / "cluster") as plane,
        karpenter.start(of, plane, folder / "karpenter") as cloud,
    ):
        (instance_type,) = {pool["spec"]["karpenter"]["instanceType"] for pool in scenario.load("pools-karpenter")}
        for document in (*scenario.load("namespace"), node_pool(instance_type)):
            plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(document))
        async with Kube(Access.of(plane.kubeconfig)) as kube:
            replay = Replay(kube, of, PLAIN_JOBS)
            began = time.time()
            async with asyncio.timeout(of.pace.demo_seconds(of.window[1] - of.window[0] + _MOST_HOURS * 3600)):
                await replay.run()
                await _all_ended(cloud)
        version = json.loads(plane.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
        machines = cloud.instances()
    dollars = karpenter.metered(of, machines, time.time()) / 1e6
    column = really_run(replay.jobs, spent(of, machines, began), dollars, len(machines))
    told = f"{datetime.now(UTC):%Y-%m-%d}, {karpenter.NAME} on Kubernetes {version}, {of.pace.factor} times faster"
    return replace(column, measured=told)


async def _all_ended(cloud: KarpenterProcess) -> None:
    """Looks again and again at the bill, which is a file."""
    while any(machine.ended is None for machine in cloud.instances()):  # noqa: ASYNC110 - the bill is a file
        await asyncio.sleep(_POLL_SECONDS)


def spent(of: Scenario, machines: Sequence[CloudInstance], began: float) -> list[tuple[float, float]]:
    """(workload second since ``began``, dollars of the machines so far) at each launch and end of a machine."""
    hourly = {zone: tariff.hourly_micros / 1e6 for zone, tariff in karpenter.tariffs(of).items()}

    def dollars(until: float) -> float:
        return sum(
            hourly[karpenter.zone_of(machine)] / 3600 * max(0.0, min(until, machine.ended or until) - machine.launched)
            for machine in machines
        )

    ends = [machine.ended for machine in machines if machine.ended is not None]
    times = sorted([began, *(machine.launched for machine in machines), *ends])
    return [(of.pace.workload_seconds(at - began), dollars(at)) for at in times]
