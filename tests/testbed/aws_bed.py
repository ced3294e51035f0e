"""A bed whose nodes come from AWS: the operator's SDK talks to our own server, whose machines join the cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.paths import NAMESPACES, NODES, TRAINING_JOBS
from charterer.domain.pool import Pool
from charterer.fakecloud.nodes import HEARTBEAT, SILENT
from charterer.providers.accounts import Environment, adapter_for
from charterer.providers.aws.calls import Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.listing import LAG_SECONDS
from charterer.providers.aws.permissions import ABANDON_TAG, CLUSTER_TAG, POOL_TAG
from charterer.providers.karpenter.objects import Objects
from charterer.providers.own_cluster import OwnCluster
from charterer.providers.provider import Provider
from tests.clouds.aws.account import TERMINATED_LISTED, Account, Group, Machine
from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.server import AwsServer
from tests.clouds.clock import WallClock
from tests.testbed.bed import Bed, dismantle, parts_of_bed
from tests.testbed.controlplane import ControlPlane

REGION = "us-east-1"
TYPE = "p4d.24xlarge"
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
KEY = "AKIATESTTESTTESTTEST"
SPOT_PRICE = "9.5"
_SUBNETS: Mapping[str, str] = {"subnet-a": "us-east-1a", "subnet-b": "us-east-1b"}
_LOOK_SECONDS = 0.1
_BEHIND_SECONDS = 120
"""By how much the account's clock is behind the operator's: the minute that a machine costs at least, and for which it
is kept, is over when it comes."""


@dataclass(frozen=True, slots=True)
class AwsAt:
    """Makes an operator's adapters of AWS talk to ``endpoint``, with the credentials of a test."""

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
class AwsBed(Bed):
    """Bed and account."""

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
        """A pool of machines with eight A100s each: of a fleet or, if so said, of an Auto Scaling group of its own.

        ``abandon``: its abandonAfterSeconds. ``reservation``: its capacityReservation.
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
        """The machines that are billed now."""
        with self.account.lock:
            return [{"id": machine.id} for machine in self.account.alive()]

    async def bill(self) -> tuple[Sized, int]:
        """What each machine that ever was costs, and the sum."""
        with self.account.lock:
            lines = self.account.bill()
        return lines, sum(lines.values())

    async def settle(self) -> None:
        """When all machines have ended: an hour later, when the account lists none of them any more."""
        await self.until(lambda: len(self.rentals("Ended")) == len(self.rentals()))
        self.account.clock.advance(TERMINATED_LISTED.total_seconds() + LAG_SECONDS)

    async def close(self) -> None:
        """As every bed, but jobs are deleted and their machines ended an hour before."""
        for raw in self.mirror.all(TRAINING_JOBS, self.namespace):
            await self.delete("TrainingJob", raw["metadata"]["name"])
        await self.settle()
        await Bed.close(self)

    async def join(self) -> None:
        """Let machines that run join the cluster, and those that end fall silent, for ever."""
        joined: set[str] = set()
        while True:
            with self.account.lock:
                machines, now = list(self.account.machines.values()), self.account.clock.now
            for machine in machines:
                if machine.id not in joined and machine.state_at(now) == "running":
                    await self._register(machine)
                    joined.add(machine.id)
                elif machine.id in joined and machine.ending is not None:
                    await self._silence(machine)
                    joined.remove(machine.id)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _register(self, machine: Machine) -> None:
        facts = TYPES[machine.type]
        resources = {"cpu": str(facts.vcpus), "memory": "1152Gi", "pods": "110", "nvidia.com/gpu": str(facts.gpus)}
        name = node_name(machine)
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": machine.type,
            "topology.kubernetes.io/zone": machine.subnet.zone,
            "nvidia.com/gpu.product": GPU_TYPE,
            "nvidia.com/gpu.count": str(facts.gpus),
        }
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {HEARTBEAT: "fake"}, "labels": labels},
            "spec": {
                "providerID": provider_id(machine),
                "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            },
            "status": {"capacity": resources, "allocatable": resources},
        }
        with suppress(AlreadyExists):
            await self.kube.post(NODES.all(), node)

    async def _silence(self, machine: Machine) -> None:
        with suppress(NotFound):
            await self.kube.merge_patch(NODES.one(node_name(machine)), {"metadata": {"labels": {SILENT: "true"}}})


def node_name(machine: Machine) -> str:
    """The name under which the machine joins: its private one."""
    number = int(machine.id[2:], 16)
    return f"ip-10-0-{number // 256}-{number % 256}.ec2.internal"


def provider_id(machine: Machine) -> str:
    """What its Node says of it."""
    return f"aws:///{machine.subnet.zone}/{machine.id}"


@asynccontextmanager
async def open_aws_bed(
    plane: ControlPlane, directory: Path, *, pace: float = 1.0, behind_seconds: float = _BEHIND_SECONDS
) -> AsyncIterator[AwsBed]:
    """A bed with an account of two subnets, a launch template and room for any number of machines.

    ``pace``: seconds of the account's that pass in one of the operator's, which it is ``behind_seconds`` behind.
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
        joining = asyncio.create_task(bed.join(), name="join")
        try:
            yield bed
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            await dismantle(bed)
