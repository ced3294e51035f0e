"""Steps on nodes: labels, cordon, the end of an instance, and what Kubernetes still has of a machine that is gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from charterer.api import decode
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import NotFound
from charterer.cluster.patches import pointer, uid_test
from charterer.cluster.paths import NODES, PODS
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Handler
from charterer.controller.execute.decided import Stale
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import NodeName
from charterer.domain.steps import Cordon, DeleteNode, DeletePod, FailPod, LabelNode, Terminate
from charterer.domain.time import format_instant
from charterer.providers.provider import Drained

_log = logging.getLogger(__name__)


async def label_node(context: ExecutionContext, step: LabelNode) -> ActionOutcome:
    """Set or remove one label."""
    path = pointer("metadata", "labels", step.key)
    change = {"op": "remove", "path": path} if step.value is None else {"op": "add", "path": path, "value": step.value}
    await context.objects.json_patch(kinds.NODES, NODES.one(step.node), [uid_test(step.uid), change])
    return ActionOutcome.DONE


async def cordon(context: ExecutionContext, step: Cordon) -> ActionOutcome:
    """Let no new pods be scheduled on the node."""
    change = {"op": "add", "path": "/spec/unschedulable", "value": True}
    await context.objects.json_patch(kinds.NODES, NODES.one(step.node), [uid_test(step.uid), change])
    return ActionOutcome.DONE


async def terminate(context: ExecutionContext, step: Terminate) -> ActionOutcome:
    """End one instance if an uncached list shows no live pod on its node, or the node itself is lost."""
    pool = context.decided.pool(step.pool)
    proof = Drained(step.node, context.now())
    if step.node is not None and not await _lost(context, step.node) and (alive := await _alive(context, step.node)):
        _log.info("instance %s is not ended: %s live on Node %s", step.instance.id, ", ".join(alive), step.node)
        raise Stale
    await context.clouds.terminate(pool, step.instance.id, proof)
    return ActionOutcome.DONE


async def fail_pod(context: ExecutionContext, step: FailPod) -> ActionOutcome:
    """Write what the kubelet can no longer report: the pod has failed, because its machine is gone."""
    path = PODS.one(step.pod.name, step.namespace)
    raw = await context.client.get(path)
    if raw["metadata"]["uid"] != step.pod.uid:
        raise Stale
    conditions = raw.get("status", {}).get("conditions") or []
    kept = [condition for condition in conditions if condition["type"] != "DisruptionTarget"]
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "InstanceTerminated",
        "message": "the cloud says that the instance under this pod has ended",
        "lastTransitionTime": format_instant(context.now())[:19] + "Z",
    }
    operations = [
        uid_test(step.pod.uid),
        {"op": "test", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/status/phase", "value": "Failed"},
        {"op": "add", "path": "/status/reason", "value": "InstanceTerminated"},
        {"op": "add", "path": "/status/conditions", "value": [*kept, disrupted]},
    ]
    await context.objects.json_patch(kinds.PODS, PODS.status(step.pod.name, step.namespace), operations)
    return ActionOutcome.DONE


async def delete_pod(context: ExecutionContext, step: DeletePod) -> ActionOutcome:
    """Delete the pod without a grace period: no kubelet is left to end it."""
    await context.objects.delete(kinds.PODS, ObjectKey(step.namespace, step.pod.name), step.pod.uid, grace=0)
    return ActionOutcome.DONE


async def delete_node(context: ExecutionContext, step: DeleteNode) -> ActionOutcome:
    """Delete the Node object of a machine that is gone."""
    await context.objects.delete(kinds.NODES, ObjectKey("", step.node), step.uid)
    return ActionOutcome.DONE


async def _lost(context: ExecutionContext, node: NodeName) -> bool:
    try:
        raw = await context.client.get(NODES.one(node))
    except NotFound:
        return True
    return decode.node(raw).lost(context.now())


async def _alive(context: ExecutionContext, node: NodeName) -> list[str]:
    """Pods on the node that ending it would lose: not finished, no DaemonSet's, no mirror of a file on the node."""
    pods = await context.client.list(PODS.all(), fields=f"spec.nodeName={node}")
    alive = (pod["metadata"] for pod in pods.items if _would_be_lost(pod))
    return [f"{metadata['namespace']}/{metadata['name']}" for metadata in alive]


def _would_be_lost(pod: RawObject) -> bool:
    metadata = pod["metadata"]
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return False
    return not any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences") or [])


NODE_HANDLERS: Mapping[type, Handler] = {
    LabelNode: label_node,
    Cordon: cordon,
    Terminate: terminate,
    FailPod: fail_pod,
    DeletePod: delete_pod,
    DeleteNode: delete_node,
}
