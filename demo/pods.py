"""Reads a run's pods: whether all of them run, and if not, whether they were told to stop or lost."""

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
class RunUp:
    """A run all of whose pods are running, and its GPUs in all."""

    run: int
    gpus: int


def run_of(pod: Json) -> int:
    """The number of the run the pod belongs to."""
    return int(pod["metadata"]["labels"][LABEL_RUN])


def running(pod: Json) -> bool:
    """Whether its containers run and have not been told to stop."""
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def disrupted(pod: Json) -> bool:
    """Whether it ended without being told to: its machine was lost, or it failed."""
    status = pod.get("status", {})
    lost = any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
    return lost or (status.get("phase") == "Failed" and "deletionTimestamp" not in pod["metadata"])


def run_up(pods: Iterable[Json]) -> RunUp | None:
    """The newest run of a job whose pods are all running, as many as its allocation says; None when there is none."""
    by_run: dict[int, list[Json]] = {}
    for pod in pods:
        if running(pod):
            by_run.setdefault(run_of(pod), []).append(pod)
    for run in sorted(by_run, reverse=True):
        allocation = json.loads(by_run[run][0]["metadata"].get("annotations", {}).get(ALLOCATION, "{}"))
        if len(by_run[run]) == allocation.get("pods"):
            return RunUp(run, allocation["gpus"])
    return None


def gpus(pod: Json) -> int:
    """GPUs the pod holds."""
    return sum(
        int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        for container in pod["spec"]["containers"]
    )


def environment(pod: Json) -> dict[str, str]:
    """The literal environment of its first container."""
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0].get("env", ())}
