"""Everything of a store as it is now, with what clouds, dry runs and pods told, as one Seen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.snapshot.observe import ClusterState
from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import Progress
from charterer.domain.pool import Quote, Survey
from charterer.workloads import INDEXED_JOB


def cluster_state(
    store: Store,
    *,
    surveys: Mapping[PoolId, Survey],
    quotes: Mapping[PoolId, Quote],
    refusals: Mapping[JobId, str | None],
    progress: Mapping[JobId, Progress],
) -> ClusterState:
    """The store's objects and problems; the rest as given, see Seen."""
    view = store.view
    return ClusterState(
        jobs=view(kinds.TRAINING_JOBS).objects,
        profiles=view(kinds.SPEEDUP_PROFILES).objects,
        budgets=view(kinds.GPU_BUDGETS).objects,
        pools=view(kinds.GPU_POOLS).objects,
        rentals=view(kinds.GPU_RENTALS).objects,
        runs=view(INDEXED_JOB.kind).objects,
        pods=view(kinds.PODS).objects,
        nodes=view(kinds.NODES).objects,
        namespaces=view(kinds.NAMESPACES).objects,
        services=view(kinds.SERVICES).objects,
        problems=tuple(chain.from_iterable(view(kind).problems.values() for kind in store.kinds)),
        surveys=surveys,
        quotes=quotes,
        refusals=refusals,
        progress=progress,
    )
