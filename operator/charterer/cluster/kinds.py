"""The watched kinds: resource path, selectors and decoder of each.

The kind of run objects belongs to the workload (``charterer.workloads``) and is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from charterer.api import decode
from charterer.api.names import API_VERSION, LABEL_JOB_UID
from charterer.cluster import paths
from charterer.cluster.client import RawObject
from charterer.cluster.store import ObjectKey, WatchedKind
from charterer.domain.budget import Budget
from charterer.domain.ids import JobId
from charterer.domain.pool import Pool
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node

_V = TypeVar("_V", Budget, Pool)


def _unversioned(value: _V) -> _V:
    return replace(value, resource_version="")


TRAINING_JOBS: Final[WatchedKind[decode.DecodedJob]] = WatchedKind(
    "TrainingJob",
    paths.TRAINING_JOBS,
    decode.training_job,
    unversioned=lambda decoded: replace(decoded, job=replace(decoded.job, resource_version="")),
)
SPEEDUP_PROFILES: Final[WatchedKind[Profile]] = WatchedKind("SpeedupProfile", paths.SPEEDUP_PROFILES, decode.profile)
GPU_BUDGETS: Final[WatchedKind[Budget]] = WatchedKind(
    "GPUBudget", paths.GPU_BUDGETS, decode.budget, unversioned=_unversioned
)
GPU_POOLS: Final[WatchedKind[Pool]] = WatchedKind("GPUPool", paths.GPU_POOLS, decode.pool, unversioned=_unversioned)
GPU_POOL_SETS: Final[WatchedKind[PoolSet]] = WatchedKind("GPUPoolSet", paths.GPU_POOL_SETS, decode.pool_set)
GPU_RENTALS: Final[WatchedKind[Rental]] = WatchedKind("GPURental", paths.GPU_RENTALS, decode.rental)
PODS: Final[WatchedKind[decode.JobPod | decode.ForeignPod]] = WatchedKind(
    "Pod", paths.PODS, decode.pod, outlives=decode.was_told_to_end
)
NODES: Final[WatchedKind[Node]] = WatchedKind("Node", paths.NODES, decode.node)
RESOURCE_SLICES: Final[WatchedKind[decode.PublishedGpus]] = WatchedKind(
    "ResourceSlice", paths.RESOURCE_SLICES, decode.published_gpus, optional=True
)
SERVICES: Final[WatchedKind[JobId]] = WatchedKind("Service", paths.SERVICES, decode.service, labels=LABEL_JOB_UID)
NAMESPACES: Final[WatchedKind[decode.DecodedNamespace]] = WatchedKind("Namespace", paths.NAMESPACES, decode.namespace)
ADMISSION_CHECKS: Final[WatchedKind[decode.DecodedCheck]] = WatchedKind(
    "AdmissionCheck", paths.ADMISSION_CHECKS, decode.admission_check, optional=True
)

FOREIGN_JOBS: Final[WatchedKind[decode.ForeignJob]] = WatchedKind(
    "Job", paths.JOBS, decode.foreign_job, labels=f"!{LABEL_JOB_UID}"
)
FOREIGN_WORKERS: Final[WatchedKind[decode.ForeignWorker]] = WatchedKind(
    "Pod", paths.PODS, decode.foreign_worker, labels=f"!{LABEL_JOB_UID}"
)

AnyKind: TypeAlias = WatchedKind[Any]

COMMON: Final[tuple[AnyKind, ...]] = (
    TRAINING_JOBS,
    SPEEDUP_PROFILES,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_POOL_SETS,
    GPU_RENTALS,
    PODS,
    NODES,
    RESOURCE_SLICES,
    SERVICES,
    NAMESPACES,
    ADMISSION_CHECKS,
)
"""The kinds that are watched with every workload of runs."""

WITHOUT_CHARTERER: Final[tuple[AnyKind, ...]] = (FOREIGN_JOBS, FOREIGN_WORKERS)
"""Kinds of jobs and pods that Charterer does not manage.

Their objects are read for a cluster's history and never planned.
"""


# Bodies of conditional writes: the mutation takes effect only if the object is still the one that was read.


def status_apply(kind: AnyKind, key: ObjectKey, version: str, status: Mapping[str, Any]) -> RawObject:
    """The body of a server-side apply to ``/status`` of a Charterer kind.

    The write applies only to this resourceVersion.
    """
    metadata = {"name": key.name, "resourceVersion": version}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata, "status": dict(status)}


def uid_test(uid: str) -> Mapping[str, Any]:
    """The JSON patch operation that fails if another object has taken the name of the object with this uid."""
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def pointer(*keys: str) -> str:
    """A JSON pointer (RFC 6901) of these keys. Keys may contain slashes, as keys of labels do."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
