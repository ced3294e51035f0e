"""Telling this cluster's machines from those of others in the same account."""

from __future__ import annotations

from typing import Final

from charterer.domain.ids import PoolId
from charterer.providers.errors import Transient
from charterer.providers.karpenter.objects import Objects, ObjectsError

_PATH: Final = "/api/v1/namespaces/kube-system"


class OwnCluster:
    """The uid of the namespace kube-system, which lives as long as the cluster; read once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._uid = ""

    async def __call__(self, pool: PoolId) -> str:
        """The uid; Transient while it cannot be read. ``pool``: the pool that the error names."""
        if not self._uid:
            try:
                found = await self._objects.get(_PATH)
            except ObjectsError as error:
                raise Transient(pool, f"GET {_PATH}", "Unread", str(error)) from error
            if found is None:
                raise Transient(pool, f"GET {_PATH}", "NotFound", "the cluster has no namespace kube-system")
            self._uid = str(found["metadata"]["uid"])
        return self._uid
