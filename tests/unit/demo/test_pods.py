"""Reading a run's pods."""

from __future__ import annotations

import json
from typing import Any

from demo.pods import RunningRun, disrupted, environment, gpus, running_run

Json = dict[str, Any]


def pod(run: int = 1, index: int = 0, *, of: int = 2, phase: str = "Running", deleting: bool = False) -> Json:
    allocation = {"run": run, "gpus": of * 4, "pods": of, "gpusPerPod": 4}
    return {
        "metadata": {
            "name": f"job-r{run}-{index}",
            "uid": f"{run}-{index}",
            "labels": {"charterer.dev/run": str(run), "batch.kubernetes.io/job-completion-index": str(index)},
            "annotations": {"charterer.dev/allocation": json.dumps(allocation)},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
        },
        "spec": {
            "containers": [
                {
                    "name": "trainer",
                    "resources": {"limits": {"nvidia.com/gpu": "4"}},
                    "env": [{"name": "A", "value": "1"}],
                }
            ]
        },
        "status": {"phase": phase},
    }


def test_a_run_is_up_when_all_of_its_pods_run() -> None:
    assert running_run([pod(index=0), pod(index=1)]) == RunningRun(1, 8)


def test_a_run_that_lacks_a_pod_is_not_up() -> None:
    assert running_run([pod(index=0)]) is None
    assert running_run([pod(index=0), pod(index=1, phase="Pending")]) is None


def test_a_run_that_is_told_to_stop_is_not_up() -> None:
    assert running_run([pod(index=0), pod(index=1, deleting=True)]) is None


def test_the_newest_run_counts_while_the_old_one_stops() -> None:
    old = [pod(1, 0, deleting=True), pod(1, 1)]
    assert running_run([*old, pod(2, 0, of=1)]) == RunningRun(2, 4)
    assert running_run([pod(1, 0, of=1), pod(2, 0, of=1)]) == RunningRun(2, 4)


def test_no_pods_are_no_run() -> None:
    assert running_run([]) is None


def test_a_pod_that_fails_by_itself_is_disrupted_and_one_told_to_stop_is_not() -> None:
    assert disrupted(pod(phase="Failed"))
    assert not disrupted(pod(phase="Failed", deleting=True))
    assert not disrupted(pod())


def test_a_pod_of_a_lost_machine_is_disrupted_also_when_it_is_deleted() -> None:
    lost = pod(deleting=True)
    lost["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    assert disrupted(lost)


def test_a_pods_gpus_and_environment_are_read_from_its_containers() -> None:
    assert gpus(pod()) == 4
    assert environment(pod()) == {"A": "1"}
