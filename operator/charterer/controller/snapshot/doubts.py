"""Doubts about the allocations in the statuses of jobs.

Only Charterer writes allocations, but whoever is given the right to update trainingjobs/status may write one too. An
allocation that cannot be Charterer's holds no GPUs, and the job is planned anew. Where pods of the job's own run are on
a node, what they hold is a fact and nothing is doubted: the namespace of a running job may have been given to another
budget meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Run
from charterer.domain.jobs.doubt import Doubt
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, after, format_second

_AHEAD_SECONDS = 3600.0
"""Seconds by which the clock may have been set back since an allocation was decided on."""


class Suspicion(NamedTuple):
    """A doubt that pods of the job's own on ``node`` would dispel; None where no node ever came."""

    doubt: Doubt
    node: NodeName | None


class RentedNode(NamedTuple):
    """The facts of a rental by which allocations on it are judged.

    ``budget``: None where it is not there, or cannot be read now: nothing is planned for its node. ``gpus`` of the
    node, None where they are not known.
    """

    budget: BudgetId | None
    node: NodeName | None
    gpus: int | None


def rented_nodes(
    rentals: Mapping[ObjectKey, Rental], budgets: Mapping[ObjectKey, Budget], pools: Mapping[PoolId, Pool]
) -> Mapping[RentalId, RentedNode]:
    """All rentals. One that is not there is suspected of nothing: it may not have been seen yet."""
    sizes = {pool.id: pool.offering.gpus_per_node for pool in pools.values() if pool.offering is not None}
    known = {budget.id for budget in budgets.values()}
    return {
        rental.id: RentedNode(rental.budget if rental.budget in known else None, rental.node, sizes.get(rental.pool))
        for rental in rentals.values()
    }


def suspicions(
    decoded: DecodedJob, clock: Instant | None, payers: Mapping[str, Budget], nodes: Mapping[RentalId, RentedNode]
) -> tuple[Suspicion, ...]:
    """The rentals in a job's allocations that cannot be the job's.

    ``clock``: the time, where some time on the job's record is yet to come.
    """
    job = decoded.job
    if job.allocation is None and not job.replaced:
        return ()
    payer = payers.get(job.namespace)
    limit = None if clock is None else after(clock, _AHEAD_SECONDS)
    named = job.replaced if job.allocation is None else (*job.replaced, job.allocation)
    return tuple(dict.fromkeys([found for allocation in named for found in _of(allocation, payer, nodes, limit)]))


def _of(
    allocation: Allocation, payer: Budget | None, nodes: Mapping[RentalId, RentedNode], limit: Instant | None
) -> Iterable[Suspicion]:
    held = Counter[RentalId]()
    for place in allocation.placements:
        held[place.rental] += place.takes
    for rental, gpus in held.items():
        rented = nodes.get(rental)
        if rented is None:
            continue
        if rented.budget is not None and (payer is None or rented.budget != payer.id):
            pays = "no GPUBudget pays" if payer is None else f"GPUBudget {payer.id} pays"
            why = f"GPURental {rental} belongs to GPUBudget {rented.budget}, and {pays} for the job's namespace"
        elif rented.gpus is not None and gpus > rented.gpus:
            why = f"it names {gpus} GPUs of GPURental {rental}, whose node has {rented.gpus}"
        elif limit is not None and allocation.since > limit:
            why = f"it was decided at {format_second(allocation.since)}, which is yet to come"
        else:
            continue
        yield Suspicion(Doubt(rental, f"the allocation of run {allocation.run} is not believed: {why}"), rented.node)


def doubts(job: Job, runs: Iterable[Run], suspected: tuple[Suspicion, ...]) -> tuple[Doubt, ...]:
    """Those that no pod of the job's runs dispels. Pods of a recorded run dispel none: it has left its GPUs."""
    recorded = {record.number for record in job.records}
    nodes = {pod.node for run in runs if run.number not in recorded for pod in run.pods}
    return tuple(doubt for doubt, node in suspected if node is None or node not in nodes)


def not_believed(jobs: Mapping[JobId, Job]) -> Sequence[Problem]:
    """Problems of jobs whose allocations are not believed."""
    return [_problem(job) for job in jobs.values() if job.doubts]


def _problem(job: Job) -> Problem:
    message = f"{job.doubts[0].why}; it holds no GPUs, and the job is planned anew"
    field, reason = "status.allocation", ReasonCode.NOT_BELIEVED.value
    return Problem("TrainingJob", job.namespace, job.name, field, reason, message)
