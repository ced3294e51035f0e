"""A project of Google Cloud whose calls are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Pool
from charterer.domain.time import instant
from charterer.providers.gcp.calls import Answer, Params
from charterer.providers.gcp.cloud import GcpCloud
from charterer.providers.gcp.listing import instance_name, labels_of
from charterer.providers.gcp.permissions import Call
from charterer.providers.provider import Provider
from tests import factory
from tests.bench._cloud_calls import END_SECONDS, CountedCloud, LoopClock
from tests.clouds.gcp import operations
from tests.clouds.gcp.methods import METHODS
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import routes
from tests.clouds.gcp.settle import settle
from tests.clouds.gcp.state import Operation
from tests.contract.gcp_pools import table

_TYPE, _ZONE = "a2-highgpu-1g", "us-central1-a"
_CLUSTER = "11111111-2222-3333-4444-555555555555"
GCP_KINDS = ("groups of Google Cloud", "templates of Google Cloud")


class CountedGcp(CountedCloud):
    """A project of Google Cloud with pools in one zone."""

    def __init__(self, kind: str, pools: int, nodes: int) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.project = project = Project(clock=clock, pending_seconds=60, ending_seconds=END_SECONDS)
        self._requests = {route.name: route.request for route in routes()}
        made: dict[PoolId, Pool] = {}
        for number in range(pools):
            name = PoolId(f"pool-{number}")
            project.add_template(name, _TYPE, labels=labels_of(_CLUSTER, name))
            group = project.add_group(name, _ZONE, name)
            own: GcpGroup | GcpTemplate = GcpTemplate(project.id, _ZONE, name)
            if kind == GCP_KINDS[0]:
                own = GcpGroup(project.id, _ZONE, name)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            made[name] = factory.pool(cloud=own, **fields)
            names = [instance_name(OrderToken(f"c{number}-{node}")) for node in range(nodes // pools)]
            if kind == GCP_KINDS[0]:
                for each in names:
                    self._make(group.name, each)
            else:
                for each in names:
                    project.launch(each, _ZONE, project.templates["", name].properties)
        super().__init__(made)

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
        clock = asyncio.get_running_loop().time
        return GcpCloud(self.project.id, _own_cluster, self._send, clock, prices=table(self.project))

    @property
    def now(self) -> datetime:
        return self.project.clock.now

    def count(self) -> Mapping[str, int]:
        return self.project.count()

    def clear(self) -> None:
        self.project.calls.clear()

    def newest(self, pool: Pool, token: OrderToken) -> InstanceId:
        vm = self.project.named(_ZONE, instance_name(token))
        assert vm is not None
        return InstanceId(str(vm.id))

    def _send(self, call: Call, params: Params) -> Answer:
        self.project.calls.append((call.full_name, params))
        answer = self._act(call.full_name, params)
        body = type(answer).to_dict(answer, use_integers_for_enums=False, always_print_fields_with_no_presence=False)
        return Answer(body, instant(self.project.clock.now))

    def _act(self, name: str, params: Params) -> Any:
        settle(self.project)
        result = METHODS[name](self.project, self._requests[name]({"project": self.project.id, **params}))
        return operations.row(self.project, result) if isinstance(result, Operation) else result


async def _own_cluster(pool: PoolId) -> str:
    return _CLUSTER
