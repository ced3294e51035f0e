"""In which order waiting jobs are offered GPUs.

When the budget is feasible, jobs only wait for nodes to boot or for a full pool: ready GPUs go where they end the most
weighted waiting for each dollar a second they are worth, weight ÷ price (a greedy knapsack over what is ready).
When even the cheapest options exceed the budget, jobs queue for money, and weight ÷ remaining dollars is the order
that minimises the mean weighted completion time (Smith's rule in dollars; by work it is 30 % slower).
Ties go to the older job, then to the smaller uid, so that equal snapshots give equal plans.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from charterer.domain.job import Job
from charterer.domain.option import Option

QueueItem = TypeVar("QueueItem", bound=Hashable)

QueueKey = tuple[float, int, str]


def by_value(job: Job, weight: float, wanted: Option) -> QueueKey:
    """Sort key (ascending) while the budget is feasible."""
    price = wanted.price.micros_per_hour
    return (-weight / price if price else float("-inf"), job.created, job.id)


def by_dollars(job: Job, weight: float, cost: float) -> QueueKey:
    """Sort key (ascending) while the budget is too small; ``cost`` is what the job still costs, in dollars."""
    return (-weight / cost if cost else float("-inf"), job.created, job.id)


def next_in_queue(parts: Mapping[QueueItem, float], taken: Mapping[QueueItem, int]) -> QueueItem:
    """The path that the next job of a mixing class takes, given how many took each: the one most behind its fraction.

    A credit counter: after any number of jobs each of two paths is within half a job of its fraction. Ties go to the
    first.
    """
    jobs = sum(taken.get(part, 0) for part in parts) + 1
    return max(parts, key=lambda part: parts[part] * jobs - taken.get(part, 0))
