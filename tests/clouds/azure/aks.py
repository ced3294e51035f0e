"""Calls of AKS clusters, whose node pools are scale sets in a resource group of their own."""

from __future__ import annotations

from tests.clouds.azure import scaling
from tests.clouds.azure.polling import accepted, check_match, page
from tests.clouds.azure.protocol import CONTAINERS, Answer, Body, Call, Fault
from tests.clouds.azure.resources import Cluster, NodePool, Operation, ScaleSet, Vm
from tests.clouds.azure.subscription import Subscription

_CLUSTERS = "Microsoft.ContainerService/managedClusters"
_PRIORITY = "kubernetes.azure.com/scalesetpriority"
"""The label and the taint of spot nodes, as https://learn.microsoft.com/azure/aks/spot-node-pool shows an answer."""


def _cluster(sub: Subscription, call: Call) -> Cluster:
    name = call.args["resource_name"]
    found = sub.clusters.get(sub.path(call.group, "managedClusters", name, CONTAINERS).lower())
    if found is None:
        raise sub.not_found(call.group, f"{_CLUSTERS}/{name}")
    return found


def _pool(sub: Subscription, call: Call) -> tuple[Cluster, NodePool]:
    cluster, name = _cluster(sub, call), call.args["agent_pool_name"]
    if name not in cluster.pools:
        raise sub.not_found(call.group, f"{_CLUSTERS}/{cluster.name}/agentPools/{name}")
    return cluster, cluster.pools[name]


def _set_of(sub: Subscription, cluster: Cluster, pool: NodePool) -> ScaleSet:
    return sub.scale_set(cluster.node_group, pool.scale_set)


# --- what it looks like --------------------------------------------------------------------------------------------


def _properties(sub: Subscription, pool: NodePool) -> Body:
    properties: Body = {
        "eTag": pool.etag,
        "count": pool.count,
        "vmSize": pool.size,
        "osType": "Linux",
        "type": pool.kind,
        "mode": pool.mode,
        "provisioningState": pool.provisioning_at(sub.clock.now),
        "powerState": {"code": "Running"},
        "enableAutoScaling": pool.autoscaling is not None,
        "scaleDownMode": pool.scale_down,
        "tags": pool.tags,
        "nodeLabels": pool.labels,
        "nodeTaints": list(pool.taints),
    }
    if pool.autoscaling is not None:
        properties |= {"minCount": pool.autoscaling[0], "maxCount": pool.autoscaling[1]}
    if pool.zones:
        properties["availabilityZones"] = list(pool.zones)
    if pool.priority == "Spot":
        spot = {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": pool.eviction, "spotMaxPrice": -1.0}
        properties |= spot
        properties["nodeLabels"] = {**pool.labels, _PRIORITY: "spot"}
        properties["nodeTaints"] = list(dict.fromkeys([*pool.taints, f"{_PRIORITY}=spot:NoSchedule"]))
    return properties


def _view(sub: Subscription, cluster: Cluster, pool: NodePool) -> Body:
    return {
        "id": f"{_id(sub, cluster)}/agentPools/{pool.name}",
        "name": pool.name,
        "type": f"{_CLUSTERS}/agentPools",
        "properties": _properties(sub, pool),
    }


def _id(sub: Subscription, cluster: Cluster) -> str:
    return sub.path(cluster.group, "managedClusters", cluster.name, CONTAINERS)


def get_cluster(sub: Subscription, call: Call) -> Answer:
    """One cluster, with its pools."""
    cluster = _cluster(sub, call)
    properties: Body = {
        "provisioningState": cluster.state,
        "powerState": {"code": cluster.power},
        "kubernetesVersion": "1.33.2",
        "nodeResourceGroup": cluster.node_group,
        "nodeProvisioningProfile": {"mode": cluster.provisioning_mode},
        "agentPoolProfiles": [{"name": p.name, **_properties(sub, p)} for p in cluster.pools.values()],
    }
    body = {"id": _id(sub, cluster), "name": cluster.name, "type": _CLUSTERS, "location": cluster.location}
    return Answer({**body, "properties": properties})


def get_pool(sub: Subscription, call: Call) -> Answer:
    """One pool."""
    return Answer(_view(sub, *_pool(sub, call)))


def list_pools(sub: Subscription, call: Call) -> Answer:
    """The pools of a cluster."""
    cluster = _cluster(sub, call)
    return page(sub, call, [_view(sub, cluster, pool) for pool in cluster.pools.values()])


def _machine(sub: Subscription, cluster: Cluster, pool: NodePool, vm: Vm) -> Body:
    body: Body = {
        "id": f"{_id(sub, cluster)}/agentPools/{pool.name}/machines/{vm.computer}",
        "name": vm.computer,
        "type": f"{_CLUSTERS}/agentPools/machines",
        "properties": {"resourceId": vm.id},
    }
    return body | ({"zones": [vm.zone]} if vm.zone else {})


def list_machines(sub: Subscription, call: Call) -> Answer:
    """The machines of a pool; each names its VM."""
    cluster, pool = _pool(sub, call)
    mine, at = sub.id_of(_set_of(sub, cluster, pool)), sub.listed_at
    rows = [vm for vm in sub.vms.values() if vm.scale_set == mine and vm.there_at(at)]
    return page(sub, call, [_machine(sub, cluster, pool, vm) for vm in rows])


def get_machine(sub: Subscription, call: Call) -> Answer:
    """One machine of a pool."""
    cluster, pool = _pool(sub, call)
    mine, name = sub.id_of(_set_of(sub, cluster, pool)), call.args["machine_name"]
    for vm in sub.vms.values():
        if vm.scale_set == mine and vm.computer == name and vm.there_at(sub.clock.now):
            return Answer(_machine(sub, cluster, pool, vm))
    raise sub.not_found(call.group, f"{_CLUSTERS}/{cluster.name}/agentPools/{pool.name}/machines/{name}")


# --- changes -------------------------------------------------------------------------------------------------------


def _check_idle(sub: Subscription, cluster: Cluster, pool: NodePool) -> None:
    """Refuse a change while another one runs.

    The texts: https://github.com/cilium/cilium/issues/25944 and
    https://github.com/Azure/terraform-azurerm-avm-ptn-aks-production/pull/25
    """
    running = ""
    if pool.latest is not None and pool.latest.status_at(sub.clock.now) == "InProgress":
        running = f"Another agentpool operation ({pool.name} - {pool.doing})"
    elif cluster.state not in ("Succeeded", "Failed"):
        running = f"Another operation ({cluster.state})"
    if running:
        text = "please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation"
        message = f"Operation is not allowed: {running} is in progress, {text} for more details"
        raise Fault(409, "OperationNotAllowed", message)


def _check_fixed(pool: NodePool, wanted: Body) -> None:
    fixed = {"vmSize": pool.size, "type": pool.kind, "availabilityZones": list(pool.zones)}
    fixed |= {"scaleSetPriority": pool.priority, "scaleSetEvictionPolicy": pool.eviction}
    for key, value in fixed.items():
        if key in wanted and wanted[key] != value:
            raise Fault(400, "PropertyChangeNotAllowed", f"Changing property 'properties.{key}' is not allowed.")
    if missing := {"count", "vmSize", "mode"} - set(wanted):
        raise Fault(400, "InvalidParameter", f"Required parameters are missing: {sorted(missing)}")


def _check_quota(sub: Subscription, scale_set: ScaleSet, count: int) -> None:
    """A pool beyond a quota is refused with a code of AKS's own; the text around the cause is this server's."""
    try:
        scaling.check_room(sub, scale_set, count)
    except Fault as fault:
        if fault.code != sub.quota_code:
            raise
        code = "ErrCode_InsufficientVCPUQuota"
        raise Fault(400, code, f"Insufficient vcpu quota for {scale_set.size}: {fault.message}") from fault


def create_or_update_pool(sub: Subscription, call: Call) -> Answer:
    """Change an existing pool: its count, tags, labels, taints, mode and autoscaling. As in every PUT, what is not said
    is taken away; this server makes no new pool."""
    cluster, pool = _pool(sub, call)
    check_match(call, pool.etag)
    _check_idle(sub, cluster, pool)
    wanted = call.body.get("properties", {})
    _check_fixed(pool, wanted)
    count = wanted["count"]
    bounds = (wanted.get("minCount", 0), wanted.get("maxCount", 1000)) if wanted.get("enableAutoScaling") else None
    least, most = bounds or (0, 1000)
    if not max(least, pool.mode == "System") <= count <= most:
        raise Fault(400, "InvalidParameter", f"The count {count} must be from {least} to {most}.")
    scale_set = _set_of(sub, cluster, pool)
    _check_quota(sub, scale_set, count)
    pool.doing = "Updating" if count == pool.count else "Scaling"
    pool.count, pool.autoscaling, pool.mode = count, bounds, wanted["mode"]
    pool.tags, pool.labels = wanted.get("tags", {}), wanted.get("nodeLabels", {})
    pool.taints = tuple(wanted.get("nodeTaints", ()))
    operation = _reconcile(sub, cluster, pool)
    return accepted(sub, call, operation, 200, _view(sub, cluster, pool))


def delete_machines(sub: Subscription, call: Call) -> Answer:
    """Delete machines of a pool by their names, and lower its count by as many.

    That an unknown name refuses the whole call is a decision; the description of the API leaves it open.
    """
    cluster, pool = _pool(sub, call)
    _check_idle(sub, cluster, pool)
    scale_set = _set_of(sub, cluster, pool)
    there = {vm.computer: vm for vm in sub.members(scale_set)}
    names = dict.fromkeys(call.body["machineNames"])
    if unknown := sorted(set(names) - set(there)):
        raise Fault(400, "InvalidParameter", f"The pool {pool.name} has no machines {', '.join(unknown)}.")
    pool.doing = "Deleting"
    for name in names:
        scaling.delete(sub, there[name], sub.delete_seconds)
    pool.count -= len(names)
    scale_set.capacity -= len(names)
    operation = _reconcile(sub, cluster, pool)
    return accepted(sub, call, operation, 202)


def _reconcile(sub: Subscription, cluster: Cluster, pool: NodePool) -> Operation:
    scale_set = _set_of(sub, cluster, pool)
    operation = sub.begin("agentPool", f"{_id(sub, cluster)}/agentPools/{pool.name}", CONTAINERS)
    pool.latest = scale_set.latest = operation
    pool.version += 1
    scale_set.version += 1
    scale_set.capacity = pool.count
    scaling.grow(sub, scale_set, operation)
    scaling.shrink(sub, scale_set)
    if operation.error is not None:
        # the form: https://github.com/jenkins-infra/helpdesk/issues/4337
        code, message = operation.error
        operation.error = (code, f'original error: Code="{code}" Message="{message}"')
    return operation


def reconcile(sub: Subscription, cluster: Cluster) -> None:
    """By hand: AKS makes the scale sets of a cluster again what their pools say, whatever was done to them.

    https://learn.microsoft.com/azure/aks/faq: changes of resources in the node resource group are not supported.
    """
    for pool in cluster.pools.values():
        _reconcile(sub, cluster, pool)
