"""GPURental: one rented node, from the intent to rent it until its cost is in the ledger. Only Charterer creates it."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    ATOMIC,
    IMMUTABLE,
    Amount,
    ApiModel,
    Hourly,
    Labels,
    Message,
    Mirror,
    Named,
    NodeHourly,
    ObjectName,
    PartOf,
    PrinterColumn,
    ResourceKind,
    Rule,
    Time,
    cut,
    dump,
    joined,
    ruled,
    rules,
    stored_bytes,
)
from charterer.api.models.clouds import CLOUD_FIELDS, ONE_CLOUD, CloudChoice
from charterer.api.models.trainingjob_status import RunNumber
from charterer.domain.budget import JobTime
from charterer.domain.cost_row import SPELLS_KEPT, USES_KEPT, WHOLE, Payer, RecordedCost, Spell, Use
from charterer.domain.ids import RentalId
from charterer.domain.pool import CapacityType, PriceSegment
from charterer.domain.rental import SEGMENTS_KEPT, Gang, Rental, RentalPhase
from charterer.domain.time import LAST

# The users of a GPURental's GPUs, and the part of its cost that is in the record of costs.


_USER_BYTES: Final = 253
USES_BYTES: Final = 384 * 1024
"""Maximum bytes of the uses in a status."""


_Thousandths = Annotated[int, Field(ge=0, le=WHOLE)] | None


class SpellStatus(ApiModel):
    """How the GPUs of a run spent their time between since and the next entry, in thousandths. Time in no field is
    unknown."""

    since: Time
    """When it began."""
    trained: _Thousandths = None
    """The job advanced."""
    run_start: _Thousandths = None
    """The run had not trained yet."""
    redone: _Thousandths = None
    """The run repeated work of an earlier run."""
    slow: _Thousandths = None
    """Other workers waited for a slow node."""
    starved: _Thousandths = None
    """GPUs waited for input."""
    waiting_for_peers: _Thousandths = None
    """Ranks waited for each other."""
    no_cell: _Thousandths = None
    """No cell of an interactive job ran."""
    kept_empty: _Thousandths = None
    """GPUs of the node that stay empty beside those of the run."""

    @classmethod
    def from_domain(cls, spell: Spell) -> Self:
        """The model of the spell."""
        return cls(since=spell.since, **{kind.value: part for kind, part in spell.parts})

    def to_domain(self) -> Spell:
        """The domain value of the spell."""
        parts = ((kind, getattr(self, kind.value)) for kind in JobTime)
        return Spell(self.since, tuple([(kind, part) for kind, part in parts if part]))


class UseStatus(PartOf[Use | Payer]):
    """GPUs of the node that a run of a job holds or held. The entry stays if the job is deleted."""

    APART = frozenset(("payer",))

    namespace: ObjectName
    """Namespace of the TrainingJob."""
    job: ObjectName
    """Name of the TrainingJob."""
    job_uid: Annotated[str, Field(min_length=1, max_length=63)]
    """UID of the TrainingJob."""
    run: RunNumber
    """Number of the run."""
    job_class: Annotated[str, Field(max_length=507)] = ""
    """The class of the run, as namespace/name of its SpeedupProfile. Absent: the job names none."""
    user: Annotated[str, Field(max_length=_USER_BYTES)] = ""
    """The user who created the job, if users are recorded."""
    labels: Labels = Field(default_factory=dict)
    """The recorded labels of the job, as they were when the job got the GPUs."""
    gpus: Annotated[int, Field(ge=1, le=999_999)]
    """Number of GPUs, or of slices or places on shared GPUs."""
    since: Time
    """When the run got the GPUs."""
    until: Time | None = None
    """When the run left the GPUs. Absent: the run still holds them."""
    spells: Annotated[tuple[SpellStatus, ...], Field(max_length=SPELLS_KEPT, json_schema_extra=ATOMIC)] = ()
    """How the GPUs spent their time, in order of time. Their use is unknown before the first entry."""

    @classmethod
    def from_domain(cls, use: Use) -> Self:
        """The model of the use."""
        return cls.copy_of(use.payer, use, user=cut(use.payer.user, _USER_BYTES))

    def to_domain(self) -> Use:
        """The domain value of the use."""
        payer = Payer(self.namespace, self.job, self.job_uid, self.run, self.job_class, self.user, self.labels)
        return Use(payer, self.gpus, self.since, self.until, tuple([spell.to_domain() for spell in self.spells]))


def with_fitting_uses(rental: Rental) -> Rental:
    """The rental with the uses that fit into ``USES_BYTES``. The uses that ended first are dropped."""
    sizes = [(use, stored_bytes(dump(UseStatus.from_domain(use)))) for use in rental.uses]
    excess = sum([size for _, size in sizes]) - USES_BYTES
    dropped = list[Use]()
    for use, size in sorted(sizes, key=lambda each: each[0].until or LAST):
        if excess <= 0 or use.until is None:
            break
        dropped.append(use)
        excess -= size
    return rental.without_uses(dropped) if dropped else rental


class RecordedStatus(Mirror[RecordedCost]):
    """The part of the node's cost that is in the record of costs."""

    through: Time
    """The time up to which the cost is on record."""
    cost: Amount
    """Dollars that are on record."""
    parts: Annotated[int, Field(ge=1, le=999_999_999)]
    """Number of parts that are on record."""
    correcting: bool = False
    """Whether a correction of these parts is being recorded."""


_ORDER = "{" + ", ".join(f"'{phase}': {place}" for place, phase in enumerate(RentalPhase)) + "}"

_Phase = Annotated[
    RentalPhase,
    Field(json_schema_extra=rules(Rule(f"{_ORDER}[self] >= {_ORDER}[oldSelf]", "a rental only moves forward"))),
]


class GangSpec(Mirror[Gang]):
    """Nodes that a job needs at once, of which this is one. Fewer are of no use to the job."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name that only the rentals of these nodes share, among all that exist at the same time."""
    job: Annotated[str, Field(max_length=317), Named("job_name")]
    """The TrainingJob, as namespace/name."""
    job_uid: Annotated[str, Field(min_length=1, max_length=63), Named("job")]
    """The UID of the TrainingJob."""
    nodes: Annotated[int, Field(ge=2, le=10_000)]
    """Number of new nodes that the job needs at least to start."""


class GPURentalSpec(CloudChoice, PartOf[Rental]):
    """The intent to rent one node. It never changes. Cloud and capacity type are copied from the GPUPool, so that the
    node can be ended even after that object is gone."""

    APART = frozenset((*CLOUD_FIELDS, "instance"))

    model_config = ruled(
        Rule(IMMUTABLE, "the spec of a GPURental never changes: it is what was decided and reserved"), ONE_CLOUD
    )

    pool: ObjectName
    """Name of the GPUPool that the node comes from."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """The capacity type of the GPUPool."""
    budget: ObjectName
    """Name of the GPUBudget that pays for the node. It never changes."""
    reserved: Amount
    """Dollars held back from the budget's hard limit until the rental has ended: its worst-case cost."""
    worst_hourly: Annotated[Hourly, Named("worst")]
    """Maximum dollars per hour that the node can cost."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The cloud's identifier of the machine, if no rental had requested the machine."""
    gang: GangSpec | None = None
    """The nodes that a job needs at once, of which this is one. Absent: the node is useful by itself."""

    def to_domain(self, meta: ObjectMeta, record: GPURentalRecord) -> Rental:
        """The rental. The spec names an instance that was not requested, even before the status does."""
        return joined(
            Rental,
            meta,
            self,
            record,
            id=RentalId(meta.name),
            cloud=self.cloud_of(meta),
            phase=record.phase or RentalPhase.REQUESTED,
            instance=record.instance or self.instance,
            released=record.released_at or meta.deleted,
        )


class SegmentStatus(Mirror[PriceSegment]):
    """The price from one time on, until the next segment or the end of the rental."""

    since: Time
    """When the price began to hold."""
    hourly: Annotated[NodeHourly, Named("price")]
    """Dollars per hour."""
    listed: NodeHourly | None = None
    """The cloud's own price, if spec.price of the GPUPool changes it."""


class GPURentalRecord(PartOf[Rental]):
    """History of the rental. Times are the cloud's."""

    APART = frozenset(("phase",))

    phase: _Phase | None = None
    """Requested, Starting (a machine was found), Ready (the node is ready for pods), Draining (to be ended) or Ended
    (the cost is final)."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The cloud's identifier of the machine."""
    provider_id: Annotated[str, Field(max_length=512)] = ""
    """The spec.providerID of the Node."""
    node: ObjectName | None = None
    """Name of the Node."""
    launched_at: Annotated[Time | None, Named("launched")] = None
    """When billing began."""
    ready_at: Annotated[Time | None, Named("ready")] = None
    """When the node was first ready for pods."""
    ended_at: Annotated[Time | None, Named("ended")] = None
    """When billing ended."""
    named_at: Annotated[Time | None, Named("named")] = None
    """When the cloud named the machine in its reply, which is before its list shows it."""
    missing_since: Time | None = None
    """When the cloud's list first lacked the machine. The machine counts as ended if a later list lacks it too."""
    segments: Annotated[tuple[SegmentStatus, ...], Field(max_length=SEGMENTS_KEPT, json_schema_extra=ATOMIC)] = ()
    """The prices at which the node is billed, oldest first."""
    billing_minimum_seconds: int = 0
    """Minimum number of seconds that the cloud bills."""
    cost: Amount | None = None
    """Dollars that the rental cost, once that is final."""
    released_because: Message = ""
    """Why the rental is ended."""
    released_at: Annotated[Time | None, Named("released")] = None
    """When it was decided to end the rental."""
    held_by: Message = ""
    """Pods of others that live on the node and keep it from being ended for now."""
    uses: Annotated[tuple[UseStatus, ...], Field(max_length=USES_KEPT, json_schema_extra=ATOMIC)] = ()
    """The runs that held GPUs of the node, in the order in which they got them."""
    uses_since: Time | None = None
    """Uses that ended before this are not listed any more. Absent: all are."""
    recorded: RecordedStatus | None = None
    """How much of the cost is in the record of costs. Absent: nothing yet, or there is no such record."""
    gpu_type: Annotated[str, Field(max_length=253)] = ""
    """GPU type of the node when a run first held its GPUs."""
    dropped_gpu_time: Annotated[int, Field(ge=0)] = 0
    """GPU-microseconds since droppedFrom of the runs that are not listed in uses any more."""
    dropped_from: Time | None = None
    """When the budget's period began in which droppedGpuTime is counted. Absent: all of them count."""

    @classmethod
    def from_domain(cls, rental: Rental) -> Self:
        """The record of the rental. If the uses have too many bytes, those that ended first are dropped."""
        return cls.copy_of(with_fitting_uses(rental), phase=rental.phase)


class GPURentalStatus(GPURentalRecord):
    """History of the rented node. Times are the cloud's."""


GPU_RENTAL = ResourceKind(
    kind="GPURental",
    plural="gpurentals",
    short="grent",
    namespaced=False,
    description="One rented GPU node. Charterer writes it before it asks the cloud; nobody else should write it.",
    spec=GPURentalSpec,
    status=GPURentalStatus,
    columns=(
        PrinterColumn("Pool", ".spec.pool"),
        PrinterColumn("Budget", ".spec.budget"),
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Node", ".status.node"),
        PrinterColumn("Price($/h)", ".status.segments[-1:].hourly", description="Dollars per hour at the latest price"),
        PrinterColumn("Cost($)", ".status.cost", description="Dollars, once final"),
        PrinterColumn("Instance", ".status.instance", wide=True),
        PrinterColumn("Reserved($)", ".spec.reserved", wide=True),
        PrinterColumn("Gang", ".spec.gang.job", wide=True, description="Job that needs several nodes at once"),
        PrinterColumn("Because", ".status.releasedBecause", wide=True),
        PrinterColumn("Held by", ".status.heldBy", wide=True, description="Pods of others on a node to be ended"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".spec.pool", ".spec.budget", ".status.phase", ".status.node"),
)
