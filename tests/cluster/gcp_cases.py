"""For every CEL rule about pools of Google Cloud, a pool that it accepts and one that it refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import SMALLEST, Case, Json, make

_GROUP: Json = {"project": "my-project", "zone": "us-central1-a", "instanceGroup": "gpu"}
_TEMPLATE: Json = {"project": "my-project", "zone": "us-central1-a", "instanceTemplate": "gpu"}


def gcp(kind: str, smallest: Json, **more: Any) -> Json:
    """An object of a kind with nodes of Google Cloud instead of the fake cloud's; None leaves a field out."""
    nodes = {name: value for name, value in {**smallest, **more}.items() if value is not None}
    other = {name: value for name, value in SMALLEST[kind].items() if name != "fake"}
    return {**make(kind), "spec": {**other, "gcp": nodes}}


GCP_CASES: tuple[Case, ...] = tuple(
    case
    for kind in ("GPUPool", "GPURental")
    for case in (
        Case(
            kind,
            "set exactly one of instanceGroup and instanceTemplate",
            gcp(kind, _TEMPLATE, reservation="kept", runSeconds=3600),
            gcp(kind, _TEMPLATE, instanceGroup="gpu"),
        ),
        Case(
            kind,
            "reservation needs an instanceTemplate; a group's is in its own instance template",
            gcp(kind, _GROUP, runSeconds=3600),
            gcp(kind, _GROUP, reservation="kept"),
        ),
    )
)

GCP_REFUSED: dict[str, Json] = {
    "a region for a zone of Google Cloud": gcp("GPUPool", _GROUP, zone="us-central1"),
    "a project by its number": gcp("GPUPool", _GROUP, project="111122223333"),
    "a group by its link": gcp("GPUPool", _GROUP, instanceGroup="zones/us-central1-a/instanceGroupManagers/gpu"),
    "a run that is too short": gcp("GPUPool", _GROUP, runSeconds=599),
    "a run that is too long": gcp("GPUPool", _GROUP, runSeconds=604_801),
}
"""Pools that the schema refuses."""
GCP_ACCEPTED: dict[str, Json] = {
    "all that a template can have": gcp(
        "GPUPool",
        _TEMPLATE,
        project="example.com:project",
        instanceTemplate="us-central1/gpu",
        gpuType="NVIDIA-H100-80GB-HBM3",
        reservation="kept",
        runSeconds=604_800,
    ),
}
"""Pools that the schema accepts."""
