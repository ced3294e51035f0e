"""Nodes, their labels, and what is left of a node whose machine is gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from charterer.api import decode
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import NotFound
from charterer.cluster.paths import NODES as NODE_PATHS
from charterer.cluster.paths import PODS
from charterer.controller.execute.context import ExecutionContext, Handler, Stale, escaped
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import NodeName
from charterer.domain.steps import Cordon, DeleteNode, DeletePod, FailPod, LabelNode, Terminate
from charterer.domain.time import format_instant
from charterer.providers.provider import Drained

_log = logging.getLogger(__name__)


async def label_node(tools: ExecutionContext, do: LabelNode) -> ActionOutcome:
    """Set or remove one label."""
    path = f"/metadata/labels/{escaped(do.key)}"
    change = {"op": "remove", "path": path} if do.value is None else {"op": "add", "path": path, "value": do.value}
    await tools.patch(kinds.NODES, NODE_PATHS.one(do.node), [_same(do.uid), change])
    return ActionOutcome.DONE


async def cordon(tools: ExecutionContext, do: Cordon) -> ActionOutcome:
    """Nothing new is put there."""
    change = {"op": "add", "path": "/spec/unschedulable", "value": True}
    await tools.patch(kinds.NODES, NODE_PATHS.one(do.node), [_same(do.uid), change])
    return ActionOutcome.DONE


async def terminate(tools: ExecutionContext, do: Terminate) -> ActionOutcome:
    """End the one instance, if an uncached look finds nothing alive on its node, or the node itself lost."""
    pool = tools.pool(do.pool)
    proof = Drained(do.node, tools.now())
    if do.node is not None and not await _lost(tools, do.node) and (alive := await _alive(tools, do.node)):
        _log.info("instance %s is not ended: %s live on Node %s", do.instance.id, ", ".join(alive), do.node)
        raise Stale
    await tools.on_cloud(pool, tools.accounts.account_of(pool).terminate(pool, do.instance.id, proof))
    return ActionOutcome.DONE


async def fail_pod(tools: ExecutionContext, do: FailPod) -> ActionOutcome:
    """What the kubelet can no longer say: the pod failed, because its machine is gone."""
    path = PODS.one(do.pod.name, do.namespace)
    raw = await tools.client.get(path)
    if raw["metadata"]["uid"] != do.pod.uid:
        raise Stale
    kept = [one for one in raw.get("status", {}).get("conditions") or [] if one["type"] != "DisruptionTarget"]
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "InstanceTerminated",
        "message": "the cloud says that the instance under this pod has ended",
        "lastTransitionTime": format_instant(tools.now())[:19] + "Z",
    }
    operations = [
        _same(do.pod.uid),
        {"op": "test", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/status/phase", "value": "Failed"},
        {"op": "add", "path": "/status/reason", "value": "InstanceTerminated"},
        {"op": "add", "path": "/status/conditions", "value": [*kept, disrupted]},
    ]
    await tools.patch(kinds.PODS, PODS.status(do.pod.name, do.namespace), operations)
    return ActionOutcome.DONE


async def delete_pod(tools: ExecutionContext, do: DeletePod) -> ActionOutcome:
    """Nobody is left to run out its grace."""
    await tools.delete(kinds.PODS, PODS.one(do.pod.name, do.namespace), do.pod.uid, grace=0)
    return ActionOutcome.DONE


async def delete_node(tools: ExecutionContext, do: DeleteNode) -> ActionOutcome:
    """The Node object of a machine that is gone."""
    await tools.delete(kinds.NODES, NODE_PATHS.one(do.node), do.uid)
    return ActionOutcome.DONE


def _same(uid: str) -> Mapping[str, Any]:
    return {"op": "test", "path": "/metadata/uid", "value": uid}


async def _lost(tools: ExecutionContext, node: NodeName) -> bool:
    try:
        raw = await tools.client.get(NODE_PATHS.one(node))
    except NotFound:
        return True
    return decode.node(raw).lost(tools.now())


async def _alive(tools: ExecutionContext, node: NodeName) -> list[str]:
    """Pods there that would be lost: not finished, no daemon's, no mirror of a file on the node."""
    pods = await tools.client.list(PODS.all(), fields=f"spec.nodeName={node}")
    lost = (pod["metadata"] for pod in pods.items if _would_be_lost(pod))
    return [f"{metadata['namespace']}/{metadata['name']}" for metadata in lost]


def _would_be_lost(pod: RawObject) -> bool:
    metadata = pod["metadata"]
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return False
    return not any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences") or [])


NODES: Mapping[type, Handler] = {
    LabelNode: label_node,
    Cordon: cordon,
    Terminate: terminate,
    FailPod: fail_pod,
    DeletePod: delete_pod,
    DeleteNode: delete_node,
}
