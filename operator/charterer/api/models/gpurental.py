"""GPURental: one rented node, from the intent to rent it until its cost is in the ledger. Made by Charterer only."""

from __future__ import annotations

from collections.abc import Sequence
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
    NodeHourly,
    ObjectName,
    PrinterColumn,
    ResourceKind,
    Rule,
    Time,
    cut,
    dump,
    ruled,
    rules,
    stored_bytes,
)
from charterer.api.models.clouds import ONE_CLOUD, CloudChoice
from charterer.api.models.trainingjob_status import RunNumber
from charterer.domain.cost_row import USES_KEPT, Payer, RecordedCost, Use
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.pool import CapacityType, PriceSegment
from charterer.domain.rental import SEGMENTS_KEPT, Gang, Rental, RentalPhase
from charterer.domain.time import LAST, Instant

# What a GPURental's status says of who used its GPUs, and of how much of its cost is in the record of costs.


_USER_BYTES: Final = 253
USES_BYTES: Final = 384 * 1024
"""Most bytes of the uses in a status."""


class UseStatus(ApiModel):
    """GPUs of the node that a run of a job holds or held. It stays when the job is deleted."""

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
    """Who created the job, where that is recorded."""
    labels: Labels = Field(default_factory=dict)
    """Those of the job's labels that are recorded, as they were when it got the GPUs."""
    gpus: Annotated[int, Field(ge=1, le=999_999)]
    """Number of GPUs, or of slices or places on shared GPUs."""
    since: Time
    """When the run got them."""
    until: Time | None = None
    """When it left them. Absent: it holds them."""

    @classmethod
    def from_domain(cls, use: Use) -> Self:
        """The use as it is recorded."""
        payer = use.payer
        return cls(
            namespace=payer.namespace,
            job=payer.job,
            job_uid=payer.job_uid,
            run=payer.run,
            job_class=payer.job_class,
            user=cut(payer.user, _USER_BYTES),
            labels=dict(payer.labels),
            gpus=use.gpus,
            since=use.since,
            until=use.until,
        )

    def to_domain(self) -> Use:
        """The use as it was recorded."""
        payer = Payer(self.namespace, self.job, self.job_uid, self.run, self.job_class, self.user, self.labels)
        return Use(payer, self.gpus, self.since, self.until)


def kept_uses(uses: Sequence[Use], since: Instant | None) -> tuple[tuple[UseStatus, ...], Instant | None]:
    """The uses within ``USES_BYTES``, without the oldest that ended, and since when these are all."""
    made = [(use, UseStatus.from_domain(use)) for use in uses]
    sizes = [stored_bytes(dump(status)) for _, status in made]
    excess = sum(sizes) - USES_BYTES
    dropped: set[int] = set()
    for place in sorted(range(len(made)), key=lambda place: uses[place].until or LAST):
        if excess <= 0 or (until := uses[place].until) is None:
            break
        dropped.add(place)
        since, excess = until, excess - sizes[place]
    return tuple([status for place, (_, status) in enumerate(made) if place not in dropped]), since


class RecordedStatus(ApiModel):
    """How much of what the node cost is in the record of costs."""

    through: Time
    """Up to when its cost is on record."""
    cost: Amount
    """Dollars that are on record."""
    parts: Annotated[int, Field(ge=1, le=999_999_999)]
    """Number of parts that are on record."""
    correcting: bool = False
    """Whether a correction of them is being put on record."""

    @classmethod
    def from_domain(cls, recorded: RecordedCost) -> Self:
        """The sums as they are recorded."""
        return cls(through=recorded.through, cost=recorded.cost, parts=recorded.parts, correcting=recorded.correcting)

    def to_domain(self) -> RecordedCost:
        """The sums as they were recorded."""
        return RecordedCost(self.through, self.cost, self.parts, self.correcting)


_ORDER = "{" + ", ".join(f"'{phase}': {place}" for place, phase in enumerate(RentalPhase)) + "}"

_Phase = Annotated[
    RentalPhase,
    Field(json_schema_extra=rules(Rule(f"{_ORDER}[self] >= {_ORDER}[oldSelf]", "a rental only moves forward"))),
]


class GangSpec(ApiModel):
    """Nodes that a job needs at once, of which this is one. Fewer are of no use to the job."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name that the rentals of these nodes share, and no others that exist at the same time."""
    job: Annotated[str, Field(max_length=317)]
    """The TrainingJob, as namespace/name."""
    job_uid: Annotated[str, Field(min_length=1, max_length=63)]
    """The UID of the TrainingJob."""
    nodes: Annotated[int, Field(ge=2, le=10_000)]
    """Number of new nodes that the job needs at least to start."""

    @classmethod
    def from_domain(cls, gang: Gang) -> Self:
        """The gang as it is written."""
        return cls(name=gang.name, job=gang.job_name, job_uid=gang.job, nodes=gang.nodes)

    def to_domain(self) -> Gang:
        """The gang as it was written."""
        return Gang(self.name, JobId(self.job_uid), self.job, self.nodes)


class GPURentalSpec(CloudChoice):
    """The intent to rent one node. It never changes. Cloud and capacity type are those of the GPUPool: with them the
    node can be ended also when that object is gone."""

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
    worst_hourly: Hourly
    """Maximum dollars per hour that the node can cost."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The cloud's identifier of the machine, for a machine that was not asked for."""
    gang: GangSpec | None = None
    """The nodes that a job needs at once, of which this is one. Absent: the node is useful by itself."""

    def to_domain(self, meta: ObjectMeta, record: GPURentalRecord) -> Rental:
        """The rental. That of a machine that was not asked for knows its instance before its status does."""
        instance = record.instance or self.instance
        return Rental(
            id=RentalId(meta.name),
            uid=meta.uid,
            resource_version=meta.resource_version,
            pool=PoolId(self.pool),
            cloud=self.cloud_of(meta),
            capacity_type=self.capacity_type,
            budget=BudgetId(self.budget),
            created=meta.created,
            phase=record.phase or RentalPhase.REQUESTED,
            reserved=self.reserved,
            worst=self.worst_hourly,
            billing_minimum_seconds=record.billing_minimum_seconds,
            segments=tuple(segment.to_domain() for segment in record.segments),
            instance=None if instance is None else InstanceId(instance),
            provider_id=record.provider_id,
            node=None if record.node is None else NodeName(record.node),
            launched=record.launched_at,
            ready=record.ready_at,
            ended=record.ended_at,
            missing_since=record.missing_since,
            named=record.named_at,
            cost=record.cost,
            released_because=record.released_because,
            deleting=meta.deleting,
            released=record.released_at or meta.deleted,
            held_by=record.held_by,
            gang=None if self.gang is None else self.gang.to_domain(),
            uses=tuple([use.to_domain() for use in record.uses]),
            uses_since=record.uses_since,
            recorded=None if record.recorded is None else record.recorded.to_domain(),
        )


class SegmentStatus(ApiModel):
    """The price from one time on, until the next segment or the end of the rental."""

    since: Time
    """When the price began to hold."""
    hourly: NodeHourly
    """Dollars per hour."""
    listed: NodeHourly | None = None
    """The cloud's own price, where spec.price of the GPUPool made it another."""

    @classmethod
    def from_domain(cls, segment: PriceSegment) -> Self:
        """The segment as it is recorded."""
        return cls(since=segment.since, hourly=segment.price, listed=segment.listed)

    def to_domain(self) -> PriceSegment:
        """The segment as it was recorded."""
        return PriceSegment(self.since, self.hourly, self.listed)


class GPURentalRecord(ApiModel):
    """History of the rental. Times are the cloud's."""

    phase: _Phase | None = None
    """Requested, Starting (a machine was found), Ready (the node is ready for pods), Draining (to be ended) or Ended
    (the cost is final)."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The cloud's identifier of the machine."""
    provider_id: Annotated[str, Field(max_length=512)] = ""
    """The spec.providerID of the Node."""
    node: ObjectName | None = None
    """Name of the Node."""
    launched_at: Time | None = None
    """When billing began."""
    ready_at: Time | None = None
    """When the node was first ready for pods."""
    ended_at: Time | None = None
    """When billing ended."""
    named_at: Time | None = None
    """When the cloud named the machine in its reply, which is before its list shows it."""
    missing_since: Time | None = None
    """When the cloud's list first lacked the machine. It counts as ended when a later list lacks it too."""
    segments: Annotated[tuple[SegmentStatus, ...], Field(max_length=SEGMENTS_KEPT, json_schema_extra=ATOMIC)] = ()
    """The prices at which the node is billed, oldest first."""
    billing_minimum_seconds: int = 0
    """Minimum number of seconds that the cloud bills."""
    cost: Amount | None = None
    """Dollars that the rental cost, once that is final."""
    released_because: Message = ""
    """Why the rental is ended."""
    released_at: Time | None = None
    """When it was decided to end the rental."""
    held_by: Message = ""
    """Pods of others that live on the node and keep it from being ended for now."""
    uses: Annotated[tuple[UseStatus, ...], Field(max_length=USES_KEPT, json_schema_extra=ATOMIC)] = ()
    """The runs that held GPUs of the node, in the order in which they got them."""
    uses_since: Time | None = None
    """Uses that ended before this are not listed any more. Absent: all are."""
    recorded: RecordedStatus | None = None
    """How much of the cost is in the record of costs. Absent: nothing yet, or there is no such record."""

    @classmethod
    def from_domain(cls, rental: Rental) -> Self:
        """The rental's record; of too many bytes of uses the oldest that ended are left out."""
        uses, uses_since = kept_uses(rental.uses, rental.uses_since)
        return cls(
            phase=rental.phase,
            instance=rental.instance,
            provider_id=rental.provider_id,
            node=rental.node,
            launched_at=rental.launched,
            ready_at=rental.ready,
            ended_at=rental.ended,
            missing_since=rental.missing_since,
            named_at=rental.named,
            segments=tuple(SegmentStatus.from_domain(segment) for segment in rental.segments),
            billing_minimum_seconds=rental.billing_minimum_seconds,
            cost=rental.cost,
            released_because=rental.released_because,
            released_at=rental.released,
            held_by=rental.held_by,
            uses=uses,
            uses_since=uses_since,
            recorded=None if rental.recorded is None else RecordedStatus.from_domain(rental.recorded),
        )


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
)
