"""The watched kinds: where each lives, which of its objects are asked for, and how one is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from charterer.api import decode
from charterer.api.names import LABEL_JOB_UID
from charterer.cluster import paths
from charterer.cluster.store import Kind
from charterer.domain.budget import Budget
from charterer.domain.ids import JobId
from charterer.domain.job import Run
from charterer.domain.pool import Pool
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node

TRAINING_JOBS: Final[Kind[decode.DecodedJob]] = Kind("TrainingJob", paths.TRAINING_JOBS, decode.training_job)
SPEEDUP_PROFILES: Final[Kind[Profile]] = Kind("SpeedupProfile", paths.SPEEDUP_PROFILES, decode.profile)
GPU_BUDGETS: Final[Kind[Budget]] = Kind("GPUBudget", paths.GPU_BUDGETS, decode.budget)
GPU_POOLS: Final[Kind[Pool]] = Kind("GPUPool", paths.GPU_POOLS, decode.pool)
GPU_RENTALS: Final[Kind[Rental]] = Kind("GPURental", paths.GPU_RENTALS, decode.rental)
RUNS: Final[Kind[tuple[JobId, Run]]] = Kind("Job", paths.JOBS, decode.batch_job, labels=LABEL_JOB_UID)
PODS: Final[Kind[decode.OwnPod | decode.ForeignPod]] = Kind("Pod", paths.PODS, decode.pod)
NODES: Final[Kind[Node]] = Kind("Node", paths.NODES, decode.node)
SERVICES: Final[Kind[JobId]] = Kind("Service", paths.SERVICES, decode.service, labels=LABEL_JOB_UID)
NAMESPACES: Final[Kind[tuple[str, Mapping[str, str]]]] = Kind("Namespace", paths.NAMESPACES, decode.namespace)

FOREIGN_JOBS: Final[Kind[decode.ForeignJob]] = Kind("Job", paths.JOBS, decode.foreign_job, labels=f"!{LABEL_JOB_UID}")
FOREIGN_WORKERS: Final[Kind[decode.ForeignWorker]] = Kind(
    "Pod", paths.PODS, decode.foreign_worker, labels=f"!{LABEL_JOB_UID}"
)

AnyKind: TypeAlias = Kind[Any]

ALL: Final[tuple[AnyKind, ...]] = (
    TRAINING_JOBS,
    SPEEDUP_PROFILES,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_RENTALS,
    RUNS,
    PODS,
    NODES,
    SERVICES,
    NAMESPACES,
)

WITHOUT_CHARTERER: Final[tuple[AnyKind, ...]] = (FOREIGN_JOBS, FOREIGN_WORKERS)
"""What only a look at the past asks for; nothing of it is planned."""
