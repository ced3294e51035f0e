"""The nodes that a cloud sells. Nodes need time to start, are billed by the second, are sold out at times, and are
taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from charterer.clouds.existing import ExistingNodes
from charterer.clouds.fake import FakeGroup
from charterer.domain.billing import cost
from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.order import Refusal, RefusalKind, Scope, cool_down, with_cool_down
from charterer.domain.plan import Rent
from charterer.domain.pool import (
    CapacityType,
    Cloud,
    Commitment,
    EndedNode,
    NodeStart,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    SharingMechanism,
)
from charterer.domain.time import Instant, seconds_between
from charterer.estimate.hazard import events_at_ages, hazard, with_ended, without_rentals
from charterer.estimate.waits import with_refusal, with_start
from charterer.policy.options.market import checkpoint_interval
from charterer.tools.simulator.model.ground_truth import GPU_TYPE
from charterer.tools.simulator.model.sim_job import SimJob

MOST_NODES = 100_000
"""The most nodes of a pool in a simulation from files."""
DEAREST = Price.parse("1000000")
"""The highest price of a node in a simulation. A higher price is a mistake."""


@dataclass(frozen=True, slots=True)
class PoolModel:
    """A pool as the simulated cloud offers it.

    ``draw_start_seconds`` draws the seconds from the request for a node until the node is ready. If it is absent, the
    seconds are always ``start_seconds``, the declared value. ``draw_lifetime(n)``: the seconds for which the n-th node
    rented in the pool, counted from 1, is ready before it is taken back. If it is absent, nodes are never taken back.
    ``restart_seconds``: from a run's start to its first step. None means the scenario's value.

    ``stock``: the most nodes that the cloud has. ``quota``: the most nodes that the cloud lets the account have. A
    request for more nodes gives nothing, and the pool cools down. ``later_stock`` and ``later_quota``: (second, nodes
    from then on). If the stock of a spot pool falls below the number of rented nodes, the cloud takes back the nodes
    rented last.

    ``learns_waits``: the GPUPool's ``learnWaits``. ``sharing``: how two jobs may use one of the pool's GPUs, or None if
    they may not. ``committed``: who pays ``hourly`` for all nodes of the pool, used or not, for longer than the
    simulation. If the commitment has no end, the nodes are in the cluster anyway.
    """

    name: str
    gpus_per_node: int
    hourly: Price
    gpu_type: str = GPU_TYPE
    start_seconds: float = 0.0
    max_nodes: int = 1_000_000
    billing_minimum_seconds: int = 0
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    cooldown_seconds: float = 300.0
    stock: int | None = None
    draw_start_seconds: Callable[[], float] | None = None
    draw_lifetime: Callable[[int], float] | None = None
    later_prices: tuple[tuple[float, Price], ...] = ()
    restart_seconds: float | None = None
    later_stock: tuple[tuple[float, int | None], ...] = ()
    quota: int | None = None
    later_quota: tuple[tuple[float, int | None], ...] = ()
    learns_waits: bool = True
    sharing: SharingMechanism | None = None
    committed: Commitment | None = None

    @property
    def may_be_late(self) -> bool:
        """Whether a node may come later than ``start_seconds`` after the request, or not at all."""
        limited = self.stock is not None or self.quota is not None or self.later_stock or self.later_quota
        return bool(limited) or self.draw_start_seconds is not None

    @property
    def most_nodes(self) -> int:
        """The most nodes that can ever be rented at once."""
        return min(self.max_nodes, _most(self.stock, self.later_stock), _most(self.quota, self.later_quota))

    @property
    def cloud(self) -> Cloud:
        """The group that the GPUPool names, or the label of nodes that are there anyway."""
        if self.committed is not None and self.committed.until is None:
            return ExistingNodes((("simulated", self.name),), self.committed.budget)
        return FakeGroup("simulated", self.name)

    def pool(self, now: Instant) -> Pool:
        """The GPUPool as it is at ``now``."""
        return Pool(
            id=PoolId(self.name),
            uid=f"uid-{self.name}",
            resource_version="1",
            generation=1,
            created=Instant(0),
            cloud=self.cloud,
            max_nodes=self.max_nodes,
            capacity_type=self.capacity_type,
            start_seconds=self.start_seconds,
            cooldown_seconds=self.cooldown_seconds,
            price_override=None if self.committed is None else self.hourly,
            offering=Offering(self.gpu_type, self.gpus_per_node, self.name, "simulated"),
            quote=self.quote(self.hourly, now),
            deleting=False,
            learns_waits=self.learns_waits,
            committed=self.committed,
        )

    def quote(self, hourly: Price, now: Instant) -> Quote:
        """The quote of a node. Its worst price is the highest price of the whole simulation."""
        worst = max(hourly, self.hourly, *(price for _, price in self.later_prices))
        return Quote(hourly, worst, self.billing_minimum_seconds, "simulated", now)


def _most(first: int | None, later: Sequence[tuple[float, int | None]]) -> int:
    """The highest of the limits, which are valid one after the other."""
    return max(MOST_NODES * 1000 if limit is None else limit for limit in (first, *(limit for _, limit in later)))


@dataclass(slots=True, eq=False)
class SimMachine:
    """A rented node.

    ``number``: the node's number among all rented nodes, from 1. ``in_pool``: its number among the nodes of its pool.
    ``ready``: since when the node accepts pods, or None before.
    ``draining``: whether the node is ended when its last job leaves.
    ``ended``: whether the node is gone.
    ``users``: the jobs that hold GPUs of the node.
    """

    order: Rent
    model: PoolModel
    number: int
    in_pool: int
    created: Instant
    segments: tuple[PriceSegment, ...]
    ready: Instant | None = None
    draining: bool = False
    ended: bool = False
    users: dict[JobId, SimJob] = field(default_factory=dict)

    @property
    def id(self) -> RentalId:
        """The rental's name. A later rental may have the same name."""
        return self.order.rental

    @property
    def uid(self) -> str:
        """A name that no other machine ever has."""
        return f"rental-{self.number}"

    @property
    def node(self) -> NodeName | None:
        """The Kubernetes Node's name, once there is one."""
        return None if self.ready is None else NodeName(self.uid)

    def bill(self, now: Instant) -> Money:
        """The total cost of the node if it ends now."""
        return cost(self.segments, self.model.billing_minimum_seconds, self.created, now)


class NodeMarket:
    """The pools, and the nodes that are rented from them.

    ``machines``: the present nodes, in order of renting. ``rented_total``: number of nodes ever rented.
    ``version``: grows whenever a machine is rented, becomes ready, is set to drain, or ends.
    ``live``, ``rented``: for each pool, number of present nodes, and of nodes ever rented.
    ``stock``, ``quota``: the pools' present limits.
    ``micros_per_hour``, ``gpus``: sums over all present machines.
    ``spent``, ``node_micros``: for each pool, bills and microseconds of the machines that have ended.
    """

    def __init__(self, models: tuple[PoolModel, ...], now: Instant) -> None:
        self.models = {PoolId(model.name): model for model in models}
        self.pools: Mapping[PoolId, Pool] = {name: model.pool(now) for name, model in self.models.items()}
        self.machines: dict[RentalId, SimMachine] = {}
        self.spent: dict[PoolId, Money] = dict.fromkeys(self.models, ZERO)
        self.node_micros: dict[PoolId, int] = dict.fromkeys(self.models, 0)
        self.live: dict[PoolId, int] = dict.fromkeys(self.models, 0)
        self.rented: dict[PoolId, int] = dict.fromkeys(self.models, 0)
        self.stock = {name: model.stock for name, model in self.models.items()}
        self.quota = {name: model.quota for name, model in self.models.items()}
        self.micros_per_hour = 0
        self.gpus = 0
        self.rented_total = 0
        self.version = 0
        for name in self.models:
            self._learn(name, now)

    def reprice(self, name: PoolId, hourly: Price, now: Instant) -> None:
        """Change the price of the pool's nodes from now on, also of those that are rented already."""
        self.pools = {**self.pools, name: replace(self.pools[name], quote=self.models[name].quote(hourly, now))}
        for machine in self.machines.values():
            if machine.order.pool == name:
                self.micros_per_hour += hourly.micros_per_hour - machine.segments[-1].price.micros_per_hour
                machine.segments = (*machine.segments, PriceSegment(now, hourly))
        self.version += 1

    def rent(self, order: Rent, now: Instant) -> SimMachine | None:
        """A new machine, which is not ready yet, or None if the cloud has none, so that the pool cools down."""
        model = self.models[order.pool]
        refusal = self._refusal(order.pool, now)
        if refusal is not None:
            pool = self.pools[order.pool]
            # requests of one moment are refused together, as the operator counts them
            if pool.cooling(now) is not None:
                return None
            cooled = cool_down(pool.cooled, refusal, model.cooldown_seconds, now, None)
            launches, rows = with_refusal(pool.launches, now), with_cool_down(pool.cooled, cooled)
            self.pools = {**self.pools, order.pool: replace(pool, cooled=rows, launches=launches)}
            return None
        self.rented_total += 1
        if self.pools[order.pool].cooled:
            self.pools = {**self.pools, order.pool: replace(self.pools[order.pool], cooled=())}
        self.live[order.pool] += 1
        self.rented[order.pool] += 1
        self.gpus += model.gpus_per_node
        self.version += 1
        quote = self.pools[order.pool].quote
        assert quote is not None
        self.micros_per_hour += quote.price.micros_per_hour
        segments = (PriceSegment(now, quote.price),)
        machine = self.machines[order.rental] = SimMachine(
            order, model, self.rented_total, self.rented[order.pool], now, segments
        )
        return machine

    def most_now(self, pool: PoolId) -> int:
        """The most nodes that can be rented at once under the present limits."""
        limits = (self.models[pool].max_nodes, self.stock[pool], self.quota[pool])
        return min(limit for limit in limits if limit is not None)

    def _refusal(self, pool: PoolId, now: Instant) -> Refusal | None:
        """Why the cloud refuses one more node, or None if it has one."""
        name, live, stock, quota = self.models[pool].name, self.live[pool], self.stock[pool], self.quota[pool]
        if stock is not None and live >= stock:
            return Refusal(RefusalKind.STOCK_OUT, Scope.POOL, name, "StockOut", "none left", now)
        if quota is not None and live >= quota:
            return Refusal(RefusalKind.QUOTA_EXCEEDED, Scope.POOL, name, "QuotaExceeded", f"limit {quota}", now)
        return None

    def mark_ready(self, machine: SimMachine, now: Instant) -> None:
        """Let the machine take pods from now on."""
        machine.ready = now
        self.version += 1
        name = machine.order.pool
        if machine.model.may_be_late:
            start = NodeStart(machine.created, machine.created, now)
            pool = self.pools[name]
            self.pools = {**self.pools, name: replace(pool, launches=with_start(pool.launches, start))}
        self._learn(name, now)

    def drain(self, machine: SimMachine) -> None:
        """Let the machine end when its last job leaves."""
        machine.draining = True
        self.version += 1

    def end(self, machine: SimMachine, now: Instant, *, taken: bool = False) -> Money:
        """End the machine now. Returns its bill. ``taken``: whether the cloud takes it back."""
        del self.machines[machine.order.rental]
        machine.ended = True
        self.version += 1
        bill, pool = machine.bill(now), machine.order.pool
        self.live[pool] -= 1
        self.gpus -= machine.model.gpus_per_node
        self.micros_per_hour -= machine.segments[-1].price.micros_per_hour
        self.spent[pool] += bill
        self.node_micros[pool] += now - machine.created
        hours = seconds_between(machine.created, now) / 3600.0
        ended = EndedNode(machine.uid, hours, now, taken, self.live[pool])
        counted = without_rentals(with_ended(self.pools[pool].lifetimes, ended), ())
        self.pools = {**self.pools, pool: replace(self.pools[pool], lifetimes=counted)}
        self._learn(pool, now)
        return bill

    def checkpoint_seconds(self, nodes: Sequence[RentalId], write_seconds: float, now: Instant) -> float:
        """The best interval between checkpoints of a job on these machines of one pool, by the known hazard."""
        machines = [self.machines[name] for name in nodes]
        known = self.pools[machines[0].order.pool].hazard
        ages = [seconds_between(machine.created, now) / 3600.0 for machine in machines]
        return checkpoint_interval(write_seconds, 0.0 if known is None else events_at_ages(known, ages))

    def _learn(self, name: PoolId, now: Instant) -> None:
        """Estimate anew how often nodes of the pool are taken back. This is done for spot nodes, and for pools that
        have lost nodes.
        """
        pool = self.pools[name]
        if pool.capacity_type is CapacityType.SPOT or any(pool.lifetimes.deaths):
            ages = [
                seconds_between(machine.created, now) / 3600.0
                for machine in self.machines.values()
                if machine.order.pool == name
            ]
            known = hazard(pool.lifetimes, ages, now, pool.capacity_type)
            self.pools = {**self.pools, name: replace(pool, hazard=known)}
