"""Jobs with their allocations, runs and pods."""

from __future__ import annotations

from typing import Any

from charterer.domain.ids import ClassId, JobId, NodeName, RentalId
from charterer.domain.job import Allocation, Job, Placement, ResizePolicy, Run, SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.time import Instant
from tests.factory.budgets import TEAM
from tests.factory.pools import POOL, PRICE
from tests.factory.times import T0


def allocation(*rentals: str, run: int = 1, gpus: int = 4, since: Instant = T0) -> Allocation:
    """``gpus`` GPUs on each of the rentals."""
    places = tuple(Placement(RentalId(name), gpus) for name in rentals or ("a100-1",))
    option = Option(POOL, gpus * len(places), 1.0, Price(PRICE.micros_per_hour * len(places) * gpus // 4))
    return Allocation(run, option, places, since)


def pod(index: int = 0, run: int = 1, job: str = "sft", **changes: Any) -> Pod:
    """A running pod of the job's run on the Node of instance ``i1``."""
    fields: dict[str, Any] = {
        "name": f"{job}-r{run}-{index}",
        "uid": f"pod-uid-{job}-{run}-{index}",
        "run": run,
        "index": index,
        "gpus": 4,
        "node": NodeName("n-i1"),
        "phase": PodPhase.RUNNING,
        "ready": True,
        "deleting": False,
        "disrupted": False,
        "exit_code": None,
        "finished": None,
        "message": "",
        "allocation": "",
    }
    return Pod(**(fields | changes))


def run(number: int = 1, *pods: Pod, job: str = "sft", **changes: Any) -> Run:
    """A Job that runs its pods, started at T0."""
    fields: dict[str, Any] = {
        "number": number,
        "name": f"{job}-r{number}",
        "uid": f"run-uid-{job}-{number}",
        "resource_version": "1",
        "completions": max(len(pods), 1),
        "suspended": False,
        "deleting": False,
        "created": T0,
        "started": T0,
        "complete": None,
        "failed": None,
        "failed_message": "",
        "pods": pods,
    }
    return Run(**(fields | changes))


def job(name: str = "sft", **changes: Any) -> Job:
    """A job that may be restarted with 4 to 16 GPUs and has its Service."""
    fields: dict[str, Any] = {
        "id": JobId(f"{name}-12345678-uid"),
        "namespace": "research",
        "name": name,
        "generation": 1,
        "resource_version": "1",
        "created": T0,
        "budget": TEAM,
        "class_id": ClassId.of_job(JobId(name)),
        "weight": 1.0,
        "widths": Widths(4, 4, 16),
        "gpu_types": (),
        "spot": SpotPolicy.NEVER,
        "resize": ResizePolicy.RESTART,
        "suspend": False,
        "deleting": False,
        "backoff_limit": 1,
        "max_restarts": 3,
        "ready_timeout_seconds": 600.0,
        "ttl_seconds_after_finished": None,
        "grace_seconds": 30,
        "pod_gpus": 4,
        "remaining": None,
        "progress": None,
        "allocation": None,
        "last_run": 0,
        "records": (),
        "failures": 0,
        "restarts": 0,
        "finish": None,
        "invalid": "",
        "runs": (),
        "replaced": (),
        "has_service": True,
    }
    return Job(**(fields | changes))
