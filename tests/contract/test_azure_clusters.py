"""Node pools of AKS at the server of Azure, as its SDK sees them."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.core.rest import HttpRequest
from azure.mgmt.containerservice import models

from tests.clouds.azure.aks import reconcile
from tests.clouds.azure.resources import Cluster, NodePool, ScaleSet
from tests.clouds.azure.subscription import Subscription
from tests.contract.azure_calls import GROUP, SIZE, code_of, ids, poll, scale

NODES = "MC_gpu-rg_prod_westeurope"
SET = "aks-gpu-12345678-vmss"


@pytest.fixture
def pool(azure: Subscription) -> NodePool:
    """A pool with two machines."""
    pool = NodePool("gpu", SET, SIZE, 2, labels={"pool": "gpu"})
    azure.add_pool(Cluster(GROUP, "prod", azure.location, NODES), pool)
    return pool


def set_of(azure: Subscription) -> ScaleSet:
    """The scale set behind the pool."""
    return azure.scale_set(NODES, SET)


def resize(containers: Any, count: int, **options: Any) -> str:
    """Ask for so many machines; where the operation can be asked for."""
    seen: dict[str, str] = {}
    wanted = containers.agent_pools.get(GROUP, "prod", "gpu")
    wanted.properties.count = count
    containers.agent_pools.begin_create_or_update(
        *(GROUP, "prod", "gpu", wanted),
        polling=False,
        raw_response_hook=lambda reply: seen.update(reply.http_response.headers),
        **options,
    )
    return seen["Azure-AsyncOperation"]


def machines(containers: Any) -> list[str]:
    """The names of the pool's machines, without what they share."""
    return [each.name.removeprefix(SET) for each in containers.machines.list(GROUP, "prod", "gpu")]


def drop(containers: Any, *names: str) -> None:
    """Delete machines by their names."""
    wanted = models.AgentPoolDeleteMachinesParameter(machine_names=[f"{SET}{name}" for name in names])
    containers.agent_pools.begin_delete_machines(GROUP, "prod", "gpu", wanted, polling=False)


def test_the_sdk_reads_a_cluster_its_pools_and_machines(containers: Any, azure: Subscription, pool: NodePool) -> None:
    cluster = containers.managed_clusters.get(GROUP, "prod")
    assert cluster.properties.node_resource_group == NODES
    assert [each.name for each in cluster.properties.agent_pool_profiles] == ["gpu"]
    [found] = containers.agent_pools.list(GROUP, "prod")
    assert (found.properties.count, found.properties.vm_size, found.properties.e_tag) == (2, SIZE, pool.etag)
    [first, _] = containers.machines.list(GROUP, "prod", "gpu")
    assert first.properties.resource_id in azure.vms
    assert containers.machines.get(GROUP, "prod", "gpu", first.name).name == f"{SET}000000"
    assert code_of(lambda: containers.agent_pools.get(GROUP, "prod", "cpu")) == (404, "ResourceNotFound")


def test_a_changed_count_changes_the_scale_set(containers: Any, azure: Subscription, pool: NodePool) -> None:
    azure.operation_seconds = 60.0
    url = resize(containers, 3)
    assert containers.agent_pools.get(GROUP, "prod", "gpu").properties.provisioning_state == "Scaling"
    assert poll(containers, url)["status"] == "InProgress"
    azure.clock.advance(60)
    assert poll(containers, url)["status"] == "Succeeded"
    assert (machines(containers), set_of(azure).capacity) == (["000000", "000001", "000002"], 3)


def test_a_pool_that_is_busy_refuses(containers: Any, azure: Subscription, pool: NodePool) -> None:
    azure.operation_seconds = 60.0
    resize(containers, 3)
    assert code_of(lambda: resize(containers, 4)) == (409, "OperationNotAllowed")
    assert code_of(lambda: drop(containers, "000000")) == (409, "OperationNotAllowed")
    assert pool.count == 3


def test_a_stale_etag_of_a_pool_changes_nothing(containers: Any, azure: Subscription, pool: NodePool) -> None:
    before = pool.etag
    resize(containers, 3, etag=before, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceModifiedError):
        resize(containers, 4, etag=before, match_condition=MatchConditions.IfNotModified)
    assert pool.count == 3


def test_deleted_machines_lower_the_count(containers: Any, azure: Subscription, pool: NodePool) -> None:
    resize(containers, 4)
    drop(containers, "000001", "000002")
    assert (machines(containers), pool.count, set_of(azure).capacity) == (["000000", "000003"], 2, 2)
    assert code_of(lambda: drop(containers, "000000", "000009")) == (400, "InvalidParameter")
    assert pool.count == 2


def test_a_stock_out_fails_the_pool(containers: Any, azure: Subscription, pool: NodePool) -> None:
    azure.stock[SIZE, azure.location, "Regular"] = 1
    error = poll(containers, resize(containers, 4))["error"]
    assert error["code"] == "AllocationFailed"
    assert error["message"].startswith('original error: Code="AllocationFailed"')
    found = containers.agent_pools.get(GROUP, "prod", "gpu").properties
    assert (found.provisioning_state, found.count, len(machines(containers))) == ("Failed", 4, 4)
    drop(containers, "000003")
    assert containers.agent_pools.get(GROUP, "prod", "gpu").properties.provisioning_state == "Succeeded"


def test_a_quota_refuses_a_pool_at_once(containers: Any, azure: Subscription, pool: NodePool) -> None:
    azure.quotas["cores"] = 200
    assert code_of(lambda: resize(containers, 3)) == (400, "ErrCode_InsufficientVCPUQuota")
    assert pool.count == 2


def test_what_was_done_to_the_scale_set_itself_does_not_last(
    containers: Any, compute: Any, azure: Subscription, pool: NodePool
) -> None:
    scale(compute, 4, name=SET, group=NODES)
    assert (len(machines(containers)), pool.count) == (4, 2)
    reconcile(azure, azure.clusters[azure.path(GROUP, "managedClusters", "prod", "Microsoft.ContainerService").lower()])
    assert ids(compute, SET, NODES) == ["0", "1"]


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"vmSize": SIZE, "mode": "User"}, "Required parameters are missing: ['count']"),
        ({"vmSize": "Standard_D2s_v5", "mode": "User", "count": 2}, "Changing property 'properties.vmSize'"),
        ({"vmSize": SIZE, "mode": "User", "counts": 2}, "properties.counts: Extra inputs"),
        ({"vmSize": SIZE, "mode": "Users", "count": 2}, "properties.mode: Input should be"),
        ({"vmSize": SIZE, "mode": "User", "count": 2, "enableAutoScaling": True, "minCount": 3}, "must be from 3"),
    ],
)
def test_a_wrong_pool_is_refused(
    containers: Any, azure: Subscription, pool: NodePool, properties: Any, said: str
) -> None:
    path = azure.path(GROUP, "managedClusters", "prod/agentPools/gpu", "Microsoft.ContainerService")
    request = HttpRequest("PUT", f"{path}?api-version=2026-08-01", json={"properties": properties})
    reply = containers.send_request(request)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
    assert pool.version == 1


def test_what_a_put_leaves_out_is_taken_away(containers: Any, azure: Subscription, pool: NodePool) -> None:
    resize(containers, 3)
    assert pool.labels == {"pool": "gpu"}
    bare = models.AgentPool()
    bare.properties = models.AgentPoolManagedClusterAgentPoolProfileProperties(count=3, vm_size=SIZE, mode="User")
    containers.agent_pools.begin_create_or_update(GROUP, "prod", "gpu", bare, polling=False)
    assert pool.labels == {}
