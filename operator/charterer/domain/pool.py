"""A GPU pool, what the cloud sells in it (offering, quote), and what the cloud reports about it (survey)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp, inf, log
from typing import Final, NamedTuple

from charterer.domain.ids import BudgetId, InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_TRAITS, NodeTaint, NodeTraits, place_labels
from charterer.domain.option import GPU, MIG_PREFIX, SHARED_GPU
from charterer.domain.order import CoolDown, LaunchWay, Refusal, Traits
from charterer.domain.reasons.phrases import all_nodes
from charterer.domain.time import Instant
from charterer.gpu_types import is_shared, mig_layouts, slice_profile, slice_type, slices_of, whole_type

# Nodes that are paid for whether used or not, such as a reservation or a committed-use discount.


@dataclass(frozen=True, slots=True)
class Commitment:
    """The commitment of ``budget`` to pay for all nodes of a pool, used or not (docs/development/adr/0006).

    ``until``: the end; None if the commitment lasts as long as the pool, as for nodes that are there anyway
    (docs/development/adr/0026).
    """

    until: Instant | None
    budget: BudgetId


# The partition of the GPUs of a pool's nodes: cut into MIG slices, or shared by several jobs at once.


def no_such_slice(gpu_type: str, profile: str) -> str:
    """The message that GPUs of the type have no slices of this profile. The message lists the profiles that exist for
    the type."""
    layouts = mig_layouts(gpu_type)
    if layouts is None:
        return f"spec.partition.profile is {profile}, and a {gpu_type} is not known to be cut into slices"
    return (
        f"spec.partition.profile is {profile}, and a {gpu_type} is cut into slices of {', '.join(layouts.slices)} only"
    )


class MigStrategy(StrEnum):
    """How nodes name their slices. MIXED: by profile, such as ``nvidia.com/mig-1g.10gb``. SINGLE: as whole GPUs.

    With MIXED, shared GPUs are named ``nvidia.com/gpu.shared``.
    """

    MIXED = "Mixed"
    SINGLE = "Single"


class SharingMechanism(StrEnum):
    """How jobs share a GPU. TIME_SLICING: jobs take turns. MPS: jobs run together, each with a part of the memory."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"

    def profile(self, jobs: int) -> str:
        """The profile, as ``gpu_types`` names it, of a GPU that ``jobs`` jobs share."""
        return f"{'shared' if self is SharingMechanism.TIME_SLICING else 'mps'}-{jobs}"


@dataclass(frozen=True, slots=True)
class Partition:
    """How every GPU of a pool's nodes is cut or shared.

    ``profile``: a MIG profile, of which each GPU gets as many slices as fit; or ``shared-2`` or ``mps-2`` if two jobs
    use the GPU at once.
    """

    profile: str
    strategy: MigStrategy = MigStrategy.MIXED

    @property
    def resource(self) -> str:
        """The extended resource of the slices, as NVIDIA's device plugin names it."""
        if self.strategy is MigStrategy.SINGLE:
            return GPU
        return SHARED_GPU if is_shared(self.profile) else f"{MIG_PREFIX}{self.profile}"

    @property
    def shares_faults(self) -> bool:
        """Whether a fatal fault of one job ends all jobs on its GPU, as under MPS."""
        return self.profile.startswith("mps-")

    @property
    def noun(self) -> str:
        """The name of one part of a GPU in messages."""
        return "GPU place" if is_shared(self.profile) else f"{self.profile} slice"

    @property
    def field(self) -> str:
        """The field of a GPUPool that declares the partition."""
        return "spec.sharing" if is_shared(self.profile) else "spec.partition"


# Counts of the ended nodes of a pool, and the rate at which the cloud takes nodes back.
#
# Spot nodes die young: the rate falls by a factor of ten or more within hours (1,442 preemptible machines of Google,
# Kadupitiya et al. 2019; 128 GPU servers, CM-DARE 2020). So deaths are counted by bands of a node's age.


BAND_ENDS: Final = (0.5, 2.0, 4.0, inf)
"""Ages of a node, in hours, at which the bands end."""
_NO_HOURS: Final = (0.0,) * len(BAND_ENDS)


def band_of(hours: float) -> int:
    return next(band for band, end in enumerate(BAND_ENDS) if hours < end)


@dataclass(frozen=True, slots=True)
class EndedNode:
    """A node that ended at ``at`` after ``hours`` hours. ``taken``: the cloud took it back. ``uid``: its rental's uid.

    ``others``: how many other nodes of the pool existed then. ``announced``: whether there was a notice. ``ordinal``:
    the number in the rental's name.
    """

    uid: str
    hours: float
    at: Instant
    taken: bool
    others: int
    announced: bool = False
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class NodeLifetimes:
    """Counts of a pool's ended nodes, with weights that decay. All numbers are as of the instant ``at``.

    ``at``: None if nothing was counted yet. ``deaths``: nodes that the cloud took back, by band of age. ``hours``:
    node-hours in each band, including nodes that were given back. ``events``: deaths at least five minutes after the
    previous one. ``shared``: deaths while the pool had other nodes. ``joint``: the sum, over these deaths, of the
    fraction of other nodes that died with the node. ``announced``: deaths after a notice. ``recent``: times of deaths
    in the last five minutes before ``at``. ``counted``: uids of rentals that are included and may still exist.
    ``ordinal``: the highest number in the names of counted rentals, so that names are not reused.
    """

    deaths: tuple[float, ...] = _NO_HOURS
    hours: tuple[float, ...] = _NO_HOURS
    events: float = 0.0
    shared: float = 0.0
    joint: float = 0.0
    announced: float = 0.0
    at: Instant | None = None
    recent: tuple[Instant, ...] = ()
    counted: tuple[str, ...] = ()
    ordinal: int = 0


NOTHING_COUNTED: Final = NodeLifetimes()


@dataclass(frozen=True, slots=True)
class Hazard:
    """The rate at which the cloud takes back the nodes of a pool.

    ``rates``: deaths per node-hour by band of age. ``joint``: the fraction q of a node's deaths that take the pool's
    other nodes with it. ``announced``: the fraction of deaths with a notice. ``overall``: deaths per node-hour of any
    age; ``low`` to ``high`` is its 90 % interval, from the observed ``deaths`` in ``node_hours``.
    """

    rates: tuple[float, ...]
    joint: float
    announced: float
    overall: float
    low: float
    high: float
    deaths: float
    node_hours: float

    @property
    def never(self) -> bool:
        """Whether the rate is zero at every age."""
        return not any(self.rates)

    @property
    def measured(self) -> bool:
        """Whether any death was observed. Otherwise the rate is only assumed."""
        return self.deaths > 0.0

    def at_age(self, hours: float) -> float:
        """Deaths per node-hour at the age of ``hours``."""
        return self.rates[band_of(hours)]


# Counts of a pool's answers and node starts, and the wait for a node (``estimate.waits``).
#
# Answers are counted by hours: hours in which a node was given, and hours in which every request was refused. So a
# burst of launches or refusals counts once. Counts are kept for each hour of the week (UTC), because shortages follow
# working hours and weekends.


SLOTS: Final = 168
"""Hours of a week, beginning on Monday 00:00 UTC."""
STARTS_ASSUMED: Final = 2.0
"""The weight of the declared start-up time, in observed starts."""
_START_GRID: Final = log(1.1)
"""Start-up times are rounded to a grid of 10 %. A finer value would only cause new menus, which take time to compute,
and the start-up times of nodes differ by more."""
_NO_WAITS: Final = (0.0,) * SLOTS


@dataclass(frozen=True, slots=True)
class NodeStart:
    """When a node was requested, launched, and ready for pods."""

    asked: Instant
    launched: Instant
    ready: Instant


@dataclass(frozen=True, slots=True)
class LaunchHistory:
    """Counts of a pool's answers and starts, with weights that decay. All numbers are as of the instant ``at``.

    ``given``: hours in which a node was given, by hour of the week. ``refused``: hours in which every request was
    refused. ``last_given``, ``last_refused``: the latest such hour, in hours since 1970; -1 for none. ``starts``: nodes
    that became ready. ``logs``, ``squares``: the sums of log(seconds from launch to readiness) and of its square over
    these nodes. ``queued``: the sum of their seconds from request to launch. ``through``: starts up to this instant are
    counted. ``at``: None if nothing was counted yet.
    """

    given: tuple[float, ...] = _NO_WAITS
    refused: tuple[float, ...] = _NO_WAITS
    last_given: int = -1
    last_refused: int = -1
    starts: float = 0.0
    logs: float = 0.0
    squares: float = 0.0
    queued: float = 0.0
    through: Instant | None = None
    at: Instant | None = None

    @property
    def hours(self) -> float:
        """The number of hours with an answer."""
        return sum(self.given) + sum(self.refused)

    def start_seconds(self, declared: float) -> float:
        """Expected seconds from a node's launch to readiness: the geometric mean of observed times and the declared
        time."""
        if self.starts <= 0.0 or declared <= 0.0:
            return declared
        mean = (self.logs + log(declared) * STARTS_ASSUMED) / (self.starts + STARTS_ASSUMED)
        return exp(round(mean / _START_GRID) * _START_GRID)


NO_LAUNCHES: Final = LaunchHistory()


@dataclass(frozen=True, slots=True)
class ExpectedWait:
    """Seconds until the cloud gives a node that is requested now. The node's start-up is not included, and the wait
    is not billed.

    ``low`` to ``high``: the 90 % interval. ``hours``: how many comparable hours with an answer were observed.
    ``measured``: whether these hours are enough for a reliable estimate.
    """

    seconds: float
    low: float
    high: float
    hours: float
    measured: bool


class CapacityType(StrEnum):
    """How the cloud sells a node. Both kinds are rented and ended at will, but the cloud may take spot nodes back."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


@dataclass(frozen=True, slots=True)
class Offering:
    """The properties of a node of the pool. ``gpu_type``: as the maker's node label names it; a slice counts as a GPU.

    ``group_id``: the cloud's globally unique name of the group; empty if it has none. ``group_size``: the most nodes
    that the group takes; None if the cloud does not say. ``resource``: the extended resource of its GPUs or slices.
    ``slices_per_gpu``: slices of one physical GPU; 1 for whole GPUs. ``traits``: what the scheduler sees of the node,
    as observed on nodes of the pool. ``traits_seen``: the pool's generation at that time; 0 if no node was observed and
    ``traits`` are the cloud's data.
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
        """The number of physical GPUs of the machine, as the cloud counts them."""
        return self.gpus_per_node // self.slices_per_gpu

    def cut(self, partition: Partition) -> Offering | None:
        """The same node with each GPU cut or shared; None if GPUs of its type cannot be partitioned like that.

        If the cloud already counted the slices, because they are named as whole GPUs, the count stays the same.
        """
        slices = slices_of(self.gpu_type, partition.profile)
        if not slices or slice_profile(self.gpu_type) not in ("", partition.profile):
            return None
        counted = self.gpus_per_node if slice_profile(self.gpu_type) else self.gpus_per_node * slices
        named = slice_type(whole_type(self.gpu_type), partition.profile)
        return replace(self, gpu_type=named, gpus_per_node=counted, resource=partition.resource, slices_per_gpu=slices)


class Cloud(ABC):
    """The source of a pool's nodes, in the terms of one vendor (``charterer.clouds``). Implementations are frozen.

    Only the vendor's adapter uses attributes beyond this class.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def vendor(self) -> str:
        """The vendor, named as the field of ``GPUPool.spec``."""

    @property
    @abstractmethod
    def account(self) -> str:
        """The vendor's account to which the pool's rights and quotas belong."""

    @property
    def billed_account(self) -> str:
        """The account, subscription or project on the cloud's bill; empty if unknown."""
        return ""

    @property
    def billed_region(self) -> str:
        """The region on the cloud's bill; empty if unknown."""
        return ""

    @property
    def identity(self) -> Hashable:
        """A value that is equal for two clouds exactly if they mean the same machines, however they are written."""
        return self

    @property
    def marks_machines(self) -> bool:
        """Whether each machine names its pool, so that two pools with equal fields share no machines."""
        return False

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        """The declared taints of its nodes."""
        return ()

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """The labels that the vendor sets on its nodes, besides those that every node with GPUs has."""
        return {}

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The labels with the location of its nodes, with the possible values of each."""
        return place_labels(offering.zone.split(","), self.billed_region)

    @abstractmethod
    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """All ways to launch such a node; none for reserved capacity, which no other pool can use."""

    @property
    def rents(self) -> bool:
        """Whether its nodes are rented: launched on request, billed, and ended when they are given back.

        False: the nodes are there anyway and are not changed.
        """
        return True

    def quota_units(self, offering: Offering) -> int:
        """The least quota that such a node uses, in the vendor's units."""
        return offering.machine_gpus


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of one node. ``worst``: the most that a node launched now can ever cost per hour.

    ``listed``: the cloud's own price if the pool's ``spec.price`` changed it, otherwise None. ``history``: earlier
    prices, oldest first, if the cloud gives them.
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
        return self.price if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Pool:
    """A GPUPool as the user declared it, with what was discovered about it.

    ``labels``: the labels of its metadata, by which budgets select pools. ``set_uid``: the uid of the GPUPoolSet that
    controls it; empty if none does. ``max_nodes``: the declared number, or the size of its group if that is less
    (``controller.snapshot.pools``). ``start_seconds``: the declared time from a node's request to its readiness; money
    limits use it. ``cooled``: the cloud's recent refusals, the latest ``until`` last; no node is requested before that.
    ``reached``: a refusal of another pool of the account that applies to this pool too. ``deleted``: when its
    deletion was requested. ``guarded``: the pool has the finalizer ``charterer.dev/in-use``, which prevents its
    deletion while rentals name the pool. ``price_override``, ``price_adjustment`` (hundredths of a percent, until
    ``price_adjusted_until``): corrections of the list price, see ``priced``. ``offer_recorded``: whether the object's
    status holds this offering and (except for its time) this quote. ``quote_on_record``: the quote in the status.
    ``taken_by``: the older pool that acts for the same machines instead of this pool. ``gone``: the GPUPool no longer
    exists and is known only from its rentals; ``uid`` is then the uid of a new pool of that name, if one exists.
    ``confirmed_price``: the list price that a person confirmed. ``price_held``: the cloud's list price if this price
    changed too much to be believed, so that the recorded price counts. ``lifetimes``: counts of its ended nodes.
    ``hazard``: the rate at which its nodes are taken back; None if unknown. ``launches``: counts of its refusals and
    starts.
    ``learns_waits``: whether the pool's expected wait is estimated from ``launches``. ``correlated_launches``: the
    counts of this pool and of pools that fail together with it; None without such pools. ``trouble``: why the pool
    was not ready at the last check, and the remedy, in the words of its status; empty if it was ready. ``partition``:
    how its GPUs are cut or shared; None for whole GPUs. ``committed``: the budget that pays for all of its nodes at
    ``price_override``, and the end of this commitment; None without a commitment in force. ``node_labels``,
    ``node_resources``: declared labels and resources (in thousandths) of its nodes. ``device``: the extended resource
    of its nodes' whole GPUs.
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
        """All ways in which the pool may launch a node; none if its offering is unknown."""
        return () if self.offering is None else self.cloud.ways(self.offering, self.capacity_type)

    @property
    def known_launches(self) -> LaunchHistory:
        """The counts of refusals and starts that options use."""
        if not self.learns_waits:
            return NO_LAUNCHES
        return self.launches if self.correlated_launches is None else self.correlated_launches

    @property
    def likely_start_seconds(self) -> float:
        """Expected seconds from a node's launch to its readiness, from observed starts and the declared time."""
        return self.known_launches.start_seconds(self.start_seconds)

    @property
    def gave_nodes(self) -> bool:
        """Whether a node of the pool ever became ready, or was launched and has ended."""
        return self.launches.last_given >= 0 or self.lifetimes.at is not None

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node; 0 if unknown."""
        return 0 if self.offering is None else self.offering.gpus_per_node

    @property
    def resource(self) -> str:
        """The extended resource of the GPUs or slices of its nodes."""
        return self.device if self.partition is None else self.partition.resource

    @property
    def most_nodes(self) -> str:
        """``max_nodes`` in words, with its reason."""
        return all_nodes(self.max_nodes, self.max_because)

    @property
    def max_because(self) -> str:
        """The cause of ``max_nodes``, as the end of a sentence: the size of the pool's group, its existing Nodes, or
        its spec."""
        if self.offering is None or self.offering.group_size != self.max_nodes:
            return "spec.maxNodes allows"
        return "its group takes" if self.cloud.rents else "takes part" if self.max_nodes == 1 else "take part"

    def nodes(self, takes: int) -> int:
        """The number of nodes for a job that takes ``takes`` GPUs (``Option.takes``); 1 for a part of a node."""
        return max(takes // (self.gpus_per_node or takes), 1)

    @property
    def cool_down(self) -> CoolDown | None:
        """The cool-down that ends last, the pool's own or another pool's. The cool-down may have ended already."""
        return max(self.cool_downs, key=lambda cooled: cooled.until, default=None)

    @property
    def cool_downs(self) -> tuple[CoolDown, ...]:
        """The pool's own cool-downs, and the cool-down of another pool that applies to this pool too."""
        return self.cooled if self.reached is None else (*self.cooled, self.reached)

    def cooling(self, now: Instant) -> CoolDown | None:
        """The cool-down that prevents requests to the pool now; None if none does."""
        last = self.cool_down
        return last if last is not None and last.until > now else None

    @property
    def lacks_price(self) -> bool:
        """Whether the price of a node is unknown: neither the pool's spec nor the cloud gives one."""
        return self.quote is None and self.price_override is None and not self.closed_because

    @property
    def closed_because(self) -> str:
        """Why no job may use the pool and its rentals are ended; empty while the pool is open."""
        if self.gone:
            return f"GPUPool {self.id} is gone"
        if self.deleting:
            return f"GPUPool {self.id} is being deleted"
        return "" if self.taken_by is None else f"GPUPool {self.id} has the same machines as GPUPool {self.taken_by}"

    def priced(self, listed: Price) -> Price:
        """The price that the user really pays for a list price, rounded half up to a micro-dollar per hour."""
        if self.price_override is not None:
            return self.price_override
        return Price((listed.micros_per_hour * (10_000 + self.price_adjustment) + 5_000) // 10_000)

    def most_priced(self, listed: Price) -> Price:
        """The highest price that a list price may lead to. The list price itself counts after an adjustment or
        commitment ends."""
        paid = self.priced(listed)
        return max(paid, listed) if self.price_adjusted_until is not None or self.committed is not None else paid

    @property
    def dollars_per_second(self) -> float:
        """Dollars per second of a node; 0 if its price is unknown."""
        return 0.0 if self.quote is None else self.quote.price.dollars_per_second

    @property
    def marginal(self) -> Price | None:
        """The amount that one more hour of a node adds to the bill: its price, or almost nothing if the node is paid
        for anyway.

        Almost nothing is a micro-dollar per hour for each GPU, because no exchange rate follows from options that cost
        exactly nothing.
        """
        if self.quote is None or self.committed is None:
            return None if self.quote is None else self.quote.price
        least = Price(self.gpus_per_node)
        return min(self.quote.price, least) if self.quote.price > Price(0) else least

    @property
    def committed_in(self) -> str:
        """The field that declares the commitment to pay for all of its nodes."""
        return "spec.price.committed" if self.cloud.rents else "spec.existing"

    @property
    def costs_nothing(self) -> bool:
        """Whether its nodes cost nothing: they are not rented, and no price is declared for them."""
        return not self.cloud.rents and not (self.price_override or Price(0)).micros_per_hour


def acting_pool(name: PoolId, pools: Mapping[PoolId, Pool]) -> PoolId:
    """The pool that acts for the machines of pool ``name``: itself, or the older pool with the same machines."""
    pool = pools.get(name)
    return name if pool is None or pool.taken_by is None else pool.taken_by


class InstanceState(StrEnum):
    """The state of an instance, which is billed from its launch until it has ended."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class PriceSegment:
    """The ``price`` of an instance per hour from ``since`` until the next segment or the end.

    ``listed``: the cloud's own price if the pool's ``spec.price`` changed it, otherwise None.
    """

    since: Instant
    price: Price
    listed: Price | None = None

    @property
    def list_price(self) -> Price:
        return self.price if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as the cloud lists it. All times are the cloud's. ``launched``: when billing began.

    ``segments``: the prices that the cloud gives for this machine; if empty, the quotes give them. ``order``: the order
    for which the machine was launched, if the cloud knows. ``ends``: when the machine is taken back, if that is fixed,
    such as the end of a reservation.
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
    """A warning that an instance is taken back at ``at``. None means soon, at an unknown time.

    ``certain``: False if the instance may only possibly be taken back. Its jobs then go on, and no new job begins
    there. ``why``: the source of the warning, if the reader would not know it. ``broken``: its GPUs are broken, and
    it should be given back.
    """

    instance: InstanceId
    at: Instant | None
    certain: bool = True
    why: str = ""
    broken: bool = False


class LeftOutWhy(StrEnum):
    """Why a Node that a pool selects is not used by the pool."""

    RENTED = "RentedNode"
    TWO_POOLS = "TwoPools"
    OTHER_GPUS = "OtherGpus"
    NOT_READY = "NodeNotReady"
    CORDONED = "NodeCordoned"
    BROKEN_GPUS = "BrokenGpus"
    GOES_AWAY = "NodeGoesAway"


class LeftOut(NamedTuple):
    """A Node that a pool selects but does not use. ``told``: a message with the Node, the cause and the remedy."""

    why: LeftOutWhy
    told: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The cloud's answer about one pool.

    ``target``: how many nodes the cloud's own group wants; None if the cloud does not count nodes. ``ordered``: the
    orders that the cloud has on record and tries to serve. ``asked``: the cloud's own time of the answer. ``left_out``:
    Nodes that the pool selects but does not use.
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
    left_out: tuple[LeftOut, ...] = ()
