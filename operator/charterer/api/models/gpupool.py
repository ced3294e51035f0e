"""GPUPool: one group of equal GPU nodes that can be rented, at one price."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field

from charterer.api.gpu_resources import RESOURCE_RULES
from charterer.api.metadata import ObjectMeta, thousandths
from charterer.api.models.base import (
    ATOMIC,
    IMMUTABLE,
    Absent,
    ApiModel,
    Conditions,
    Hourly,
    HourlyCents,
    Labels,
    Message,
    Mirror,
    Named,
    ObjectName,
    PartOf,
    PrinterColumn,
    ResourceKind,
    Rule,
    SpecHourly,
    Time,
    joined,
    ruled,
    rules,
)
from charterer.api.models.clouds import CLOUD_FIELDS, CloudChoice, cloud_rules
from charterer.api.models.machine_state import (
    InterruptionsStatus,
    LaunchesStatus,
    PackedStatistics,
    packed_statistics,
    recorded_statistics,
)
from charterer.api.models.widths import CUT_ONCE, RESOURCE_ONCE, SHARED_ONCE, GpuResource, PartitionSpec, PoolSharing
from charterer.api.names import ANNOTATION_CONFIRMED_PRICE, FINALIZER_IN_USE, GPU_RESOURCE, GROUP
from charterer.clouds.existing import ExistingNodes
from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_TRAITS, NodeTaint, NodeTraits, TaintEffect
from charterer.domain.order import KEPT, CoolDown, RefusalKind, Scope
from charterer.domain.pool import CapacityType, Commitment, Offering, Pool, Quote

# The properties of a pool's nodes that the scheduler uses, as declared and as observed.


_QUANTITY = r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?$"


def _amounts(resources: dict[str, str]) -> dict[str, str]:
    for quantity in resources.values():
        thousandths(quantity)
    return resources


NodeResources = Annotated[
    dict[str, Annotated[str, Field(max_length=32, json_schema_extra={"pattern": _QUANTITY})]],
    Field(max_length=32),
    AfterValidator(_amounts),
]
"""Quantities by the names of resources."""


def quantity(amount: int) -> str:
    """Thousandths as a Kubernetes quantity."""
    whole, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else str(whole)


class SeenTaint(Mirror[NodeTaint]):
    """A taint."""

    key: str
    """Key."""
    value: str = ""
    """Value."""
    effect: TaintEffect
    """NoSchedule or NoExecute."""


class NodeTraitsStatus(Mirror[NodeTraits]):
    """Properties of a node that the scheduler uses."""

    APART = frozenset(("labels", "resources", "room"))

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that all nodes have."""
    taints: Annotated[tuple[SeenTaint, ...], Field(json_schema_extra=ATOMIC)] = ()
    """Taints that some nodes have."""
    resources: dict[str, str] = Field(default_factory=dict)
    """Minimum resources of each node for pods, without GPUs."""

    @classmethod
    def from_domain(cls, traits: NodeTraits) -> Self:
        """The model of the traits."""
        room = {name: quantity(amount) for name, amount in traits.room}
        return cls.copy_of(traits, labels=dict(traits.labels), resources=room)

    def to_domain(self) -> NodeTraits:
        """The domain value of the traits."""
        room = tuple(sorted([(name, thousandths(amount)) for name, amount in self.resources.items()]))
        return joined(NodeTraits, self, labels=tuple(sorted(self.labels.items())), room=room)


# The price of a pool's nodes if it is not the list price.


_ADJUSTMENT: Final = r"^[+-][0-9]{1,2}([.][0-9]{1,2})?%$"
_ADJUSTMENT_RULE: Final = Rule(
    f"self.matches('{_ADJUSTMENT}')", 'write a percentage from -99.99% to +99.99% with its sign, such as "-10%"'
)


def _percentage(text: str) -> str:
    if re.fullmatch(_ADJUSTMENT, text) is None:
        raise ValueError(f"{text!r}: {_ADJUSTMENT_RULE.message}")
    return text


_Percentage = Annotated[
    str, AfterValidator(_percentage), Field(max_length=7, json_schema_extra=rules(_ADJUSTMENT_RULE))
]


class CommittedSpec(Mirror[Commitment]):
    """A commitment to pay for all of the pool's nodes until a day, used or not."""

    until: Time
    """When the commitment ends. From then on the pool is like any other, at the cloud's list price."""
    budget: ObjectName
    """Name of the GPUBudget that pays. No other budget rents in the pool."""


class PoolPrice(ApiModel):
    """Price of a node, if it is not the list price."""

    model_config = ruled(
        Rule("has(self.hourly) != has(self.adjustment)", "price needs exactly one of hourly and adjustment"),
        Rule(
            "!has(self.adjustmentUntil) || has(self.adjustment)",
            "adjustmentUntil is the end of an adjustment: give one, or leave it out",
            ".adjustmentUntil",
        ),
        Rule(
            "!has(self.committed) || has(self.hourly)",
            "committed nodes are paid at hourly: give what one costs an hour, or leave committed out",
            ".committed",
        ),
    )

    hourly: SpecHourly | None = None
    """Dollars per hour of one node."""
    adjustment: _Percentage | None = None
    """A discount or surcharge on the list price, such as "-10%"."""
    adjustment_until: Time | None = None
    """The end of the adjustment, such as that of a savings plan. After that the list price counts."""
    committed: CommittedSpec | None = None
    """A reservation or committed-use discount: all maxNodes nodes are paid for at hourly, used or not. The nodes are
    rented at once and kept, and jobs use them first. Absent: nodes are rented and given back as jobs need them."""

    @property
    def basis_points(self) -> int:
        """The adjustment in hundredths of a percent."""
        return int(Decimal((self.adjustment or "0%").removesuffix("%")) * 100)


MOST_NODES: Final = 10_000
_MAX_NODES_NEEDED: Final = "say how many nodes may be rented at a time (maxNodes)"


class GPUPoolSpec(CloudChoice, PartOf[Pool]):
    """The source of nodes, and the number that may be rented. Exactly one cloud is set."""

    APART = frozenset(
        (*CLOUD_FIELDS, "partition", "sharing", "price", "resources", "max_nodes", "start_seconds", "cooldown_seconds")
    )

    model_config = ruled(
        *cloud_rules(),
        Rule("has(self.partition) == has(oldSelf.partition)", CUT_ONCE),
        Rule("has(self.sharing) == has(oldSelf.sharing)", SHARED_ONCE),
        Rule(
            "!has(self.partition) || !has(self.sharing)",
            "partition and sharing exclude each other: slices are not shared",
        ),
        Rule(
            f"self.resource == '{GPU_RESOURCE}' || (!has(self.partition) && !has(self.sharing))",
            f"partition and sharing are for {GPU_RESOURCE}: leave them out, or resource",
        ),
        Rule("has(self.maxNodes) || has(self.existing)", _MAX_NODES_NEEDED, ".maxNodes"),
        Rule(
            "!has(self.existing) || (self.capacityType == 'OnDemand' && (!has(self.price) || has(self.price.hourly) && "
            "!has(self.price.committed)))",
            "nodes that are there anyway (existing) are not sold: leave capacityType out, and of price all but hourly, "
            "which is what one costs an hour, used or not",
        ),
    )

    max_nodes: Annotated[int, Field(ge=0, le=MOST_NODES)] | None = None
    """Maximum number of nodes that may be rented at a time. 0 pauses the pool: no more nodes are rented, and rented
    nodes stay until no job uses them. Absent: all selected Nodes; only with existing."""
    capacity_type: Annotated[
        CapacityType,
        Field(
            json_schema_extra=rules(
                Rule(IMMUTABLE, "the capacityType of a pool cannot change: create another GPUPool for the other type")
            )
        ),
    ] = CapacityType.ON_DEMAND
    """How the cloud sells the nodes: OnDemand or Spot. The cloud can take spot nodes back; only jobs with spotPolicy
    Allowed run on them."""
    resource: Annotated[
        GpuResource,
        Field(json_schema_extra=rules(*RESOURCE_RULES, Rule(IMMUTABLE, RESOURCE_ONCE))),
        Named("device"),
    ] = GPU_RESOURCE
    """Name of the GPUs in a node's resources, as the vendor's device plugin sets it, such as amd.com/gpu. Any extended
    resource of whole GPUs. Only jobs with the same resource run in the pool."""
    partition: PartitionSpec | None = None
    """How the GPUs of new nodes are cut into MIG slices: all of them alike, by the node pool's own settings. A job that
    names the profile in spec.gpus.slices runs on one slice. Absent: GPUs are whole."""
    sharing: PoolSharing | None = None
    """How several jobs use each of the nodes' GPUs at once. Jobs with spec.gpus.shared run there. Absent: a GPU is one
    job's."""
    price: PoolPrice | None = None
    """Price of a node. Absent: the cloud's list price."""
    labels: Annotated[Labels, Named("node_labels")] = Field(default_factory=dict)
    """Labels of the nodes, in addition to those of the cloud, of NVIDIA's feature discovery and of AMD's node labeller.
    A job whose template selects nodes by a label runs only in pools whose nodes are known to have the label. Karpenter
    sets these labels on its nodes; with other clouds the node pool must set them. Absent: none."""
    resources: NodeResources = Field(default_factory=dict)
    """Resources of a node in addition to GPUs, CPU and memory, such as vpc.amazonaws.com/efa or hugepages-2Mi. A job
    whose pods request such a resource runs only in pools whose nodes are known to have it. Absent: as observed on
    nodes."""
    start_seconds: Annotated[int, Field(ge=0, le=86_400)] = 120
    """Seconds from asking for a node until it is ready for pods."""
    cooldown_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    """Seconds for which Charterer requests no node in this pool after the cloud refused one. The time doubles with each
    refusal in a row, up to 15 minutes after a stock-out and an hour after other refusals."""
    learn_waits: Annotated[bool, Named("learns_waits")] = True
    """Whether the expected wait for a node is learned from past refusals and starts at this hour of the week. false: a
    node is expected after startSeconds."""

    def to_domain(self, meta: ObjectMeta, record: GPUPoolRecord) -> Pool:
        """The pool, with the recorded offering and quote.

        Raises InvalidObject unless one cloud and maxNodes are set.
        """
        price, cloud = self.price or PoolPrice(), self.cloud_of(meta)
        if self.max_nodes is None and cloud.rents:
            raise meta.invalid("spec.maxNodes", "InvalidSpec", _MAX_NODES_NEEDED)
        committed = None if price.committed is None else price.committed.to_domain()
        if isinstance(cloud, ExistingNodes):
            committed = Commitment(None, cloud.budget)
        statistics = recorded_statistics(record.machine_state)
        return joined(
            Pool,
            meta,
            self,
            record,
            id=PoolId(meta.name),
            cloud=cloud,
            max_nodes=MOST_NODES if self.max_nodes is None else self.max_nodes,
            start_seconds=float(self.start_seconds) if cloud.rents else 0.0,
            cooldown_seconds=float(self.cooldown_seconds),
            price_override=Price(0) if price.hourly is None and not cloud.rents else price.hourly,
            guarded=FINALIZER_IN_USE in meta.finalizers,
            price_adjustment=price.basis_points,
            price_adjusted_until=price.adjustment_until,
            committed=committed,
            labels=dict(meta.labels),
            confirmed_price=_confirmed_price(meta),
            lifetimes=statistics.known_lifetimes,
            launches=statistics.known_launches,
            set_uid=_set_uid(meta),
            partition=None if (cut := self.partition or self.sharing) is None else cut.to_domain(),
            node_resources={name: thousandths(amount) for name, amount in self.resources.items()},
        )


def _set_uid(meta: ObjectMeta) -> str:
    owner = meta.controller
    return owner.uid if owner is not None and (owner.group, owner.kind) == (GROUP, "GPUPoolSet") else ""


def _confirmed_price(meta: ObjectMeta) -> Price | None:
    """The price in the pool's annotation; None if it is no price. The condition PriceHeld explains how to write it."""
    try:
        return Price.parse(meta.annotations.get(ANNOTATION_CONFIRMED_PRICE, "").strip().removeprefix("$"))
    except ValueError:
        return None


_TYPES_CHARACTERS: Final = 40 * 64
"""An Auto Scaling group has at most 40 instance types of at most 63 characters, separated by commas."""
_ZONES_CHARACTERS: Final = 16 * 64
"""A pool has at most 16 subnets."""
_SOURCE_CHARACTERS: Final = 512 + 64
"""An endpoint and the words around it."""


class OfferingStatus(Mirror[Offering]):
    """Hardware of one node of the pool."""

    gpu_type: Annotated[str, Field(max_length=253)]
    """GPU type, as in the node label nvidia.com/gpu.product. Slices have -MIG- and their profile in the name. GPUs that
    two jobs share have -shared-2 or -mps-2."""
    gpus_per_node: int
    """Number of GPUs of one node, or of its slices; if jobs share GPUs, number of jobs that fit on the node."""
    instance_type: Annotated[str, Field(max_length=_TYPES_CHARACTERS)]
    """The cloud's name of the machine type; several with commas."""
    zone: Annotated[str, Field(max_length=_ZONES_CHARACTERS)]
    """The cloud's name of the zone; several with commas."""
    group_id: Annotated[str, Field(max_length=512)] = ""
    """The cloud's own identifier of the instance group. Of pools with the same one only one is used."""
    group_size: Annotated[int, Field(ge=0)] | None = None
    """Maximum number of nodes of the instance group. The pool has no more nodes, even if maxNodes is larger. Absent:
    not known."""
    resource: Annotated[str, Field(max_length=253)] = GPU_RESOURCE
    """Name of the GPUs or slices in a node's resources."""
    slices_per_gpu: Annotated[int, Field(ge=1, le=8)] = 1
    """Number of slices of one GPU, or of jobs that share it; 1 if GPUs are whole."""
    traits: Annotated[NodeTraitsStatus | None, Absent(NO_TRAITS)] = None
    """Properties of a node that the scheduler uses: as observed on nodes, or before the first node as the cloud
    declares them."""
    traits_seen: int = 0
    """The metadata.generation of the pool at which the traits were observed; 0 if the cloud declares them. After a
    change of the spec, nodes are expected to have the traits of cloud and spec."""


class QuoteStatus(Mirror[Quote]):
    """The price of one node."""

    APART = frozenset(("history",))

    hourly: Annotated[Hourly, Named("price")]
    """Dollars per hour."""
    worst_hourly: Annotated[Hourly, Named("worst")]
    """Maximum dollars per hour that a node launched now can ever cost."""
    billing_minimum_seconds: int
    """Minimum number of seconds that the cloud bills."""
    source: Annotated[str, Field(max_length=_SOURCE_CHARACTERS)]
    """The source of the price."""
    as_of: Time
    """When the cloud gave this price."""
    listed: Hourly | None = None
    """The cloud's own price, if spec.price changes it."""


class CoolDownStatus(Mirror[CoolDown]):
    """A refusal of the cloud, and the time until which Charterer requests no node there."""

    APART = frozenset(("by",))

    kind: RefusalKind
    """The reason, such as StockOut or QuotaExceeded."""
    scope: Scope
    """The scope of the refusal."""
    where: Annotated[str, Field(max_length=253)] = ""
    """The zone, quota or group of the refusal, in the cloud's words."""
    code: Annotated[str, Field(max_length=128)] = ""
    """The cloud's own code."""
    message: Message = ""
    """The reason, in the cloud's words."""
    since: Time
    """When the cloud refused last."""
    until: Time
    """Charterer requests no node before this time."""
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of refusals in a row. Each one doubles the cool-down, up to a maximum."""

    @classmethod
    def from_domain(cls, cooled: CoolDown) -> Self:
        """The model of the cool-down."""
        return cls.copy_of(cooled, where=cooled.where[:253], code=cooled.code[:128], times=min(cooled.times, 1_000_000))


class GPUPoolRecord(PartOf[Pool]):
    """The part of the status that must survive a restart: the cloud's last answers and the pool's cool-down."""

    APART = frozenset(("machine_state",))

    offering: OfferingStatus | None = None
    """Hardware of one node, as the cloud last reported it. Used until the cloud answers again."""
    quote: QuoteStatus | None = None
    """Price of one node, as the cloud last reported it. Used until the cloud answers again."""
    cooled: Annotated[tuple[CoolDownStatus, ...], Field(max_length=KEPT, json_schema_extra=ATOMIC)] = ()
    """Recent refusals of the cloud, by the end of their cool-downs. Charterer requests no node before the last
    cool-down ends."""
    machine_state: PackedStatistics | None = None
    """The statistics behind interruptions, launches and expected waits. If this field is deleted, they are learned
    again."""

    @classmethod
    def from_domain(cls, pool: Pool) -> Self:
        """The record of the pool."""
        return cls.copy_of(pool, machine_state=packed_statistics(pool.lifetimes, pool.launches))


class PoolState(StrEnum):
    """The state of a GPUPool."""

    READY = "Ready"
    FULL = "Full"
    COOLING = "Cooling"
    GROUP_TAKEN = "GroupTaken"
    GROUP_NOT_FOUND = "GroupNotFound"
    CAPACITY_TYPE_DIFFERS = "CapacityTypeDiffers"
    NO_PRICE = "NoPrice"
    UNREACHABLE = "Unreachable"
    UNKNOWN = "Unknown"
    INVALID = "Invalid"
    STOPPED = "Stopped"
    DELETING = "Deleting"


class GPUPoolView(ApiModel):
    """The pool's present state, for people."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: PoolState | None = None
    """Ready, Full (maxNodes are rented), Cooling (the cloud refused a node), GroupTaken (another GPUPool has the same
    machines), GroupNotFound (the cloud has no such group), CapacityTypeDiffers (the group sells the other type),
    NoPrice (nobody says what a node costs), Unreachable (the cloud does not answer), Unknown (the cloud was not asked
    yet), Invalid, Stopped (a person has stopped the operator) or Deleting."""
    nodes: int | None = None
    """Number of nodes rented."""
    most_nodes: int | None = None
    """Maximum number of nodes that may be rented at a time: spec.maxNodes, or as many as the instance group takes, if
    that is less."""
    ready_nodes: int | None = None
    """Number of nodes that are ready for pods."""
    gpus_in_use: int | None = None
    """Number of GPUs allocated to jobs."""
    scarcity_price: HourlyCents | None = None
    """Dollars per hour that one more GPU would be worth on top of its price, if the pool is too small for the jobs that
    would choose it; otherwise 0. Rounded up to the cent. Jobs choose as if they paid it. Nobody pays this price."""
    launches: LaunchesStatus | None = None
    """The pool's refusals and starts, counted; absent before the first one, and if learnWaits is false."""
    interruptions: InterruptionsStatus | None = None
    """How often the cloud takes back a node: of spot pools, and of others from which a node was taken."""
    next_end: Annotated[str, Field(max_length=256)] = ""
    """The next time at which the cloud ends nodes of the pool, and how many, if that is known long before, such as the
    end of a Capacity Block or a NodeClaim's expireAfter. Jobs move away some minutes before."""
    conditions: Conditions = ()
    """Ready, with a reason such as StockOut or QuotaExceeded; PriceHeld while a price waits for confirmation;
    SpeedGuessed if no data sheet of the GPU type is known; CommitmentKept: whether the nodes of a commitment are
    rented; NodesTakePart: whether all Nodes that spec.existing selects take part; Preflight: what would fail once nodes
    are rented; Stalled while the object cannot be read."""


class GPUPoolStatus(GPUPoolView, GPUPoolRecord):
    """The cloud's last answers about the pool, and its present state."""


GPU_POOL = ResourceKind(
    kind="GPUPool",
    plural="gpupools",
    short="gpool",
    namespaced=False,
    description="A pool of equal GPU nodes that Charterer may rent: one instance group, one capacity type, one price.",
    spec=GPUPoolSpec,
    status=GPUPoolStatus,
    columns=(
        PrinterColumn("Type", ".status.offering.gpuType", description="GPU type"),
        PrinterColumn("GPUs/Node", ".status.offering.gpusPerNode", "integer"),
        PrinterColumn("Nodes", ".status.nodes", "integer", description="Nodes rented"),
        PrinterColumn("Max", ".status.mostNodes", "integer", description="Nodes that may be rented"),
        PrinterColumn("Price($/h)", ".status.quote.hourly", description="Dollars per hour of one node"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Capacity", ".spec.capacityType", wide=True),
        PrinterColumn("Ready", ".status.readyNodes", "integer", wide=True),
        PrinterColumn(
            "Scarcity",
            ".status.scarcityPrice",
            wide=True,
            description="Dollars per hour that one more GPU would be worth",
        ),
        PrinterColumn("Zone", ".status.offering.zone", wide=True),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".status.state", ".spec.capacityType"),
    root_rules=(
        Rule("size(self.metadata.name) <= 63", "metadata.name must have at most 63 characters: it becomes a label"),
    ),
)
