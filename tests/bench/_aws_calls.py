"""AWS with pools and nodes, for counting calls: its account, and its adapter without HTTP in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.order import Order, Reply
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.aws.calls import Answer, Params
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, Call
from charterer.providers.provider import Provider
from tests import factory
from tests.clouds.aws.account import Account, Group
from tests.clouds.aws.operations import OPERATIONS
from tests.clouds.aws.protocol import Fault
from tests.clouds.clock import Clock

_TYPE = "p4d.24xlarge"
_REGION = "us-east-1"
_CLUSTER = "11111111-2222-3333-4444-555555555555"
_QUEUE = "https://sqs.us-east-1.amazonaws.com/111122223333/charterer"
_METADATA = {"HttpEndpoint": "enabled", "InstanceMetadataTags": "enabled"}
KINDS: Mapping[str, tuple[AwsFleet | AwsGroup, CapacityType]] = {
    "fleets": (AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,)), CapacityType.ON_DEMAND),
    "fleets, spot, a queue": (
        AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,), queue=_QUEUE),
        CapacityType.SPOT,
    ),
    "fleets, abandonAfterSeconds 3600": (
        AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,), abandon_seconds=3600),
        CapacityType.ON_DEMAND,
    ),
    "groups": (AwsGroup(_REGION, ""), CapacityType.ON_DEMAND),
}


class AwsWorld:
    """An account with pools, each with its share of the nodes. ``ending``: seconds that a node takes to end."""

    def __init__(self, kind: str, pools: int, nodes: int, clock: Clock, ending: float) -> None:
        self.account = account = Account(clock=clock, pending_seconds=60, ending_seconds=ending)
        for subnet, zone in (("subnet-a", "us-east-1a"), ("subnet-b", "us-east-1b")):
            account.add_subnet(subnet, zone, free=10**6)
            account.set_spot_price(_TYPE, zone, "9.5")
        account.add_template("gpu", MetadataOptions=_METADATA, InstanceInitiatedShutdownBehavior="terminate")
        cloud, capacity = KINDS[kind]
        self.pools: dict[PoolId, Pool] = {}
        for number in range(pools):
            name = PoolId(f"pool-{number}")
            own: AwsFleet | AwsGroup = cloud
            tags = {CLUSTER_TAG: _CLUSTER, POOL_TAG: name}
            if isinstance(cloud, AwsGroup):
                own = AwsGroup(_REGION, name)
                account.groups[name] = Group(name, "gpu", (_TYPE,), ("subnet-a", "subnet-b"), tags, most=10**6)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            self.pools[name] = factory.pool(cloud=own, capacity_type=capacity, **fields)
            for node in range(nodes // pools):
                order = {ORDER_TAG: f"c{number}-{node}"}
                sold = "spot" if capacity is CapacityType.SPOT else "on-demand"
                account.launch(_TYPE, "subnet-a", sold, "", {**tags, **order})

    def adapter(self) -> Provider:
        """The account's adapter."""
        return AwsCloud(_REGION, "", _own_cluster, self._send, asyncio.get_running_loop().time)

    def machine(self, reply: Reply, order: Order) -> InstanceId:
        """The machine that an order got."""
        return InstanceId(reply.launched[order.token])

    def _send(self, call: Call, params: Params) -> Answer:
        name = call.full_name
        self.account.calls.append((f"{name} (dry run)" if params.get("DryRun") else name, params))
        date = {"ResponseMetadata": {"HTTPHeaders": {"date": f"{self.account.clock.now:%a, %d %b %Y %H:%M:%S GMT}"}}}
        try:
            if params.get("DryRun"):
                raise Fault("DryRunOperation", "", 412)
            sent = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in params.items()}
            return {**OPERATIONS[name](self.account, sent, _REGION), **date}
        except Fault as fault:
            told = {"Error": {"Code": fault.code, "Message": fault.message}, **date}
            raise ClientError(told, call.operation) from fault


async def _own_cluster(pool: PoolId) -> str:
    return _CLUSTER
