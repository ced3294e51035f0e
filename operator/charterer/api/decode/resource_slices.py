"""ResourceSlices of NVIDIA's DRA driver: on clusters with dynamic resource allocation they say which GPUs a node has.

Its Node then shows no extended resource. Pods ask by the same names, which DeviceClasses map to devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from charterer.api.metadata import Raw
from charterer.api.names import GPU_RESOURCE, MIG_PREFIX
from charterer.domain.ids import NodeName
from charterer.domain.snapshot import Node

_DRIVER: Final = "gpu.nvidia.com"
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class PublishedGpus:
    """A part of what a driver publishes of a node. ``slices``: how many such parts this ``generation`` of ``pool`` has.

    ``gpus``: whole GPUs and MIG slices, by the extended resources that stand for them.
    """

    node: NodeName
    pool: str
    generation: int
    slices: int
    gpus: Mapping[str, int]


def published_gpus(raw: Raw) -> PublishedGpus | None:
    """A ResourceSlice of NVIDIA's driver about one node; None for any other."""
    spec = raw["spec"]
    if spec.get("driver") != _DRIVER or not spec.get("nodeName"):
        return None
    pool = spec["pool"]
    counts = Counter(name for device in spec.get("devices") or () if (name := _resource(device)))
    return PublishedGpus(
        NodeName(spec["nodeName"]), pool["name"], int(pool["generation"]), int(pool["resourceSliceCount"]), counts
    )


def _resource(device: Raw) -> str:
    """The extended resource that stands for a device; empty for a device that is no GPU."""
    attributes = device.get("attributes") or {}
    kind = (attributes.get("type") or {}).get("string")
    profile = (attributes.get("profile") or {}).get("string")
    if kind == "mig" and profile:
        return f"{MIG_PREFIX}{profile}"
    return GPU_RESOURCE if kind == "gpu" else ""


def with_published(nodes: Mapping[_Key, Node], published: Mapping[_Key, PublishedGpus]) -> Mapping[_Key, Node]:
    """The nodes, with the GPUs and slices that only a driver publishes of them."""
    if not published:
        return nodes
    gpus = _by_node(published.values())
    return {key: _joined(node, gpus[node.name]) if node.name in gpus else node for key, node in nodes.items()}


def _joined(node: Node, published: Mapping[str, int]) -> Node:
    slices = {name: number for name, number in published.items() if name != GPU_RESOURCE}
    return replace(node, gpus=node.gpus or published.get(GPU_RESOURCE, 0), slices={**slices, **node.slices})


def _by_node(published: Iterable[PublishedGpus]) -> Mapping[NodeName, Mapping[str, int]]:
    """By node and resource, of pools whose newest generation is complete: the scheduler allocates from no other."""
    pools: dict[tuple[NodeName, str], list[PublishedGpus]] = {}
    for part in published:
        pools.setdefault((part.node, part.pool), []).append(part)
    found: dict[NodeName, Counter[str]] = {}
    for (node, _), parts in pools.items():
        newest = max(part.generation for part in parts)
        current = [part for part in parts if part.generation == newest]
        if len(current) == current[0].slices:
            total = found.setdefault(node, Counter())
            for part in current:
                total.update(part.gpus)
    return found
