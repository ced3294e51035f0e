"""The node class of a pool: whether it is there and ready, or what to do about it."""

from __future__ import annotations

from charterer.clouds.karpenter import NodeClaims
from charterer.providers.karpenter.objects import Objects


class NodeClasses:
    """Finds node classes of any kind: a claim names their kind, and the API server knows its path."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._collections: dict[tuple[str, str], str] = {}

    async def trouble(self, cloud: NodeClaims) -> str:
        """Why nothing can be launched from the node class; empty where it is ready. Raises ObjectsError."""
        named = f"{cloud.class_kind} {cloud.class_name!r}"
        collection = await self._collection(cloud.class_group, cloud.class_kind)
        if collection is None:
            kind = f"{cloud.class_kind}.{cloud.class_group}"
            return f"the cluster has no kind {kind}: correct spec.karpenter.nodeClassRef, or install Karpenter"
        found = await self._objects.get(f"{collection}/{cloud.class_name}")
        if found is None:
            return f"{named} does not exist: correct spec.karpenter.nodeClassRef.name, or create it"
        conditions = (found.get("status") or {}).get("conditions") or ()
        ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
        if ready is None or ready.get("status") == "True":
            return ""
        return f"{named} is not ready ({ready.get('reason', '')}: {ready.get('message', '')}): correct it"

    async def _collection(self, group: str, kind: str) -> str | None:
        """The path of the kind's objects; None where the API server has no such kind."""
        known = self._collections.get((group, kind))
        if known is not None:
            return known
        described = await self._objects.get(f"/apis/{group}")
        for version in (described or {}).get("versions") or ():
            path = f"/apis/{version['groupVersion']}"
            for resource in (await self._objects.get(path) or {}).get("resources") or ():
                if resource.get("kind") == kind and "/" not in resource["name"]:
                    self._collections[group, kind] = f"{path}/{resource['name']}"
                    return self._collections[group, kind]
        return None
