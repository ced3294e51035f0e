"""The node of a job that is narrower than a node: how much of it is empty, and what is paid for all of it."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.policy.explain.alternatives import Comparison


@dataclass(frozen=True, slots=True)
class JobNode:
    """A node of ``gpus`` GPUs, of which nobody uses ``empty`` while the job is there, at ``price``.

    ``rental``: which one; None for a node that starts up or is still to be rented.
    """

    rental: RentalId | None
    gpus: int
    empty: int
    price: Price


def job_node(job: Job, option: Option, budget: Comparison) -> JobNode | None:
    """The node of a job on ``option``; None for whole nodes, for slices, and where nodes are paid for in any case."""
    snapshot, allocation = budget.snapshot, job.allocation
    pool = snapshot.pools.get(option.pool)
    if pool is None or pool.quote is None or pool.committed is not None or option.slice:
        return None
    size = pool.gpus_per_node
    if option.takes >= size:
        return None
    if allocation is None:
        return JobNode(None, size, budget.placer.idle_beside(job, option), pool.quote.price)
    rental = allocation.placements[0].rental
    if rental not in snapshot.rentals:
        return None
    used = budget.solution.inputs.holdings.used.get(rental, 0)
    return JobNode(rental, size, max(size - used, 0), snapshot.rentals[rental].price)
