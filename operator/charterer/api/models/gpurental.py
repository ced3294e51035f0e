"""GPURental: one rented node, from the intent to rent it until its cost is in the ledger. Made by Charterer only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from charterer.api.models.base import (
    ATOMIC,
    IMMUTABLE,
    Amount,
    ApiModel,
    Hourly,
    ObjectName,
    PrinterColumn,
    ResourceKind,
    Rule,
    Time,
    ruled,
    rules,
)
from charterer.domain.rental import RentalPhase

_ORDER = "{" + ", ".join(f"'{phase}': {place}" for place, phase in enumerate(RentalPhase)) + "}"

_Phase = Annotated[
    RentalPhase,
    Field(json_schema_extra=rules(Rule(f"{_ORDER}[self] >= {_ORDER}[oldSelf]", "a rental only moves forward"))),
]


class GPURentalSpec(ApiModel):
    """The intent to rent one node. It never changes."""

    model_config = ruled(Rule(IMMUTABLE, "the spec of a GPURental never changes: it is what was decided and reserved"))

    pool: ObjectName
    """The GPUPool the node comes from."""
    budget: ObjectName
    """The GPUBudget that pays for it, fixed at its birth."""
    reserved: Amount
    """Dollars held back from the budget's hard limit until the rental has ended: its worst case."""
    worst_hourly: Hourly
    """Dollars an hour it can cost at most."""
    token: Annotated[str, Field(max_length=128)] = ""
    """Makes a repeated request to the cloud the same request."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The instance, where the cloud had one that nobody had asked for."""


class SegmentStatus(ApiModel):
    """A price and since when."""

    since: Time
    """From this time on, until the next segment or the end, ..."""
    hourly: Hourly
    """... it costs this many dollars an hour."""


class GPURentalRecord(ApiModel):
    """What has happened, in the cloud's times."""

    phase: _Phase | None = None
    """Requested, Starting (an instance is adopted), Ready, Draining, Ended (the cost is final)."""
    instance: Annotated[str, Field(max_length=253)] | None = None
    """The cloud's identifier of the machine."""
    provider_id: Annotated[str, Field(max_length=512)] = ""
    """As in the Node's spec.providerID."""
    node: ObjectName | None = None
    """The name of its Node."""
    launched_at: Time | None = None
    """When billing began."""
    ready_at: Time | None = None
    """When the node first took pods."""
    ended_at: Time | None = None
    """When billing ended."""
    segments: Annotated[tuple[SegmentStatus, ...], Field(max_length=2_000, json_schema_extra=ATOMIC)] = ()
    """The prices it was billed at."""
    billing_minimum_seconds: int = 0
    """Seconds that are billed at least."""
    cost: Amount | None = None
    """Dollars it has cost, once that is final."""
    released_because: Annotated[str, Field(max_length=4096)] = ""
    """Why it is ended."""


class GPURentalStatus(GPURentalRecord):
    """What has happened to the node, in the cloud's times."""


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
        PrinterColumn("Hourly", ".status.segments[-1:].hourly", description="Dollars an hour at its last price"),
        PrinterColumn("Cost", ".status.cost", description="Dollars, once final"),
        PrinterColumn("Instance", ".status.instance", wide=True),
        PrinterColumn("Reserved", ".spec.reserved", wide=True),
        PrinterColumn("Because", ".status.releasedBecause", wide=True),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
)
