"""A snapshot for a command with read access only. No cloud is called, and nothing is written or watched.

Surveys are made from the pools' status, which has their offerings and prices, and from the GPURentals. The snapshot
lacks what only the clouds' lists show, such as launches without a rental and notices of spot nodes. The snapshot is at
most as old as the last status that the operator wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from charterer.api.decode import ForeignJob, ForeignWorker
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.resync import Resync
from charterer.cluster.store import Store
from charterer.controller.snapshot.cluster_state import ClusterState, cluster_state
from charterer.controller.snapshot.observe import observe
from charterer.domain.cost_row import CostRecording
from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.order import Traits
from charterer.domain.pool import Instance, InstanceState, Offering, Pool, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Findings
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.workloads import ALL_KINDS

_TRAITS = Traits(named=True, keeps_trying=False, together=False, lag_seconds=0.0, listed_seconds=0.0)
_STATES = {
    RentalPhase.STARTING: InstanceState.PENDING,
    RentalPhase.READY: InstanceState.RUNNING,
    RentalPhase.DRAINING: InstanceState.RUNNING,
    RentalPhase.ENDED: InstanceState.ENDED,
}


async def read_cluster(client: Client) -> ClusterState:
    """List everything once. Raises ApiError: Forbidden names what may not be listed, NotFound a CRD that is missing."""
    store = Store(ALL_KINDS)
    await Resync(client, store).once()
    return cluster_state(
        store,
        surveys={},
        quotes={},
        refusals={},
        progress={},
        warnings={},
        volumes={},
        findings=Findings(),
        cost_recording=CostRecording(
            users=True
        ),  # a budget's condition UsersKnown says whether the operator knows them
    )


@dataclass(frozen=True, slots=True)
class OtherJobs:
    """The Jobs and pods with GPUs that run in the cluster without Charterer."""

    jobs: tuple[ForeignJob, ...] = ()
    workers: tuple[ForeignWorker, ...] = ()


async def read_other_jobs(client: Client) -> OtherJobs:
    """List once the Jobs and pods that are not Charterer's. Raises ApiError."""
    store = Store(kinds.WITHOUT_CHARTERER)
    await Resync(client, store).once()
    return OtherJobs(
        tuple(store.view(kinds.FOREIGN_JOBS).objects.values()),
        tuple(store.view(kinds.FOREIGN_WORKERS).objects.values()),
    )


def snapshot_of(state: ClusterState, now: Instant) -> Snapshot:
    """The snapshot of a cluster that was read. A pool without a recorded offering has no survey."""
    snapshot = observe(state, now)
    return replace(snapshot, surveys=surveys(snapshot.pools, snapshot.rentals.values(), now))


def surveys(pools: Mapping[PoolId, Pool], rentals: Iterable[Rental], now: Instant) -> Mapping[PoolId, Survey]:
    """The surveys that the clouds would answer, as far as the rentals show."""
    instances: dict[PoolId, list[Instance]] = {name: [] for name in pools}
    for rental in rentals:
        if rental.pool in instances and rental.instance is not None and rental.launched is not None:
            instances[rental.pool].append(_instance(rental, rental.instance, rental.launched))
    offerings = {name: pool.offering for name, pool in pools.items() if pool.offering is not None}
    return {name: _survey(name, offering, instances[name], now) for name, offering in offerings.items()}


def _survey(pool: PoolId, offering: Offering, instances: list[Instance], now: Instant) -> Survey:
    return Survey(
        pool=pool,
        target=sum(instance.state is not InstanceState.ENDED for instance in instances),
        ordered=frozenset(),
        instances=tuple(instances),
        refusals=(),
        notices=(),
        asked=now,
        traits=_TRAITS,
        offering=offering,
    )


def _instance(rental: Rental, name: InstanceId, launched: Instant) -> Instance:
    return Instance(
        id=name,
        state=_STATES.get(rental.phase, InstanceState.PENDING),
        provider_id=rental.provider_id,
        node=rental.node,
        launched=launched,
        ended=rental.ended,
        segments=rental.segments,
        billing_minimum_seconds=rental.billing_minimum_seconds,
    )
