"""Steps on nodes: labels, cordons, the end of an instance, and the removal of an ended machine's Node and pods."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from charterer.api import decode
from charterer.api.names import LABEL_CORDONED
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import Conflict, NotFound, TooManyRequests
from charterer.cluster.kinds import pointer, uid_test
from charterer.cluster.paths import NODES, PODS
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.outcome import ActionOutcome, Held
from charterer.domain.ids import NodeName
from charterer.domain.steps import Cordon, DeleteNode, DeletePod, FailPod, LabelNode, Terminate, Uncordon
from charterer.domain.time import Instant, format_second
from charterer.providers.provider import Drained
from charterer.sentences import names

_log = logging.getLogger(__name__)

_NAMED = 5
"""Most pods that a message names. Of further pods the message gives the number."""


async def label_node(context: ExecutionContext, step: LabelNode) -> ActionOutcome:
    """Set or remove one label."""
    path = pointer("metadata", "labels", step.key)
    change = {"op": "remove", "path": path} if step.value is None else {"op": "add", "path": path, "value": step.value}
    await context.objects.json_patch(kinds.NODES, NODES.one(step.node), [uid_test(step.uid), change])
    return ActionOutcome.DONE


async def cordon(context: ExecutionContext, step: Cordon) -> ActionOutcome:
    """Make the Node unschedulable, and label it with the uid of the rental that is about to end."""
    noted = {"op": "add", "path": pointer("metadata", "labels", LABEL_CORDONED), "value": step.cordoned_for}
    change = {"op": "add", "path": "/spec/unschedulable", "value": True}
    await context.objects.json_patch(kinds.NODES, NODES.one(step.node), [uid_test(step.uid), noted, change])
    return ActionOutcome.DONE


async def uncordon(context: ExecutionContext, step: Uncordon) -> ActionOutcome:
    """Make the Node schedulable again."""
    noted = {"op": "remove", "path": pointer("metadata", "labels", LABEL_CORDONED)}
    change = {"op": "add", "path": "/spec/unschedulable", "value": False}
    await context.objects.json_patch(kinds.NODES, NODES.one(step.node), [uid_test(step.uid), noted, change])
    return ActionOutcome.DONE


async def terminate(context: ExecutionContext, step: Terminate) -> ActionOutcome:
    """End one instance on one of three conditions: an uncached list shows no live pod on its node, the node is lost, or
    the time to wait for the pods has passed.
    """
    pool = context.decided.pool(step.pool)
    proof = Drained(step.node, context.now())
    patient = step.patience_until is None or context.now() < step.patience_until
    if step.node is not None and patient and not await _lost(context, step.node):
        await _empty(context, step, step.node)
    await context.clouds.terminate(pool, step.instance.id, proof)
    return ActionOutcome.DONE


async def _empty(context: ExecutionContext, step: Terminate, node: NodeName) -> None:
    """Return if no pod is alive on the node. Raises Held if pods that belong to no run are alive, after evicting them.
    Raises Stale if pods of runs are alive.

    The living pods are recorded, because the machine counts in the group's target until they are gone.
    """
    alive = await _alive(context, node)
    holders = names((f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in alive), _NAMED)
    if _any_of_a_run(context, alive):
        _log.info("instance %s is not ended: %s live on Node %s", step.instance.id, holders, node)
        raise Stale
    rental = context.decided.rental(step.rental)
    if rental.held_by != holders:
        await context.objects.record_rental(replace(rental, held_by=holders))
        if not alive:
            raise Stale
    if not alive:
        return
    asked = step.evict_from is not None and context.now() >= step.evict_from
    refusals = [await _evict(context, pod) for pod in alive] if asked else []
    text = f"{holders} live{'s' if len(alive) == 1 else ''} on Node {node}, which is paid for only because of that: "
    text += "they were asked to leave" if asked else f"they are asked to leave at {_time(step.evict_from)}"
    refused = next((refusal for refusal in refusals if refusal), "")
    text += f" ({refused})" if refused else ""
    raise Held(f"{text}; the machine is ended at {_time(step.patience_until)} whatever lives there")


def _any_of_a_run(context: ExecutionContext, pods: Iterable[RawObject]) -> bool:
    """Whether the Job of a run controls one of the pods, whatever its labels say."""
    controllers = {pod.controller_uid for raw in pods if isinstance(pod := decode.pod(raw), decode.JobPod)}
    snapshot = context.decided.snapshot()
    runs = chain(
        (run for job in snapshot.jobs.values() for run in job.runs), (orphan.run for orphan in snapshot.orphans)
    )
    return bool(controllers) and any(run.uid in controllers for run in runs)


async def _evict(context: ExecutionContext, pod: RawObject) -> str:
    """Evict a pod with its grace period. Returns the reason if its PodDisruptionBudget forbids that, otherwise an empty
    text.
    """
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        return ""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    try:
        await context.client.post(f"{PODS.one(metadata['name'], metadata['namespace'])}/eviction", eviction)
    except (NotFound, Conflict):
        return ""
    except TooManyRequests as error:
        return error.message
    return ""


def _time(at: Instant | None) -> str:
    return "no time" if at is None else format_second(at)


async def fail_pod(context: ExecutionContext, step: FailPod) -> ActionOutcome:
    """Write the failure of a pod whose machine has ended, because its kubelet can no longer report the failure."""
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
        "lastTransitionTime": format_second(context.now()),
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
    """Delete the pod without a grace period, because no kubelet is left to end it."""
    await context.objects.delete(kinds.PODS, ObjectKey(step.namespace, step.pod.name), step.pod.uid, grace=0)
    return ActionOutcome.DONE


async def delete_node(context: ExecutionContext, step: DeleteNode) -> ActionOutcome:
    """Delete the Node object of a machine that has ended."""
    await context.objects.delete(kinds.NODES, ObjectKey("", step.node), step.uid)
    return ActionOutcome.DONE


async def _lost(context: ExecutionContext, node: NodeName) -> bool:
    try:
        raw = await context.client.get(NODES.one(node))
    except NotFound:
        return True
    return decode.node(raw).lost(context.now())


async def _alive(context: ExecutionContext, node: NodeName) -> list[RawObject]:
    """The pods that are lost if the node ends: all but finished pods, DaemonSets' pods and mirror pods of files."""
    pods = await context.client.list(PODS.all(), fields=f"spec.nodeName={node}")
    return [pod for pod in pods.items if _would_be_lost(pod)]


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
    Uncordon: uncordon,
    Terminate: terminate,
    FailPod: fail_pod,
    DeletePod: delete_pod,
    DeleteNode: delete_node,
}
