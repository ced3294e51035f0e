"""The cluster's GPUPools as a simulation has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.simulate.model.node_market import PoolModel

_FEWEST_STARTS = 3
"""Rentals from which on a pool's start-up time is their median; with fewer it is what the GPUPool declares."""


def pool_models(snapshot: Snapshot) -> Mapping[PoolId, PoolModel]:
    """Models of the pools whose nodes can be rented, with a known offering and price."""
    models = {}
    for name, pool in snapshot.pools.items():
        offering, quote = pool.offering, pool.quote
        if offering is None or quote is None:
            continue
        models[name] = PoolModel(
            name=name,
            gpus_per_node=offering.gpus_per_node,
            hourly=quote.price,
            gpu_type=offering.gpu_type,
            start_seconds=_start_seconds(pool, snapshot.rentals.values()),
            max_nodes=pool.max_nodes,
            billing_minimum_seconds=quote.billing_minimum_seconds,
            capacity_type=pool.capacity_type,
        )
    return models


def _start_seconds(pool: Pool, rentals: Iterable[Rental]) -> float:
    took = [
        seconds_between(rental.created, rental.ready)
        for rental in rentals
        if rental.pool == pool.id and rental.ready is not None
    ]
    return max(median(took), 0.0) if len(took) >= _FEWEST_STARTS else pool.start_seconds
