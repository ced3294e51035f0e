"""Charterer's objects written by plain calls of an administrator: the API server's own answers, without a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from charterer.cluster.paths import (
    GPU_BUDGETS,
    GPU_POOL_SETS,
    GPU_POOLS,
    GPU_RENTALS,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
    Resource,
)
from tests.testbed.controlplane import ControlPlane

Json = dict[str, Any]

_RESOURCES: Final[Mapping[str, Resource]] = {
    "GPUBudget": GPU_BUDGETS,
    "GPUPool": GPU_POOLS,
    "GPUPoolSet": GPU_POOL_SETS,
    "GPURental": GPU_RENTALS,
    "SpeedupProfile": SPEEDUP_PROFILES,
    "TrainingJob": TRAINING_JOBS,
}


def create(
    api: ControlPlane,
    raw: Json,
    *,
    dry_run: bool = False,
    unknown_fields: Literal["Strict", "Ignore"] = "Strict",
    token: str | None = None,
) -> Json:
    """The object as the API server made it, or would; ControlPlaneError with its words if it refuses.

    ``token``: of somebody other than an administrator.
    """
    path = _RESOURCES[raw["kind"]].all(raw["metadata"].get("namespace"))
    return api.call("POST", f"{path}?fieldValidation={unknown_fields}{_dry(dry_run)}", raw, token=token)


def replace(
    api: ControlPlane, raw: Json, *, status: bool = False, dry_run: bool = False, token: str | None = None
) -> None:
    """Write it, or its status, in the place of what is there; likewise. Who has a ``token`` may only patch."""
    resource, metadata = _RESOURCES[raw["kind"]], raw["metadata"]
    found = resource.one(metadata["name"], metadata.get("namespace"))
    version = api.call("GET", found)["metadata"]["resourceVersion"]
    body = {**raw, "metadata": {**metadata, "resourceVersion": version}}
    path = f"{found}/status" if status else found
    method = "PUT" if token is None else "PATCH"
    api.call(method, f"{path}?fieldValidation=Strict{_dry(dry_run)}", body, token=token)


def delete(api: ControlPlane, raw: Json) -> None:
    """Delete it; likewise."""
    api.call("DELETE", _RESOURCES[raw["kind"]].one(raw["metadata"]["name"], raw["metadata"].get("namespace")))


def _dry(run: bool) -> str:
    return "&dryRun=All" if run else ""
