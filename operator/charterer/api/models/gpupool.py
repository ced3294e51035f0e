"""GPUPool: one group of equal GPU nodes that can be rented, at one price."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from charterer.api.models.base import (
    IMMUTABLE,
    ApiModel,
    Conditions,
    Hourly,
    PrinterColumn,
    ResourceKind,
    Rule,
    Time,
    ruled,
    rules,
)


class FakeCloudGroup(ApiModel):
    """An instance group of the fake cloud (`charterer fakecloud`)."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)]
    """The base URL of its API, such as http://127.0.0.1:8080."""
    group: Annotated[str, Field(min_length=1, max_length=63)]
    """The name of the instance group."""


class PoolPrice(ApiModel):
    """What a node really costs where that is not the list price."""

    model_config = ruled(
        Rule("has(self.hourly) != has(self.adjustment)", "price needs exactly one of hourly and adjustment")
    )

    hourly: Hourly | None = None
    """Dollars that an hour of one node costs."""
    adjustment: Annotated[str, Field(pattern=r"^[+-][0-9]{1,2}(\.[0-9]{1,2})?%$", max_length=7)] | None = None
    """A discount or surcharge on the list price, such as "-10%"."""


class GPUPoolSpec(ApiModel):
    """Where nodes come from and how many there may be."""

    fake: Annotated[
        FakeCloudGroup,
        Field(
            json_schema_extra=rules(
                Rule(IMMUTABLE, "the instance group of a pool cannot change: create another GPUPool for another group")
            )
        ),
    ]
    """The instance group of the fake cloud."""
    max_nodes: Annotated[int, Field(ge=1, le=10_000)]
    """How many nodes may be rented at once: the blast radius."""
    capacity_type: Annotated[
        Literal["OnDemand", "Spot"],
        Field(
            json_schema_extra=rules(
                Rule(IMMUTABLE, "the capacityType of a pool cannot change: create another GPUPool for the other type")
            )
        ),
    ] = "OnDemand"
    """How the cloud sells the nodes. Spot nodes can be taken back: only jobs with spotPolicy Allowed run there."""
    price: PoolPrice | None = None
    """What a node really costs; absent: the cloud's list price."""
    start_seconds: Annotated[int, Field(ge=0, le=86_400)] = 120
    """Seconds from asking for a node until it takes pods."""
    cooldown_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    """Seconds for which the pool is not asked for nodes after the cloud had none or a quota was used up."""


class GPUPoolRecord(ApiModel):
    """What must survive a restart."""

    cooled_until: Time | None = None
    """No node is asked for before."""
    cooled_because: Annotated[str, Field(max_length=128)] = ""
    """Why, in one word: StockOut, QuotaExceeded."""
    cooled_message: Annotated[str, Field(max_length=4096)] = ""
    """Why, in the cloud's words."""


class PoolOffering(ApiModel):
    """What one node of the pool is."""

    gpu_type: Annotated[str, Field(max_length=253)]
    """As in the node label nvidia.com/gpu.product."""
    gpus_per_node: int
    """GPUs of one node."""
    instance_type: Annotated[str, Field(max_length=253)]
    """The cloud's name for the machine."""
    zone: Annotated[str, Field(max_length=253)]
    """Where the machines are."""


class PoolQuote(ApiModel):
    """The price of one node."""

    hourly: Hourly
    """Dollars an hour."""
    worst_hourly: Hourly
    """Dollars an hour that a node launched now can cost at most."""
    billing_minimum_seconds: int
    """Seconds that are billed at least."""
    source: Annotated[str, Field(max_length=253)]
    """Where the price comes from."""
    as_of: Time
    """When it was asked."""


class GPUPoolView(ApiModel):
    """What Charterer knows of the pool now."""

    observed_generation: int | None = None
    """The generation of the spec that the rest was judged by."""
    state: str | None = None
    """One word for the state column."""
    offering: PoolOffering | None = None
    """What one node is, as discovered from the cloud."""
    quote: PoolQuote | None = None
    """What one node costs."""
    nodes: int | None = None
    """Nodes rented."""
    ready_nodes: int | None = None
    """Nodes that take pods."""
    gpus_in_use: int | None = None
    """GPUs allocated to jobs."""
    scarcity_price: Hourly | None = None
    """Dollars that an hour of one more GPU would be worth on top of its bill, where the pool is too small for what jobs
    would choose; 0 where it is not. Jobs choose as if they paid it; nobody does."""
    conditions: Conditions = ()
    """Ready, with a reason such as StockOut or QuotaExceeded."""


class GPUPoolStatus(GPUPoolView, GPUPoolRecord):
    """What was discovered of the pool and what is rented in it."""


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
        PrinterColumn("Max", ".spec.maxNodes", "integer"),
        PrinterColumn("Price", ".status.quote.hourly", description="Dollars an hour for one node"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Capacity", ".spec.capacityType", wide=True),
        PrinterColumn("Ready", ".status.readyNodes", "integer", wide=True),
        PrinterColumn(
            "Scarcity", ".status.scarcityPrice", wide=True, description="What an hour of one more GPU would be worth"
        ),
        PrinterColumn("Zone", ".status.offering.zone", wide=True),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    root_rules=(
        Rule("size(self.metadata.name) <= 63", "metadata.name must have at most 63 characters: it becomes a label"),
    ),
)
