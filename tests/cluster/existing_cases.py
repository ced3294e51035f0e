"""Pools of nodes that are in the cluster anyway."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import Case, Json, make


def own(existing: Json | None = None, **spec: Any) -> Json:
    """A pool that selects Nodes, with these fields of its spec changed."""
    made = make("GPUPool", **spec)
    del made["spec"]["fake"]
    if "maxNodes" not in spec:
        del made["spec"]["maxNodes"]
    made["spec"]["existing"] = {"nodeSelector": {"gpus": "own"}, "budget": "research", **(existing or {})}
    return made


def _unbounded() -> Json:
    made = make("GPUPool")
    del made["spec"]["maxNodes"]
    return made


_NOT_SOLD = (
    "nodes that are there anyway (existing) are not sold: leave capacityType out, and of price all but hourly, which "
    "is what one costs an hour, used or not"
)
_RESERVED = {"hourly": "9.80", "committed": {"until": "2027-01-01T00:00:00Z", "budget": "research"}}

EXISTING_ACCEPTED: dict[str, Json] = {
    "own nodes": own(),
    "own nodes of a declared kind, some of them, at a price": own(
        {"gpuType": "H100", "gpusPerNode": 8}, maxNodes=3, price={"hourly": "12.40"}
    ),
}
EXISTING_REFUSED: dict[str, Json] = {
    "own nodes by no label": own({"nodeSelector": {}}),
    "own nodes of nobody": own({"budget": ""}),
    "own nodes by what is no label": own({"nodeSelector": {"gpus": "a b"}}),
}
EXISTING_CASES = (
    Case("GPUPool", "say how many nodes may be rented at a time (maxNodes)", own(), _unbounded()),
    *(
        Case("GPUPool", _NOT_SOLD, own(price={"hourly": "12.40"}), own(**sold))
        for sold in ({"capacityType": "Spot"}, {"price": {"adjustment": "-10%"}}, {"price": _RESERVED})
    ),
    Case(
        "GPUPool",
        "set both gpuType and gpusPerNode, or neither",
        own({"gpuType": "H100", "gpusPerNode": 8}),
        own({"gpuType": "H100"}),
    ),
)
