"""Decoding GPUPools and GPURentals."""

from __future__ import annotations

from decimal import Decimal

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models import gpupool, gpurental
from charterer.api.names import FINALIZER_IN_USE
from charterer.domain.ids import BudgetId, InstanceId, NodeName, PoolId, RentalId
from charterer.domain.pool import CapacityType, FakeGroup, Offering, Pool, PriceSegment, Quote
from charterer.domain.rental import Rental, RentalPhase


class _PoolStatus(gpupool.GPUPoolRecord):
    """The record, and what was last heard from the cloud: it serves until the cloud answers again."""

    offering: gpupool.PoolOffering | None = None
    quote: gpupool.PoolQuote | None = None


def pool(raw: Raw) -> Pool:
    """A GPUPool, with the offering and the quote that its status shows."""
    meta = ObjectMeta.of("GPUPool", raw)
    spec = meta.read(gpupool.GPUPoolSpec, "spec", raw)
    status = meta.read(_PoolStatus, "status", raw)
    price = spec.price or gpupool.PoolPrice()
    return Pool(
        id=PoolId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        cloud=FakeGroup(spec.fake.endpoint, spec.fake.group),
        max_nodes=spec.max_nodes,
        capacity_type=CapacityType(spec.capacity_type),
        start_seconds=float(spec.start_seconds),
        cooldown_seconds=float(spec.cooldown_seconds),
        price_override=price.hourly,
        offering=None if status.offering is None else _offering(status.offering),
        quote=None if status.quote is None else _quote(status.quote),
        cooled_until=status.cooled_until,
        cooled_because=status.cooled_because,
        deleting=meta.deleting,
        guarded=FINALIZER_IN_USE in meta.finalizers,
        price_adjustment=_basis_points(price.adjustment or "0%"),
        cooled_message=status.cooled_message,
    )


def _basis_points(percent: str) -> int:
    return int(Decimal(percent.removesuffix("%")) * 100)


def _offering(status: gpupool.PoolOffering) -> Offering:
    return Offering(status.gpu_type, status.gpus_per_node, status.instance_type, status.zone)


def _quote(status: gpupool.PoolQuote) -> Quote:
    return Quote(status.hourly, status.worst_hourly, status.billing_minimum_seconds, status.source, status.as_of)


def rental(raw: Raw) -> Rental:
    """A GPURental; one that was made for an instance nobody had asked for knows it before its status does."""
    meta = ObjectMeta.of("GPURental", raw)
    spec = meta.read(gpurental.GPURentalSpec, "spec", raw)
    status = meta.read(gpurental.GPURentalRecord, "status", raw)
    instance = status.instance or spec.instance
    return Rental(
        id=RentalId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        pool=PoolId(spec.pool),
        budget=BudgetId(spec.budget),
        created=meta.created,
        phase=status.phase or RentalPhase.REQUESTED,
        reserved=spec.reserved,
        worst=spec.worst_hourly,
        billing_minimum_seconds=status.billing_minimum_seconds,
        segments=tuple(PriceSegment(one.since, one.hourly) for one in status.segments),
        instance=None if instance is None else InstanceId(instance),
        provider_id=status.provider_id,
        node=None if status.node is None else NodeName(status.node),
        launched=status.launched_at,
        ready=status.ready_at,
        ended=status.ended_at,
        cost=status.cost,
        released_because=status.released_because,
        deleting=meta.deleting,
    )
