"""Pools of Google Cloud for contract tests: each test has a project of its own behind one server a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import CapacityType, Pool, Survey
from charterer.providers.gcp.calls import Answer, Params
from charterer.providers.gcp.cloud import GcpCloud
from charterer.providers.gcp.listing import labels_of
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.prices import PriceTable
from charterer.providers.provider import NONE_KNOWN, KnownMachines
from tests import factory
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.state import Vm
from tests.contract.wire import CLUSTER, EMPTY, surveyed

PROJECT, ZONE, REGION = "test-project", "us-central1-a", "us-central1"
TYPE = "a2-highgpu-1g"
GROUP = GcpGroup(PROJECT, ZONE, "gpu")
SPOT_GROUP = GcpGroup(PROJECT, ZONE, "spot")
FLEX_GROUP = GcpGroup(PROJECT, ZONE, "flex", run_seconds=3600)
TEMPLATE = GcpTemplate(PROJECT, ZONE, "gpu")
POOL = PoolId("gcp")
_MARKS = labels_of(CLUSTER, POOL)


def project() -> Project:
    """On-demand, spot and flex-start: a template and a group of each, which are fit."""
    made = Project()
    for name, model in (("gpu", "STANDARD"), ("spot", "SPOT"), ("flex", "FLEX_START")):
        made.add_template(name, TYPE, model=model, labels={"team": "x", **_MARKS})
        made.add_group(name, ZONE, name)
    return made


def table(here: Project) -> PriceTable:
    """The project's prices of today, as Charterer's table has them."""
    on_demand = {name: str(price) for (name, spot), price in here.prices.items() if not spot}
    spot = {name: str(price) for (name, is_spot), price in here.prices.items() if is_spot}
    return PriceTable(f"{here.clock.now:%Y-%m-%d}", "USD", {REGION: on_demand}, {REGION: spot})


def gcp_pool(cloud: GcpGroup | GcpTemplate, capacity: CapacityType = CapacityType.ON_DEMAND, **changes: Any) -> Pool:
    """A pool as its user declared it, with nothing discovered yet."""
    fields = {"id": POOL, "uid": "uid-gcp", "offering": None, "quote": None, **changes}
    return factory.pool(cloud=cloud, capacity_type=capacity, **fields)


def orders(*names: str) -> tuple[Order, ...]:
    """Orders whose tokens and rentals follow from those names."""
    return tuple([Order(OrderToken(f"c{name}"), RentalId(f"gcp-{name}")) for name in names])


@dataclass(frozen=True, slots=True)
class GcpMarket:
    """A project, a pool in it and a provider to reach it by."""

    project: Project
    provider: GcpCloud
    pool: Pool

    async def survey(self, known: KnownMachines = NONE_KNOWN) -> Survey:
        """The pool's survey; its error is raised."""
        return await surveyed(self.provider, self.pool, known)

    async def ask(self, *names: str, together: bool = False) -> Reply:
        """Ask for those orders."""
        return await self.provider.ask(self.pool, Ask(orders(*names), len(names), together))

    async def withdraw(self, *names: str) -> None:
        """Give those orders up."""
        await self.provider.withdraw(self.pool, [OrderToken(f"c{name}") for name in names], 0)

    async def terminate(self, instance: str) -> None:
        """End one instance."""
        await self.provider.terminate(self.pool, InstanceId(instance), EMPTY)

    def truth(self) -> Sequence[str]:
        """Ids of the instances that are billed now."""
        return [str(vm.id) for vm in self.project.alive()]

    @property
    def machines(self) -> Sequence[Vm]:
        """All machines that ever were."""
        return list(self.project.instances.values())

    async def held(self) -> Mapping[InstanceId, str]:
        """The orders of the instances that a survey lists as alive, by id."""
        return {i.id: i.order or "" for i in (await self.survey()).instances if i.ended is None}


def calls_of(m: GcpMarket, name: str) -> Sequence[Mapping[str, Any]]:
    """The parameters of each call of a method."""
    return [params for method, params in m.project.calls if method == name]


class Died(BaseException):
    """The process is gone."""


def die_at(m: GcpMarket, call: int, *, before: bool) -> None:
    """Let the market's process die at that call of those that come, before it is sent or after it was answered."""
    calls = m.provider._calls
    send, sent = calls._send, 0

    def dying(name: Call, params: Params) -> Answer:
        nonlocal sent
        sent += 1
        if sent == call and before:
            raise Died
        answer = send(name, params)
        if sent == call:
            raise Died
        return answer

    calls._send = dying


def empty(here: Project) -> None:
    """Let nothing be in the project, and nothing have happened there."""
    for those in (here.instances, here.operations, here.remembered, here.calls):
        those.clear()
    for group in here.groups.values():
        group.rows.clear()
        group.target = 0
