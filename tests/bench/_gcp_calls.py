"""Google Cloud with pools and nodes, for counting calls: its project, and its adapter without HTTP in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Order, Reply
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.time import instant
from charterer.providers.gcp.calls import Answer, Params
from charterer.providers.gcp.cloud import GcpCloud
from charterer.providers.gcp.names import instance_name, labels_of
from charterer.providers.gcp.permissions import Call
from charterer.providers.provider import Provider
from tests import factory
from tests.clouds.clock import Clock
from tests.clouds.gcp import operations
from tests.clouds.gcp.methods import METHODS
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import routes
from tests.clouds.gcp.settle import settle
from tests.clouds.gcp.state import Operation
from tests.contract.gcp_pools import table

_TYPE, _ZONE = "a2-highgpu-1g", "us-central1-a"
_CLUSTER = "11111111-2222-3333-4444-555555555555"
KINDS: Mapping[str, CapacityType] = {"groups": CapacityType.ON_DEMAND, "templates": CapacityType.ON_DEMAND}


class GcpWorld:
    """A project with pools in one zone, each with its share of the nodes. ``ending``: seconds that an end takes."""

    def __init__(self, kind: str, pools: int, nodes: int, clock: Clock, ending: float) -> None:
        self.account = project = Project(clock=clock, pending_seconds=60, ending_seconds=ending)
        self._requests = {route.name: route.request for route in routes()}
        self.pools: dict[PoolId, Pool] = {}
        for number in range(pools):
            name = PoolId(f"pool-{number}")
            project.add_template(name, _TYPE, labels=labels_of(_CLUSTER, name))
            group = project.add_group(name, _ZONE, name)
            own: GcpGroup | GcpTemplate = GcpTemplate(project.id, _ZONE, name)
            if kind == "groups":
                own = GcpGroup(project.id, _ZONE, name)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            self.pools[name] = factory.pool(cloud=own, capacity_type=KINDS[kind], **fields)
            names = [instance_name(OrderToken(f"c{number}-{node}")) for node in range(nodes // pools)]
            if kind == "groups":
                for each in names:
                    self._make(group.name, each)
            else:
                for each in names:
                    project.launch(each, _ZONE, project.templates["", name].properties)

    def _make(self, group: str, name: str) -> None:
        body = {"instances": [{"name": name}]}
        self._act(
            "instanceGroupManagers.createInstances",
            {
                "zone": _ZONE,
                "instance_group_manager": group,
                "instance_group_managers_create_instances_request_resource": body,
            },
        )

    def adapter(self) -> Provider:
        """The project's adapter."""
        clock = asyncio.get_running_loop().time
        return GcpCloud(self.account.id, _own_cluster, self._send, clock, prices=table(self.account))

    def machine(self, reply: Reply, order: Order) -> InstanceId:
        """The machine that an order got."""
        vm = self.account.named(_ZONE, instance_name(order.token))
        assert vm is not None
        return InstanceId(str(vm.id))

    def _send(self, call: Call, params: Params) -> Answer:
        self.account.calls.append((call.full_name, params))
        answer = self._act(call.full_name, params)
        body = type(answer).to_dict(answer, use_integers_for_enums=False, always_print_fields_with_no_presence=False)
        return Answer(body, instant(self.account.clock.now))

    def _act(self, name: str, params: Params) -> Any:
        settle(self.account)
        result = METHODS[name](self.account, self._requests[name]({"project": self.account.id, **params}))
        return operations.row(self.account, result) if isinstance(result, Operation) else result


async def _own_cluster(pool: PoolId) -> str:
    return _CLUSTER
