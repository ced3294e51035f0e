"""Pools of the fake cloud for contract tests: each test has a group of its own in one shared process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from charterer.clouds.fake import FakeGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import CapacityType, Pool, Survey
from charterer.domain.time import Instant
from charterer.providers.fake import FakeCloud
from charterer.providers.provider import Drained
from tests import factory
from tests.contract.wire import surveyed
from tests.testbed.fakecloud import FakeCloudProcess

EMPTY = Drained(node=None, checked=Instant(0))


def pool(endpoint: str, group: str, capacity: CapacityType = CapacityType.ON_DEMAND) -> Pool:
    """A pool as its user declared it, with nothing discovered yet."""
    return factory.pool(
        id=PoolId(f"pool-{group}"),
        uid=f"uid-{group}",
        cloud=FakeGroup(endpoint, group),
        capacity_type=capacity,
        start_seconds=60.0,
        cooldown_seconds=60.0,
        offering=None,
        quote=None,
        guarded=False,
    )


@dataclass(frozen=True, slots=True)
class Market:
    """One group, its pool and a provider to reach it by."""

    cloud: FakeCloudProcess
    provider: FakeCloud
    pool: Pool

    @property
    def group(self) -> FakeGroup:
        """The group."""
        return factory.fake_group(self.pool)

    async def survey(self) -> Survey:
        """The pool's survey; its error is raised."""
        return await surveyed(self.provider, self.pool)

    async def raise_to(self, at_least: int) -> None:
        """Ask for so many nodes, where the group counts."""
        await self.provider.ask(self.pool, Ask((), at_least))

    async def ask(self, *tokens: str, together: bool = False) -> Reply:
        """Place orders, where the group takes them."""
        orders = tuple([Order(OrderToken(token), RentalId(f"rental-{token}")) for token in tokens])
        return await self.provider.ask(self.pool, Ask(orders, len(orders), together))

    async def withdraw(self, *tokens: str, keep: int = 0) -> None:
        """Give orders up, or lower the target to ``keep``."""
        await self.provider.withdraw(self.pool, [OrderToken(token) for token in tokens], keep)

    async def terminate(self, instance: InstanceId) -> None:
        """End one instance."""
        await self.provider.terminate(self.pool, instance, EMPTY)

    async def truth(self) -> list[str]:
        """Ids of the group's instances that exist now, without lag, by the cloud's admin call."""
        listed = (await self.cloud.admin("GET", "/instances"))["instances"]
        return [i["id"] for i in listed if i["group"] == self.group.group and i["state"] != "Ended"]

    async def change(self, **fields: Any) -> None:
        """Change the group."""
        await self.cloud.admin("PUT", f"/groups/{self.group.group}", fields)

    async def fault(self, kind: str, method: str, **fields: Any) -> None:
        """Break the next call of that method about the group."""
        match = {"method": method, "path": f"*{self.group.group}*"}
        await self.cloud.admin("POST", "/faults", {"kind": kind, "match": match, **fields})

    async def unused_faults(self) -> int:
        """How many faults no call has met."""
        return len((await self.cloud.admin("GET", "/faults"))["faults"])
