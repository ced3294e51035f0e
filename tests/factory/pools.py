"""Pools, what clouds say of them, and what is rented in them: instances, rentals and nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.clouds.fake import FakeGroup
from charterer.domain.ids import InstanceId, NodeName, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.order import CoolDown, Refusal, RefusalKind, Scope, Traits
from charterer.domain.pool import (
    CapacityType,
    Instance,
    InstanceState,
    LaunchHistory,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant, after
from tests.factory.budgets import TEAM
from tests.factory.times import T0, at

POOL = PoolId("a100")
PRICE = Price.parse("19.80")
LAG = 5.0
LISTED = 3600.0
COUNTED = Traits(named=False, keeps_trying=True, together=False, lag_seconds=LAG, listed_seconds=LISTED)
"""Of a cloud that only counts."""
NAMED = replace(COUNTED, named=True, together=True)
"""Of one that knows each order by its token, and tries until it is withdrawn."""
REPLYING = replace(NAMED, keeps_trying=False)
"""Of one that launches an order at once, or says why not."""
OFFERING = Offering("NVIDIA-A100-SXM4-40GB", 4, "g.4", "z1")


def fake_group(pool: Pool) -> FakeGroup:
    """The fake cloud's group of a pool that has one."""
    assert isinstance(pool.cloud, FakeGroup)
    return pool.cloud


def pool(**changes: Any) -> Pool:
    """A pool of 4-GPU nodes at $19.80 an hour, of which all starts are counted already."""
    fields: dict[str, Any] = {
        "id": POOL,
        "uid": "pool-uid",
        "resource_version": "1",
        "generation": 1,
        "created": T0,
        "cloud": FakeGroup("http://cloud", "g"),
        "max_nodes": 8,
        "capacity_type": CapacityType.ON_DEMAND,
        "start_seconds": 120.0,
        "cooldown_seconds": 300.0,
        "price_override": None,
        "offering": OFFERING,
        "quote": Quote(PRICE, PRICE, 60, "cloud", T0),
        "deleting": False,
        "guarded": True,
        "launches": LaunchHistory(through=at(1e8)),
    }
    return Pool(**(fields | changes))


def instance(name: str = "i1", **changes: Any) -> Instance:
    """A running instance launched at T0, with Node ``n-<name>``."""
    launched = changes.get("launched", T0)
    fields: dict[str, Any] = {
        "id": InstanceId(name),
        "state": InstanceState.RUNNING,
        "provider_id": f"fake://{name}",
        "node": NodeName(f"n-{name}"),
        "launched": launched,
        "ended": None,
        "segments": (PriceSegment(launched, PRICE),),
        "billing_minimum_seconds": 60,
    }
    return Instance(**(fields | changes))


def ended(machine: Instance, when: Instant) -> Instance:
    """The same instance after its end."""
    return Instance(
        machine.id,
        InstanceState.ENDED,
        machine.provider_id,
        machine.node,
        machine.launched,
        when,
        machine.segments,
        machine.billing_minimum_seconds,
    )


def cooled(until: Instant, seconds: float = 300.0, **changes: Any) -> tuple[CoolDown, ...]:
    """A pool's only cool-down: a stock-out, until then, ``seconds`` long."""
    said = refusal(0)
    fields: dict[str, Any] = {"since": after(until, -seconds), "until": until}
    about = {name: getattr(said, name) for name in ("kind", "scope", "where", "code", "message")}
    return (CoolDown(**(about | fields | changes)),)


def survey(*instances: Instance, target: int | None = None, asked: float = 600, **changes: Any) -> Survey:
    """The cloud's answer ``asked`` seconds after T0; its target is the number of live instances unless given."""
    alive = sum(item.state in (InstanceState.PENDING, InstanceState.RUNNING) for item in instances)
    fields: dict[str, Any] = {
        "pool": POOL,
        "target": alive if target is None else target,
        "instances": instances,
        "ordered": frozenset(),
        "refusals": (),
        "notices": (),
        "asked": at(asked),
        "traits": COUNTED,
        "offering": OFFERING,
    }
    return Survey(**(fields | changes))


def refusal(seconds: float, **changes: Any) -> Refusal:
    """A stock-out ``seconds`` after T0."""
    fields: dict[str, Any] = {
        "kind": RefusalKind.STOCK_OUT,
        "scope": Scope.POOL,
        "where": "g",
        "code": "InsufficientInstanceCapacity",
        "message": "no g.4 is left in z1",
        "at": at(seconds),
    }
    return Refusal(**(fields | changes))


def notice(name: str, seconds: float) -> Notice:
    """The cloud's warning that it takes the instance back ``seconds`` after T0."""
    return Notice(InstanceId(name), at(seconds))


def rental(name: str = "a100-1", machine: Instance | None = None, **changes: Any) -> Rental:
    """A rental created at T0: Ready on ``machine``, or Requested where there is none."""
    fields: dict[str, Any] = {
        "id": RentalId(name),
        "uid": f"uid-{name}",
        "resource_version": "1",
        "pool": POOL,
        "cloud": FakeGroup("http://cloud", "g"),
        "capacity_type": CapacityType.ON_DEMAND,
        "budget": TEAM,
        "created": T0,
        "phase": RentalPhase.REQUESTED if machine is None else RentalPhase.READY,
        "reserved": Money.parse("19.80"),
        "worst": PRICE,
        "billing_minimum_seconds": 0 if machine is None else machine.billing_minimum_seconds,
        "segments": () if machine is None else machine.segments,
        "instance": None if machine is None else machine.id,
        "provider_id": "" if machine is None else machine.provider_id,
        "node": None if machine is None else machine.node,
        "launched": None if machine is None else machine.launched,
        "ready": None if machine is None else after(machine.launched, 60),
        "ended": None,
        "cost": None,
        "released_because": "",
        "deleting": False,
    }
    return Rental(**(fields | changes))


def node(name: str = "i1", **changes: Any) -> Node:
    """The ready Node of instance ``name``."""
    fields: dict[str, Any] = {
        "name": NodeName(f"n-{name}"),
        "uid": f"node-uid-{name}",
        "provider_id": f"fake://{name}",
        "ready": True,
        "unschedulable": False,
        "deleting": False,
        "gpus": 4,
        "foreign_gpus": 0,
        "run_labels": {},
    }
    return Node(**(fields | changes))
