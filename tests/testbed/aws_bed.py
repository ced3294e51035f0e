"""A bed with AWS nodes: the operator's SDK calls our own server, and this server's machines join the cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.cluster.paths import NAMESPACES
from charterer.domain.pool import Pool
from charterer.providers.accounts import Environment, OwnCluster, adapter_for
from charterer.providers.aws.calls import Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.listing import LAG_SECONDS
from charterer.providers.aws.permissions import ABANDON_TAG, CLUSTER_TAG, POOL_TAG
from charterer.providers.objects import Objects
from charterer.providers.provider import Provider
from tests.clouds.aws.account import TERMINATED_LISTED, Account, Group, Machine
from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.server import AwsServer
from tests.clouds.clock import WallClock
from tests.testbed.bed import parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.joining import Joining, JoiningBed, while_they_join

REGION = "us-east-1"
TYPE = "p4d.24xlarge"
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
KEY = "AKIATESTTESTTESTTEST"
SPOT_PRICE = "9.5"
_SUBNETS: Mapping[str, str] = {"subnet-a": "us-east-1a", "subnet-b": "us-east-1b"}
_BEHIND_SECONDS = 120
"""Seconds by which the account's clock is behind the operator's.

Machines are billed and kept for a minute at least. Because of the offset, this minute is over when a machine joins.
"""


@dataclass(frozen=True, slots=True)
class AwsAt:
    """Makes an operator's AWS adapters call ``endpoint`` with test credentials."""

    endpoint: str

    def __call__(self, pool: Pool, environ: Environment, objects: Objects | None = None) -> Provider:
        if not isinstance(pool.cloud, AwsFleet | AwsGroup):
            return adapter_for(pool, environ, objects)
        assert objects is not None
        os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": "secret"}
        cloud = pool.cloud
        sdk = Sdk(cloud.region, cloud.assume_role, self.endpoint)
        return AwsCloud(cloud.region, cloud.assume_role, OwnCluster(objects), sdk)


@dataclass(slots=True)
class AwsBed(JoiningBed):
    """A bed and its AWS account."""

    account: Account = field(kw_only=True)

    async def aws_pool(
        self,
        name: str = "aws",
        *,
        group: bool = False,
        spot: bool = False,
        abandon: int | None = None,
        reservation: str | None = None,
        **spec: object,
    ) -> None:
        """Create a pool of machines with eight A100s each, from a fleet or with ``group`` from an Auto Scaling group.

        ``abandon`` is abandonAfterSeconds. ``reservation`` is capacityReservation.
        """
        if group:
            system = await self.kube.get(NAMESPACES.one("kube-system"))
            tags = {CLUSTER_TAG: system["metadata"]["uid"], POOL_TAG: name}
            tags |= {} if abandon is None else {ABANDON_TAG: str(abandon)}
            sold = "spot" if spot else "on-demand"
            self.account.groups[name] = Group(name, "gpu", (TYPE,), tuple(_SUBNETS), tags, sold)
            cloud: dict[str, object] = {"autoScalingGroup": name}
        else:
            cloud = {"launchTemplate": {"name": "gpu"}, "subnets": [*_SUBNETS], "instanceTypes": [TYPE]}
        cloud |= {} if abandon is None else {"abandonAfterSeconds": abandon}
        cloud |= {} if reservation is None else {"capacityReservation": reservation}
        common = {"maxNodes": 10, "startSeconds": 3, "cooldownSeconds": 300}
        capacity = {"capacityType": "Spot" if spot else "OnDemand"}
        await self.create("GPUPool", name, {"aws": {"region": REGION, **cloud}, **common, **capacity, **spec})

    async def instances(self) -> list[Mapping[str, Any]]:
        """Return the machines that are billed now."""
        with self.account.lock:
            return [{"id": machine.id} for machine in self.account.alive()]

    async def bill(self) -> tuple[Sized, int]:
        """Return the cost of each machine ever launched, and the sum."""
        with self.account.lock:
            lines = self.account.bill()
        return lines, sum(lines.values())

    async def settle(self) -> None:
        """Once all machines have ended, advance the clock by an hour, so that the account no longer lists them."""
        await self.given_back()
        self.account.clock.advance(TERMINATED_LISTED.total_seconds() + LAG_SECONDS)

    def joining(self) -> Sequence[Joining]:
        """Return all machines of the account in their present state."""
        with self.account.lock:
            machines, now = list(self.account.machines.values()), self.account.clock.now
        return [
            Joining(
                id=machine.id,
                node=node_name(machine),
                provider_id=provider_id(machine),
                instance_type=machine.type,
                zone=machine.subnet.zone,
                vcpus=TYPES[machine.type].vcpus,
                memory="1152Gi",
                gpus=TYPES[machine.type].gpus,
                gpu_type=GPU_TYPE,
                runs=machine.state_at(now) == "running",
                ends=machine.ending is not None,
            )
            for machine in machines
        ]


def node_name(machine: Machine) -> str:
    """Return the machine's private DNS name, under which it joins."""
    number = int(machine.id[2:], 16)
    return f"ip-10-0-{number // 256}-{number % 256}.ec2.internal"


def provider_id(machine: Machine) -> str:
    """Return the providerID of the machine's Node."""
    return f"aws:///{machine.subnet.zone}/{machine.id}"


@asynccontextmanager
async def open_aws_bed(
    plane: ControlPlane, directory: Path, *, pace: float = 1.0, behind_seconds: float = _BEHIND_SECONDS
) -> AsyncIterator[AwsBed]:
    """Open a bed with an account of two subnets, a launch template and unlimited capacity.

    ``pace`` is seconds of the account's clock per second of the operator's. The account's clock starts
    ``behind_seconds`` behind.
    """
    account = Account(clock=WallClock(pace), pending_seconds=1.0)
    account.clock.advance(-behind_seconds)
    for subnet, zone in _SUBNETS.items():
        account.add_subnet(subnet, zone)
        account.set_spot_price(TYPE, zone, SPOT_PRICE)
    account.add_template("gpu")
    with AwsServer(account) as server:
        parts = await parts_of_bed(plane, directory, ())
        bed = AwsBed(*parts, adapters=AwsAt(server.url), account=account)
        async with while_they_join(bed):
            yield bed
