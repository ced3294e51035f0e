"""Reads a run's pods: whether all run, and if not, whether they were stopped or lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

LABEL_JOB = "charterer.dev/job"
LABEL_JOB_UID = "charterer.dev/job-uid"
LABEL_RUN = "charterer.dev/run"
ALLOCATION = "charterer.dev/allocation"
EXIT_CODE = "testbed.charterer.dev/exit-code"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A run with all pods running, and its total GPUs."""

    run: int
    gpus: int


def run_of(pod: Json) -> int:
    """Return the number of the pod's run."""
    return int(pod["metadata"]["labels"][LABEL_RUN])


def running(pod: Json) -> bool:
    """Return whether the pod's containers run and are not being stopped."""
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def disrupted(pod: Json) -> bool:
    """Return whether the pod ended without being stopped: its machine was lost, or it failed."""
    status = pod.get("status", {})
    lost = any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
    return lost or (status.get("phase") == "Failed" and "deletionTimestamp" not in pod["metadata"])


def running_run(pods: Iterable[Json]) -> RunningRun | None:
    """Return the newest run whose allocated pods all run, None if there is none."""
    by_run: dict[int, list[Json]] = {}
    for pod in pods:
        if running(pod):
            by_run.setdefault(run_of(pod), []).append(pod)
    for run in sorted(by_run, reverse=True):
        allocation = json.loads(by_run[run][0]["metadata"].get("annotations", {}).get(ALLOCATION, "{}"))
        if len(by_run[run]) == allocation.get("pods"):
            return RunningRun(run, allocation["gpus"])
    return None


def gpus(pod: Json) -> int:
    """Return the number of the pod's GPUs."""
    return sum(
        int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        for container in pod["spec"]["containers"]
    )


def environment(pod: Json) -> dict[str, str]:
    """Return the literal environment variables of the pod's first container."""
    return {variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0].get("env", ())}
