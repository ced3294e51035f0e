"""A GPU pool, what the cloud sells in it (offering, quote) and what the cloud reports about it (survey)."""

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

# Nodes that are paid for whether they are used or not: a reservation, or a committed-use discount.


@dataclass(frozen=True, slots=True)
class Commitment:
    """That ``budget`` pays for all nodes of a pool until then, used or not (docs/development/adr/0006).

    ``until``: None for as long as the pool is there, as of nodes that are there anyway (docs/development/adr/0026).
    """

    until: Instant | None
    budget: BudgetId


# How the GPUs of a pool's nodes are cut into MIG slices, or shared by several jobs at once.


def no_such_slice(gpu_type: str, profile: str) -> str:
    """That GPUs of a type have no such profile, and which they have."""
    layouts = mig_layouts(gpu_type)
    if layouts is None:
        return f"spec.partition.profile is {profile}, and a {gpu_type} is not known to be cut into slices"
    return (
        f"spec.partition.profile is {profile}, and a {gpu_type} is cut into slices of {', '.join(layouts.slices)} only"
    )


class MigStrategy(StrEnum):
    """How nodes name their slices. MIXED: by profile, ``nvidia.com/mig-1g.10gb``. SINGLE: as whole GPUs.

    Of GPUs that are shared: MIXED ``nvidia.com/gpu.shared``.
    """

    MIXED = "Mixed"
    SINGLE = "Single"


class SharingMechanism(StrEnum):
    """How jobs use a GPU at once. TIME_SLICING: they take turns. MPS: they run together, each in its part of memory."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"

    def profile(self, jobs: int) -> str:
        """The profile of a GPU that this number of jobs share, as ``gpu_types`` names it."""
        return f"{'shared' if self is SharingMechanism.TIME_SLICING else 'mps'}-{jobs}"


@dataclass(frozen=True, slots=True)
class Partition:
    """How every GPU of a pool's nodes is cut: into as many slices of one MIG profile as it holds.

    Or ``profile`` is ``shared-2`` or ``mps-2``: two jobs use it at once.
    """

    profile: str
    strategy: MigStrategy = MigStrategy.MIXED

    @property
    def resource(self) -> str:
        """The extended resource of its slices, as NVIDIA's device plugin names it."""
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
        """The field of a GPUPool that says so."""
        return "spec.sharing" if is_shared(self.profile) else "spec.partition"


# What was counted of the ends of a pool's nodes, and the rate at which the cloud takes them back.
#
# Spot nodes die young: the rate falls by a factor of ten or more within hours (1,442 preemptible machines of
# Google, Kadupitiya et al. 2019; 128 GPU servers, CM-DARE 2020). So it is counted in bands of a node's age.


BAND_ENDS: Final = (0.5, 2.0, 4.0, inf)
"""Ages of a node, in hours, at which the bands end."""
_NO_HOURS: Final = (0.0,) * len(BAND_ENDS)


def band_of(hours: float) -> int:
    """The band of a node's age."""
    return next(band for band, end in enumerate(BAND_ENDS) if hours < end)


@dataclass(frozen=True, slots=True)
class EndedNode:
    """A node that has ended at ``at``: ``taken`` by the cloud, or given back. ``uid``: of its rental.

    ``others``: nodes of the pool that were there when it ended. ``announced``: whether there was a notice.
    ``ordinal``: of its rental's name.
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
    """Counts of a pool's nodes that have ended; all numbers are of ``at`` and count for less later.

    ``at``: None where nothing was counted yet. ``deaths``: nodes that the cloud took, by band of age; ``hours``:
    node-hours in each band, of nodes that were given back too. ``events``: deaths at least five minutes after the one
    before. ``shared``: deaths while other nodes of the pool were there, and ``joint``: summed up, the fraction of those
    others that died with each. ``announced``: deaths with a notice before. ``recent``: when nodes died in the last five
    minutes before ``at``. ``counted``: uids of the rentals that are in the numbers and may still be there.
    ``ordinal``: the highest ordinal in a name of those rentals, so that names are not used again.
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
    other nodes with it. ``announced``: the fraction of deaths of which there is a notice. ``low`` to ``high``: the 90 %
    interval of the ``overall`` deaths per node-hour, after ``deaths`` in ``node_hours`` that were seen.
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
        """Whether no node is expected to be taken back."""
        return not any(self.rates)

    @property
    def measured(self) -> bool:
        """Whether any death was seen, so that the rate is not the assumed one alone."""
        return self.deaths > 0.0

    def at_age(self, hours: float) -> float:
        """Deaths per node-hour at that age."""
        return self.rates[band_of(hours)]


# What was counted of a pool's answers and starts, and the wait for a node (``estimate.waits``).
#
# Answers are counted by hours: an hour in which a node was given, or one in which every ask was refused. So a burst
# of launches, or of refusals, counts once. Hours are those of the week (UTC), because shortages follow working
# hours and weekends.


SLOTS: Final = 168
"""Hours of a week, from Monday 00:00 UTC on."""
STARTS_ASSUMED: Final = 2.0
"""Starts that the declared start-up time weighs against those that were seen."""
_START_GRID: Final = log(1.1)
"""Start-up times are used on a grid of 10 %: every new menu costs time, and a node differs from the next by more."""
_NO_WAITS: Final = (0.0,) * SLOTS


@dataclass(frozen=True, slots=True)
class NodeStart:
    """When a node was asked for, launched, and ready for pods."""

    asked: Instant
    launched: Instant
    ready: Instant


@dataclass(frozen=True, slots=True)
class LaunchHistory:
    """Counts of a pool's answers and starts; all numbers are of ``at`` and count for less later.

    ``given``: hours in which a node was given, by hour of the week; ``refused``: hours in which every ask was refused.
    ``last_given``, ``last_refused``: the latest such hour, in hours since 1970. ``starts``: nodes that became ready,
    with ``logs`` and ``squares``, the sums of the logarithms of their seconds from launch to readiness and of those
    squared, and ``queued``, the sum of their seconds from the ask to the launch. ``through``: starts up to then are
    counted. ``at``: None where nothing was counted yet.
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
        """Hours with an answer."""
        return sum(self.given) + sum(self.refused)

    def start_seconds(self, declared: float) -> float:
        """Seconds from a node's launch to its readiness: the geometric mean of those seen and of the declared time."""
        if self.starts <= 0.0 or declared <= 0.0:
            return declared
        mean = (self.logs + log(declared) * STARTS_ASSUMED) / (self.starts + STARTS_ASSUMED)
        return exp(round(mean / _START_GRID) * _START_GRID)


NO_LAUNCHES: Final = LaunchHistory()


@dataclass(frozen=True, slots=True)
class ExpectedWait:
    """Seconds until the cloud gives a node that is asked for now, its start-up not included; nobody pays for them.

    ``low`` to ``high``: the 90 % interval. ``hours``: hours with an answer like this one that were seen; ``measured``:
    whether those are enough to wait for what they say.
    """

    seconds: float
    low: float
    high: float
    hours: float
    measured: bool


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

    @property
    def rents(self) -> bool:
        """Whether its nodes are rented: launched when they are asked for, billed, and ended when they are given back.

        False: they are there anyway, and stay as they are.
        """
        return True

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
    (``controller.snapshot.pools``). ``start_seconds``: from asking for a node to its readiness, as declared:
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
        return all_nodes(self.max_nodes, self.max_because)

    @property
    def max_because(self) -> str:
        """What sets ``max_nodes``: the size of its group, how many there are, or its spec."""
        if self.offering is None or self.offering.group_size != self.max_nodes:
            return "spec.maxNodes allows"
        return "its group takes" if self.cloud.rents else "takes part" if self.max_nodes == 1 else "take part"

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
    def dollars_per_second(self) -> float:
        """Dollars a second of a node; 0 if no price is known."""
        return 0.0 if self.quote is None else self.quote.price.dollars_per_second

    @property
    def marginal(self) -> Price | None:
        """What one more hour of a node adds to the bill: its price, or next to nothing where it is paid for anyway.

        That is a micro-dollar an hour for each GPU: of options that cost exactly nothing no rate of exchange follows.
        """
        if self.quote is None or self.committed is None:
            return None if self.quote is None else self.quote.price
        least = Price(self.gpus_per_node)
        return min(self.quote.price, least) if self.quote.price > Price(0) else least

    @property
    def committed_in(self) -> str:
        """The field that says who pays for all of its nodes, used or not, or has them."""
        return "spec.price.committed" if self.cloud.rents else "spec.existing"

    @property
    def costs_nothing(self) -> bool:
        """Whether its nodes cost nothing, used or not: they are there anyway, and nobody has said what one costs."""
        return not self.cloud.rents and not (self.price_override or Price(0)).micros_per_hour


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


class LeftOutWhy(StrEnum):
    """Why a Node that a pool selects takes no part in it."""

    RENTED = "RentedNode"
    TWO_POOLS = "TwoPools"
    OTHER_GPUS = "OtherGpus"
    NOT_READY = "NodeNotReady"
    CORDONED = "NodeCordoned"


class LeftOut(NamedTuple):
    """A Node that a pool selects and that takes no part in it. ``told``: which it is, why, and what to do."""

    why: LeftOutWhy
    told: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The cloud's answer about one pool.

    ``target``: how many nodes the cloud itself wants, None where it does not count. ``ordered``: the orders that the
    cloud has on record and tries to serve. ``asked``: the cloud's own time of the answer. ``left_out``: Nodes that are
    there anyway, are selected, and take no part.
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
