"""Bodies of conditional writes: a mutation with one of these takes effect only on what was seen, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charterer.api.names import API_VERSION
from charterer.cluster.client import RawObject
from charterer.cluster.kinds import AnyKind
from charterer.cluster.store import ObjectKey


def status_apply(kind: AnyKind, key: ObjectKey, version: str, status: Mapping[str, Any]) -> RawObject:
    """The body of a server-side apply to ``/status`` of a kind of ours; it holds only at this resourceVersion."""
    metadata = {"name": key.name, "resourceVersion": version}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata, "status": dict(status)}


def uid_test(uid: str) -> Mapping[str, Any]:
    """The JSON patch operation that fails when another object has taken the name."""
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def pointer(*keys: str) -> str:
    """A JSON pointer (RFC 6901) through these keys, which may contain slashes as those of labels do."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
