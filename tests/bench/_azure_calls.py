"""A subscription of Azure whose calls are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import HttpResponseError

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Pool
from charterer.providers.azure.calls import Answer, Params
from charterer.providers.azure.cloud import AzureCloud
from charterer.providers.azure.permissions import Call
from charterer.providers.provider import Provider
from tests import factory
from tests.bench._cloud_calls import END_SECONDS, CountedCloud, LoopClock
from tests.clouds.azure import protocol
from tests.clouds.azure.operations import OPERATIONS
from tests.clouds.azure.resources import Cluster, NodePool, ScaleSet
from tests.clouds.azure.retail import Feed
from tests.clouds.azure.subscription import Subscription

AZURE_KINDS = ("Uniform scale sets", "Flexible scale sets", "node pools of AKS")
_SIZE = "Standard_ND96asr_v4"
_GROUP, _NODES, _CLUSTER = "gpu-rg", "MC_gpu-rg_prod_westeurope", "prod"
_PLAIN = {
    Call.LIST_PERMISSIONS: "permissions_list",
    Call.LIST_AUTOSCALE: "autoscale_settings_list",
}
_QUERY = {"filter": "$filter", "expand": "$expand"}
_BODIES = ("parameters", "vm_instance_i_ds", "machines")


class _Refused(HttpResponseError):
    """An error answer, as the SDK raises it."""

    def __init__(self, fault: protocol.Fault) -> None:
        super().__init__(fault.message)
        self.status_code = fault.status
        self.response: Any = SimpleNamespace(status_code=fault.status, headers=fault.headers)
        self.error: Any = SimpleNamespace(code=fault.code, message=fault.message)


class CountedAzure(CountedCloud):
    """A subscription with as many scale sets, or node pools of one cluster, as there are pools."""

    def __init__(self, kind: str, pools: int, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        self._sub = sub = Subscription(clock=LoopClock(loop), start_seconds=60.0, delete_seconds=END_SECONDS)
        sub.operation_seconds, sub.page = 60.0, 1000
        self._feed = Feed()
        self._calls: Counter[str] = Counter()
        self._sets: dict[PoolId, ScaleSet] = {}
        made: dict[PoolId, Pool] = {}
        cluster = Cluster(_GROUP, _CLUSTER, sub.location, _NODES)
        for number in range(pools):
            name, each = PoolId(f"pool{number}"), nodes // pools
            cloud: AzureScaleSet | AzureNodePool
            if kind == AZURE_KINDS[2]:
                cloud = AzureNodePool(sub.id, _GROUP, sub.location, _CLUSTER, name)
                self._sets[name] = sub.add_pool(cluster, NodePool(name, f"aks-{name}-vmss", _SIZE, each))
            else:
                cloud = AzureScaleSet(sub.id, _GROUP, sub.location, name)
                mode = kind.partition(" ")[0]
                self._sets[name] = sub.add_scale_set(name, _SIZE, orchestration=mode, capacity=each)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            made[name] = factory.pool(cloud=cloud, max_nodes=1000, **fields)
        super().__init__(made)

    def adapter(self) -> Provider:
        return AzureCloud(self._sub.id, "", "", self._send, asyncio.get_running_loop().time)

    @property
    def now(self) -> datetime:
        return self._sub.clock.now

    def count(self) -> Mapping[str, int]:
        return self._calls

    def clear(self) -> None:
        self._calls.clear()

    def newest(self, pool: Pool, token: OrderToken) -> InstanceId:
        return InstanceId(self._sub.members(self._sets[pool.id])[-1].vm_id)

    def wanted(self, pool: Pool) -> int:
        return len(self._sub.members(self._sets[pool.id])) + 1

    def _send(self, call: Call, params: Params) -> Answer:
        self._calls[call.full_name] += 1
        date = {"Date": format_datetime(self.now.replace(microsecond=0), usegmt=True)}
        if call is Call.LIST_PRICES:
            return Answer([row for row in self._feed.rows() if row["armSkuName"] == _SIZE], date)
        name = _PLAIN.get(call, call.full_name.replace(".", "_"))
        args = {key: value for key, value in params.items() if isinstance(value, str)}
        if call is Call.GET_OPERATION:
            provider = "container_operations" if "ContainerService" in params["url"] else "operations"
            name, path = f"{provider}_get", params["url"].partition("?")[0]
            args = {"path": path, "operation_id": path.rpartition("/")[2]}
        elif call in _PLAIN:
            args = {"resource_group_name": params["url"].split("/")[4]}
        query = {wire: params[key] for key, wire in _QUERY.items() if key in params}
        body = next((dict(params[key]) for key in _BODIES if key in params), {})
        headers = {"If-Match": params["etag"]} if "etag" in params else {}
        given = protocol.Call({"path": "/", **args}, query, body, headers, "https://management.azure.com")
        try:
            told = OPERATIONS[name].act(self._sub, given)
        except protocol.Fault as fault:
            raise _Refused(fault) from fault
        rows = told.body["value"] if told.body is not None and "value" in told.body else told.body
        return Answer(rows, {**told.headers, **date})
