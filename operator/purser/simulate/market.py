"""Nodes as a cloud sells them: they start up, are billed by the second, run out, and are taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from purser.domain.billing import accrued
from purser.domain.ids import NodeName, PoolId, RentalId
from purser.domain.money import ZERO, Money, Price
from purser.domain.plan import Rent
from purser.domain.pool import (
    CapacityType,
    FakeGroup,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from purser.domain.rental import Rental, RentalPhase
from purser.domain.snapshot import Node
from purser.domain.time import Instant, after, seconds_between


@dataclass(frozen=True, slots=True)
class PoolModel:
    """What a pool sells. ``hourly``: dollars an hour of a node.

    ``starts`` draws the seconds from asking for a node to its readiness (absent: always ``start_seconds``, which is
    also what is declared). ``lifetime`` draws after how many seconds a node is taken back (absent: never). ``stock``:
    how many nodes the cloud has at most; asking for more gives nothing, and the pool cools.
    """

    name: str
    gpus_per_node: int
    hourly: Price
    gpu_type: str = "gpu"
    start_seconds: float = 0.0
    max_nodes: int = 1_000_000
    billing_minimum_seconds: int = 0
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    cooldown_seconds: float = 300.0
    stock: int | None = None
    starts: Callable[[], float] | None = None
    lifetime: Callable[[], float] | None = None

    def pool(self, now: Instant) -> Pool:
        """The GPUPool of it."""
        return Pool(
            id=PoolId(self.name),
            uid=f"uid-{self.name}",
            resource_version="1",
            generation=1,
            cloud=FakeGroup("simulated", self.name),
            max_nodes=self.max_nodes,
            capacity_type=self.capacity_type,
            start_seconds=self.start_seconds,
            cooldown_seconds=self.cooldown_seconds,
            price_override=None,
            offering=Offering(self.gpu_type, self.gpus_per_node, self.name, "simulated"),
            quote=Quote(self.hourly, self.hourly, self.billing_minimum_seconds, "simulated", now),
            cooled_until=None,
            cooled_because="",
            deleting=False,
        )


class Market:
    """The pools and what is rented of them. Every rental that ends is in ``spent`` and ``node_seconds``."""

    def __init__(self, models: tuple[PoolModel, ...], now: Instant) -> None:
        self.models = {PoolId(model.name): model for model in models}
        self.pools = {name: model.pool(now) for name, model in self.models.items()}
        self.rentals: dict[RentalId, Rental] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.spent: dict[PoolId, Money] = dict.fromkeys(self.models, ZERO)
        self.node_seconds: dict[PoolId, float] = dict.fromkeys(self.models, 0.0)
        self._made = 0

    def rent(self, command: Rent, now: Instant) -> float | None:
        """Carry out a Rent: the seconds until the node is ready, or None where the cloud has none (the pool cools)."""
        model = self.models[command.pool]
        live = sum(rental.pool == command.pool for rental in self.rentals.values())
        if model.stock is not None and live >= model.stock:
            cooled = after(now, model.cooldown_seconds)
            self.pools[command.pool] = replace(self.pools[command.pool], cooled_until=cooled, cooled_because="StockOut")
            return None
        self._made += 1
        self.rentals[command.rental] = Rental(
            id=command.rental,
            uid=f"rental-{self._made}",
            resource_version="1",
            pool=command.pool,
            budget=command.budget,
            created=now,
            phase=RentalPhase.STARTING,
            reserved=command.reserve,
            worst=command.worst,
            billing_minimum_seconds=model.billing_minimum_seconds,
            segments=(PriceSegment(now, model.hourly),),
            instance=None,
            provider_id="",
            node=None,
            launched=now,
            ready=None,
            ended=None,
            cost=None,
            released_because="",
            deleting=False,
        )
        return model.start_seconds if model.starts is None else model.starts()

    def becomes_ready(self, name: RentalId, uid: str, now: Instant) -> bool:
        """The rental's node takes pods, unless it was ended meanwhile."""
        rental = self.rentals.get(name)
        if rental is None or rental.uid != uid or rental.phase is not RentalPhase.STARTING:
            return False
        node = NodeName(rental.uid)
        self.rentals[name] = replace(rental, phase=RentalPhase.READY, node=node, ready=now)
        self.nodes[node] = Node(
            name=node,
            uid=rental.uid,
            resource_version="1",
            provider_id="",
            ready=True,
            unschedulable=False,
            deleting=False,
            gpus=self.models[rental.pool].gpus_per_node,
            foreign_gpus=0,
            run_labels={},
        )
        return True

    def end(self, name: RentalId, now: Instant) -> tuple[Rental, Money]:
        """The rental's node is ended now: the rental as it ended, and what it cost."""
        rental = self.rentals.pop(name)
        if rental.node is not None:
            self.nodes.pop(rental.node)
        cost = accrued(rental, now)
        self.spent[rental.pool] += cost
        self.node_seconds[rental.pool] += seconds_between(rental.created, now)
        return rental, cost

    def surveys(self, now: Instant) -> dict[PoolId, Survey]:
        """What the clouds say: nothing that the rentals do not say already."""
        return {
            name: Survey(
                pool=name,
                target=0,
                instances=(),
                failures=(),
                notices=(),
                asked=now,
                lag_seconds=0.0,
                listed_seconds=3600.0,
                offering=pool.offering,
            )
            for name, pool in self.pools.items()
            if pool.offering is not None
        }
