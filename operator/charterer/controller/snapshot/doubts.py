"""What is not believed of the allocations in the statuses of jobs.

Only Charterer writes allocations, but whoever is given the right to update trainingjobs/status may write one too. An
allocation that cannot be Charterer's holds no GPUs, and the job is planned anew. Where pods of the job's own run are on
a node, what they hold is a fact and nothing is doubted: the namespace of a running job may have been given to another
budget meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId, NodeName, PoolId
from charterer.domain.job import Allocation, Doubt, Job, Run
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, after, format_instant

_AHEAD_SECONDS = 3600.0
"""Seconds by which the clock may have been set back since an allocation was decided on."""


class Suspicion(NamedTuple):
    """A doubt that pods of the job's own on ``node`` would dispel; None where no node ever came."""

    doubt: Doubt
    node: NodeName | None


def suspicions(
    jobs: Mapping[ObjectKey, DecodedJob],
    rentals: Mapping[ObjectKey, Rental],
    budgets: Mapping[ObjectKey, Budget],
    payers: Mapping[str, Budget],
    pools: Mapping[PoolId, Pool],
    now: Instant,
) -> Mapping[JobId, tuple[Suspicion, ...]]:
    """The rentals in allocations that cannot be the job's, by job; only jobs that have some.

    A rental that is not there holds no GPUs and is none of them: it may not have been seen yet. Nor is one whose budget
    is not there, or cannot be read now: nothing is planned for its node.
    """
    found: dict[JobId, tuple[Suspicion, ...]] = {}
    limit = after(now, _AHEAD_SECONDS)
    for decoded in jobs.values():
        job = decoded.job
        if job.allocation is None and not job.replaced:
            continue
        payer = payers.get(job.namespace)
        named = (*job.replaced, job.allocation) if job.allocation is not None else job.replaced
        doubted = [item for allocation in named for item in _of(allocation, payer, rentals, budgets, pools, limit)]
        if doubted:
            found[job.id] = tuple(dict.fromkeys(doubted))
    return found


def _of(
    allocation: Allocation,
    payer: Budget | None,
    rentals: Mapping[ObjectKey, Rental],
    budgets: Mapping[ObjectKey, Budget],
    pools: Mapping[PoolId, Pool],
    limit: Instant,
) -> Iterable[Suspicion]:
    gpus: dict[ObjectKey, int] = {}
    for place in allocation.placements:
        key = ObjectKey("", place.rental)
        gpus[key] = gpus.get(key, 0) + place.gpus
    for key, held in gpus.items():
        rental = rentals.get(key)
        if rental is None:
            continue
        pool = pools.get(rental.pool)
        size = None if pool is None or pool.offering is None else pool.offering.gpus_per_node
        if ObjectKey("", rental.budget) in budgets and (payer is None or rental.budget != payer.id):
            pays = "no GPUBudget pays" if payer is None else f"GPUBudget {payer.id} pays"
            why = f"GPURental {rental.id} belongs to GPUBudget {rental.budget}, and {pays} for the job's namespace"
        elif size is not None and held > size:
            why = f"it names {held} GPUs of GPURental {rental.id}, whose node has {size}"
        elif allocation.since > limit:
            why = f"it was decided at {format_instant(allocation.since)[:19]}Z, which is yet to come"
        else:
            continue
        yield Suspicion(Doubt(rental.id, f"the allocation of run {allocation.run} is not believed: {why}"), rental.node)


def doubts(job: Job, runs: Iterable[Run], suspected: tuple[Suspicion, ...]) -> tuple[Doubt, ...]:
    """Those that no pod of the job's runs dispels. Pods of a recorded run dispel none: it has left its GPUs."""
    recorded = {record.number for record in job.records}
    nodes = {pod.node for run in runs if run.number not in recorded for pod in run.pods}
    return tuple(doubt for doubt, node in suspected if node is None or node not in nodes)


def not_believed(jobs: Mapping[JobId, Job], suspected: Iterable[JobId]) -> Iterable[Problem]:
    """Problems of jobs whose allocations are not believed."""
    for name in suspected:
        job = jobs[name]
        for doubt in job.doubts[:1]:
            message = f"{doubt.why}; it holds no GPUs, and the job is planned anew"
            field, reason = "status.allocation", ReasonCode.NOT_BELIEVED.value
            yield Problem("TrainingJob", job.namespace, job.name, field, reason, message)
