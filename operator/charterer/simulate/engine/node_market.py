"""Nodes as a cloud sells them: they start up, are billed by the second, run out, and are taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from charterer.domain.billing import cost
from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Rent
from charterer.domain.pool import CapacityType, FakeGroup, Offering, Pool, PriceSegment, Quote
from charterer.domain.time import Instant, after, seconds_between
from charterer.simulate.engine.sim_job import SimJob


@dataclass(frozen=True, slots=True)
class PoolModel:
    """What a pool sells. ``hourly``: dollars an hour of a node; ``prices``: another from so many seconds on.

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
    prices: tuple[tuple[float, Price], ...] = ()

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
            quote=self.quote(self.hourly, now),
            cooled_until=None,
            cooled_because="",
            deleting=False,
        )

    def quote(self, hourly: Price, now: Instant) -> Quote:
        """The offer of a node: no price to come is above the worst one."""
        worst = max(hourly, self.hourly, *(price for _, price in self.prices))
        return Quote(hourly, worst, self.billing_minimum_seconds, "simulated", now)


@dataclass(slots=True, eq=False)
class SimMachine:
    """A rented node. ``number``: it was the so-manieth that was rented. ``users``: the jobs that hold GPUs of it.

    ``ready``: since when it takes pods. ``draining``: it is ended once nobody uses it. ``ended``: it is gone.
    """

    terms: Rent
    model: PoolModel
    number: int
    created: Instant
    segments: tuple[PriceSegment, ...]
    ready: Instant | None = None
    draining: bool = False
    ended: bool = False
    users: dict[JobId, SimJob] = field(default_factory=dict)

    @property
    def id(self) -> RentalId:
        """The rental's name; a later one may have it again."""
        return self.terms.rental

    @property
    def uid(self) -> str:
        """Its own for ever."""
        return f"rental-{self.number}"

    @property
    def node(self) -> NodeName | None:
        """The Kubernetes Node's name, once there is one."""
        return None if self.ready is None else NodeName(self.uid)

    def bill(self, now: Instant) -> Money:
        """What it costs if it ends now."""
        return cost(self.segments, self.model.billing_minimum_seconds, self.created, now)


class NodeMarket:
    """The pools, and what is rented of them, in order of renting: ``machines``.

    ``version`` is another whenever a machine is rented, becomes ready, is to be drained or ends. Every rental that ends
    is in ``spent`` and ``node_seconds``.
    """

    def __init__(self, models: tuple[PoolModel, ...], now: Instant) -> None:
        self.models = {PoolId(model.name): model for model in models}
        self.pools: Mapping[PoolId, Pool] = {name: model.pool(now) for name, model in self.models.items()}
        self.machines: dict[RentalId, SimMachine] = {}
        self.spent: dict[PoolId, Money] = dict.fromkeys(self.models, ZERO)
        self.node_seconds: dict[PoolId, float] = dict.fromkeys(self.models, 0.0)
        self.made = 0
        self.version = 0

    def reprice(self, name: PoolId, hourly: Price, now: Instant) -> None:
        """From now on its nodes cost something else, those that are rented already too."""
        self.pools = {**self.pools, name: replace(self.pools[name], quote=self.models[name].quote(hourly, now))}
        for machine in self.machines.values():
            if machine.terms.pool == name:
                machine.segments = (*machine.segments, PriceSegment(now, hourly))
        self.version += 1

    def rent(self, terms: Rent, now: Instant) -> SimMachine | None:
        """A new machine, which is not ready; None where the cloud has none (the pool cools)."""
        model = self.models[terms.pool]
        if model.stock is not None and self._live(terms.pool) >= model.stock:
            cooled = after(now, model.cooldown_seconds)
            pool = replace(self.pools[terms.pool], cooled_until=cooled, cooled_because="StockOut")
            self.pools = {**self.pools, terms.pool: pool}
            return None
        self.made += 1
        self.version += 1
        quote = self.pools[terms.pool].quote
        assert quote is not None
        segments = (PriceSegment(now, quote.price),)
        machine = self.machines[terms.rental] = SimMachine(terms, model, self.made, now, segments)
        return machine

    def becomes_ready(self, machine: SimMachine, now: Instant) -> None:
        """Its node takes pods."""
        machine.ready = now
        self.version += 1

    def drain(self, machine: SimMachine) -> None:
        """It is to be ended once nobody uses it."""
        machine.draining = True
        self.version += 1

    def end(self, machine: SimMachine, now: Instant) -> Money:
        """It is ended now: what it cost."""
        del self.machines[machine.terms.rental]
        machine.ended = True
        self.version += 1
        bill, pool = machine.bill(now), machine.terms.pool
        self.spent[pool] += bill
        self.node_seconds[pool] += seconds_between(machine.created, now)
        return bill

    def _live(self, pool: PoolId) -> int:
        return sum(machine.terms.pool == pool for machine in self.machines.values())
