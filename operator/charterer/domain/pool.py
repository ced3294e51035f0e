"""A GPU pool, what the cloud sells in it (offering, quote) and what the cloud reports about it (survey)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.nodes.commitment import Commitment
from charterer.domain.nodes.demands import NO_TRAITS, NodeTaint, NodeTraits
from charterer.domain.nodes.hazard import NOTHING_COUNTED, Hazard, NodeLifetimes
from charterer.domain.nodes.partition import Partition
from charterer.domain.nodes.place_labels import place_labels
from charterer.domain.nodes.waits import NO_LAUNCHES, LaunchHistory
from charterer.domain.option import GPU
from charterer.domain.order import CoolDown, LaunchWay, Refusal, Traits
from charterer.domain.reasons.phrases import all_nodes
from charterer.domain.time import Instant
from charterer.gpu_types import slice_profile, slice_type, slices_of, whole_type


class CapacityType(StrEnum):
    """How the cloud sells a node. Both kinds are rented and ended at will; the cloud may take a spot node back."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


@dataclass(frozen=True, slots=True)
class Offering:
    """One node of the pool. ``gpu_type`` as a node label of its maker names it. A slice counts as a GPU of its type.

    ``group_id``: the cloud's own name of the group, which no other group of any account has; empty if it gives none.
    ``group_size``: the most nodes that the group takes, where the cloud says it. ``resource``: how the node names its
    GPUs or slices. ``slices_per_gpu``: slices of one real GPU; 1 where GPUs are whole. ``traits``: what the node shows
    the scheduler, as nodes did that came while the pool's generation was ``traits_seen``; 0: as far as the cloud says.
    """

    gpu_type: str
    gpus_per_node: int
    instance_type: str
    zone: str
    group_id: str = ""
    group_size: int | None = None
    resource: str = GPU
    slices_per_gpu: int = 1
    traits: NodeTraits = NO_TRAITS
    traits_seen: int = 0

    @property
    def machine_gpus(self) -> int:
        """Real GPUs of the machine, as the cloud counts them."""
        return self.gpus_per_node // self.slices_per_gpu

    def cut(self, partition: Partition) -> Offering | None:
        """The same node with each GPU cut or shared; None where GPUs of its type cannot be cut so.

        A node whose slices the cloud has counted already, because they are named as whole GPUs, stays as it is.
        """
        slices = slices_of(self.gpu_type, partition.profile)
        if not slices or slice_profile(self.gpu_type) not in ("", partition.profile):
            return None
        counted = self.gpus_per_node if slice_profile(self.gpu_type) else self.gpus_per_node * slices
        named = slice_type(whole_type(self.gpu_type), partition.profile)
        return replace(self, gpu_type=named, gpus_per_node=counted, resource=partition.resource, slices_per_gpu=slices)


class Cloud(ABC):
    """Where a pool's nodes come from, in the words of one vendor (``charterer.clouds``): a frozen value.

    Only the vendor's adapter reads more of it than this.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def vendor(self) -> str:
        """The vendor, as in the name of the field of ``GPUPool.spec``."""

    @property
    @abstractmethod
    def account(self) -> str:
        """What its rights and quotas are of, among the vendor's accounts."""

    @property
    def billed_account(self) -> str:
        """The account, subscription or project that the cloud's bill names; empty where that is not known here."""
        return ""

    @property
    def billed_region(self) -> str:
        """The region as the cloud's bill names it; empty where that is not known here."""
        return ""

    @property
    def identity(self) -> Hashable:
        """Equal where two of them mean the same machines, however they are written."""
        return self

    @property
    def marks_machines(self) -> bool:
        """Whether each machine says which pool it is for, so that pools that are written alike share none."""
        return False

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        """The taints that its nodes are declared to have."""
        return ()

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """The labels that the vendor gives its nodes, beside those that every node with GPUs has."""
        return {}

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The labels that say where its nodes are, with the values that each of them may have."""
        return place_labels(offering.zone.split(","), self.billed_region)

    @abstractmethod
    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """All ways to launch such a node; none where the capacity is reserved, which is nobody else's."""

    def quota_units(self, offering: Offering) -> int:
        """The least that such a node takes of a quota, in units of the vendor's."""
        return offering.machine_gpus


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of one node. ``worst``: the most that a node launched now can ever cost an hour.

    ``listed``: what the cloud itself asks, where ``spec.price`` of the pool has made it another price. ``history``: the
    prices before, oldest first, where the cloud tells them.
    """

    price: Price
    worst: Price
    billing_minimum_seconds: int
    source: str
    as_of: Instant
    listed: Price | None = None
    history: tuple[PriceSegment, ...] = ()

    @property
    def list_price(self) -> Price:
        """The cloud's own price."""
        return self.price if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Pool:
    """A GPUPool as the user declared it, with what was discovered about it.

    ``labels``: those of its metadata, by which budgets select pools. ``set_uid``: the uid of the GPUPoolSet that
    controls it; empty where none does. ``max_nodes``: as declared, or as many as its group takes, if that is less
    (``controller.snapshot.pools.offers``). ``start_seconds``: from asking for a node to its readiness, as declared:
    limits on money count on it. ``cooled``: what the cloud refused lately, the latest ``until`` last; no node is
    asked for before that. ``reached``: what it refused another pool of the account and would refuse this one too.
    ``deleted``: when its deletion was asked for. ``guarded``: it has the finalizer ``charterer.dev/in-use``, which
    keeps it while rentals name it. ``price_override`` and ``price_adjustment`` (hundredths of a percent; until
    ``price_adjusted_until``) correct the list price: see ``priced``. ``offer_recorded``: whether the object's status
    holds this offering and (its time aside) this quote. ``quote_on_record``: the quote that it holds. ``taken_by``:
    the older pool that acts for the same machines. ``gone``: no such GPUPool is there any more, and all that is known
    of it is what its rentals say; ``uid`` is then that of another pool of its name, if there is one.
    ``confirmed_price``: the list price that a person has confirmed. ``price_held``: the cloud's list price where it
    moved too far to be believed, so that the one on record counts. ``lifetimes``: what was counted of its nodes that
    have ended; ``hazard``: the rate at which they are taken back, None where nothing is known of it. ``launches``:
    what was counted of its refusals and starts, which options count where ``learns_waits``; ``correlated_launches``:
    with those of pools that fail together with it, where there are any. ``trouble``: why it was not ready when last
    looked at, and what to do, in the words of its status; empty if it was. ``partition``: how its GPUs are cut or
    shared, None where they are whole. ``committed``: who pays for all of its nodes at ``price_override`` and until
    when; None where nobody does, or not any more. ``node_labels`` and ``node_resources``: those that its nodes have,
    as declared; resources in thousandths. ``device``: the extended resource of its nodes' whole GPUs.
    """

    id: PoolId
    uid: str
    resource_version: str
    generation: int
    created: Instant
    cloud: Cloud
    max_nodes: int
    capacity_type: CapacityType
    start_seconds: float
    cooldown_seconds: float
    price_override: Price | None
    offering: Offering | None
    quote: Quote | None
    deleting: bool
    deleted: Instant | None = None
    guarded: bool = False
    price_adjustment: int = 0
    cooled: tuple[CoolDown, ...] = ()
    reached: CoolDown | None = None
    offer_recorded: bool = True
    taken_by: PoolId | None = None
    gone: bool = False
    quote_on_record: Quote | None = None
    confirmed_price: Price | None = None
    price_held: Price | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    lifetimes: NodeLifetimes = NOTHING_COUNTED
    hazard: Hazard | None = None
    launches: LaunchHistory = NO_LAUNCHES
    learns_waits: bool = True
    correlated_launches: LaunchHistory | None = None
    trouble: str = ""
    set_uid: str = ""
    partition: Partition | None = None
    price_adjusted_until: Instant | None = None
    committed: Commitment | None = None
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_resources: Mapping[str, int] = field(default_factory=dict)
    device: str = GPU

    @property
    def ways(self) -> Sequence[LaunchWay]:
        """All ways in which it may launch a node; none while it is not known what a node is."""
        return () if self.offering is None else self.cloud.ways(self.offering, self.capacity_type)

    @property
    def known_launches(self) -> LaunchHistory:
        """The counts of refusals and starts, as far as they are to be used."""
        if not self.learns_waits:
            return NO_LAUNCHES
        return self.launches if self.correlated_launches is None else self.correlated_launches

    @property
    def likely_start_seconds(self) -> float:
        """From a node's launch to its readiness, as seen; as declared where none was."""
        return self.known_launches.start_seconds(self.start_seconds)

    @property
    def gave_nodes(self) -> bool:
        """Whether a node of it ever became ready, or was launched and has ended."""
        return self.launches.last_given >= 0 or self.lifetimes.at is not None

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node; 0 where that is not known."""
        return 0 if self.offering is None else self.offering.gpus_per_node

    @property
    def resource(self) -> str:
        """How its nodes name their GPUs or slices."""
        return self.device if self.partition is None else self.partition.resource

    @property
    def most_nodes(self) -> str:
        """``max_nodes`` in words, with what sets it."""
        return all_nodes(self.max_nodes, self.max_by_group)

    @property
    def max_by_group(self) -> bool:
        """Whether the size of its group sets ``max_nodes``."""
        return self.offering is not None and self.offering.group_size == self.max_nodes

    def nodes(self, takes: int) -> int:
        """The number of nodes of a job that takes so many GPUs (``Option.takes``): whole ones, or a part of one."""
        return max(takes // (self.gpus_per_node or takes), 1)

    @property
    def cool_down(self) -> CoolDown | None:
        """The one that ends last, its own or another pool's, also after its end."""
        return max(self.cool_downs, key=lambda cooled: cooled.until, default=None)

    @property
    def cool_downs(self) -> tuple[CoolDown, ...]:
        """Its own, and that of another pool which reaches it."""
        return self.cooled if self.reached is None else (*self.cooled, self.reached)

    def cooling(self, now: Instant) -> CoolDown | None:
        """The one that keeps the pool from being asked now."""
        last = self.cool_down
        return last if last is not None and last.until > now else None

    @property
    def lacks_price(self) -> bool:
        """Whether nobody has said what a node costs: neither the pool's spec nor the cloud."""
        return self.quote is None and self.price_override is None and not self.closed_because

    @property
    def closed_because(self) -> str:
        """Why no job may use the pool and what is rented in it is ended; empty while it is open."""
        if self.gone:
            return f"GPUPool {self.id} is gone"
        if self.deleting:
            return f"GPUPool {self.id} is being deleted"
        return "" if self.taken_by is None else f"GPUPool {self.id} has the same machines as GPUPool {self.taken_by}"

    def priced(self, listed: Price) -> Price:
        """The price that the user really pays for a list price, rounded half up to the micro-dollar an hour."""
        if self.price_override is not None:
            return self.price_override
        return Price((listed.micros_per_hour * (10_000 + self.price_adjustment) + 5_000) // 10_000)

    def most_priced(self, listed: Price) -> Price:
        """The most that a list price may come to: it counts itself once an adjustment or a commitment has ended."""
        paid = self.priced(listed)
        return max(paid, listed) if self.price_adjusted_until is not None or self.committed is not None else paid

    @property
    def marginal(self) -> Price | None:
        """What one more hour of a node adds to the bill: its price, or next to nothing where it is paid for anyway.

        That is a micro-dollar an hour for each GPU: of options that cost exactly nothing no rate of exchange follows.
        """
        if self.quote is None or self.committed is None:
            return None if self.quote is None else self.quote.price
        return min(self.quote.price, Price(self.gpus_per_node))


def acting_pool(name: PoolId, pools: Mapping[PoolId, Pool]) -> PoolId:
    """The pool that acts for the machines of the one of this name: itself, or the older one that has the same ones."""
    pool = pools.get(name)
    return name if pool is None or pool.taken_by is None else pool.taken_by


class InstanceState(StrEnum):
    """The state of an instance; it is billed from its launch until it has ended."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class PriceSegment:
    """From ``since`` on (until the next segment or the end) the instance costs ``price``.

    ``listed``: what the cloud itself asks, where ``spec.price`` of the pool has made it another price.
    """

    since: Instant
    price: Price
    listed: Price | None = None

    @property
    def list_price(self) -> Price:
        """The cloud's own price."""
        return self.price if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as the cloud lists it; all times are the cloud's. ``launched`` is when billing began.

    ``segments``: the prices that the cloud tells of this machine; empty where it tells none, and the quotes say it.
    ``order``: what it was launched for, where the cloud knows. ``ends``: when it is taken back, where that is known all
    the time, such as the end of a reservation.
    """

    id: InstanceId
    state: InstanceState
    provider_id: str
    node: NodeName | None
    launched: Instant
    ended: Instant | None
    segments: tuple[PriceSegment, ...]
    billing_minimum_seconds: int
    order: OrderToken | None = None
    ends: Instant | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Warning that an instance is taken back at ``at``; None: soon, nobody says when.

    ``certain``: False where it only may be: what runs there goes on, and nothing new begins there. ``why``: in whose
    words, where the reader would not know. ``broken``: its GPUs are, and it is to be given back.
    """

    instance: InstanceId
    at: Instant | None
    certain: bool = True
    why: str = ""
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """The cloud's answer about one pool.

    ``target``: how many nodes the cloud itself wants, None where it does not count. ``ordered``: the orders that the
    cloud has on record and tries to serve. ``asked``: the cloud's own time of the answer.
    """

    pool: PoolId
    target: int | None
    ordered: frozenset[OrderToken]
    instances: tuple[Instance, ...]
    refusals: tuple[Refusal, ...]
    notices: tuple[Notice, ...]
    asked: Instant
    traits: Traits
    offering: Offering
