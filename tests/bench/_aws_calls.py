"""An account of AWS whose calls are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.aws.calls import Answer, Params
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, Call
from charterer.providers.provider import Provider
from tests import factory
from tests.bench._cloud_calls import END_SECONDS, CountedCloud, LoopClock
from tests.clouds.aws.account import Account, Group
from tests.clouds.aws.operations import OPERATIONS
from tests.clouds.aws.protocol import Fault

_TYPE = "p4d.24xlarge"
_REGION = "us-east-1"
_CLUSTER = "11111111-2222-3333-4444-555555555555"
_QUEUE = "https://sqs.us-east-1.amazonaws.com/111122223333/charterer"
_METADATA = {"HttpEndpoint": "enabled", "InstanceMetadataTags": "enabled"}
AWS_KINDS: Mapping[str, tuple[AwsFleet | AwsGroup, CapacityType]] = {
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


class CountedAws(CountedCloud):
    """An account of AWS."""

    def __init__(self, kind: str, pools: int, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        self.account = account = Account(clock=LoopClock(loop), pending_seconds=60, ending_seconds=END_SECONDS)
        for subnet, zone in (("subnet-a", "us-east-1a"), ("subnet-b", "us-east-1b")):
            account.add_subnet(subnet, zone, free=10**6)
            account.set_spot_price(_TYPE, zone, "9.5")
        account.add_template("gpu", MetadataOptions=_METADATA, InstanceInitiatedShutdownBehavior="terminate")
        cloud, capacity = AWS_KINDS[kind]
        made: dict[PoolId, Pool] = {}
        for number in range(pools):
            name = PoolId(f"pool-{number}")
            own: AwsFleet | AwsGroup = cloud
            tags = {CLUSTER_TAG: _CLUSTER, POOL_TAG: name}
            if isinstance(cloud, AwsGroup):
                own = AwsGroup(_REGION, name)
                account.groups[name] = Group(name, "gpu", (_TYPE,), ("subnet-a", "subnet-b"), tags, most=10**6)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            made[name] = factory.pool(cloud=own, capacity_type=capacity, **fields)
            for node in range(nodes // pools):
                order = {ORDER_TAG: f"c{number}-{node}"}
                sold = "spot" if capacity is CapacityType.SPOT else "on-demand"
                account.launch(_TYPE, "subnet-a", sold, "", {**tags, **order})
        super().__init__(made)

    def adapter(self) -> Provider:
        return AwsCloud(_REGION, "", _own_cluster, self._send, asyncio.get_running_loop().time)

    @property
    def now(self) -> datetime:
        return self.account.clock.now

    def count(self) -> Mapping[str, int]:
        return self.account.count()

    def clear(self) -> None:
        self.account.calls.clear()

    def newest(self, pool: Pool, token: OrderToken) -> InstanceId:
        tagged = (m for m in self.account.machines.values() if m.tags_at(self.now).get(ORDER_TAG) == token)
        return InstanceId(next(tagged).id)

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
