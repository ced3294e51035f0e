"""Domain objects with every field filled in: a test passes as keywords only the fields that matter to it.

All objects fit together: one budget, one pool of nodes with four GPUs, times counted from T0.
"""

from tests.factory.budgets import TEAM, balance, budget
from tests.factory.jobs import allocation, job, pod, run
from tests.factory.pools import (
    LAG,
    LISTED,
    OFFERING,
    POOL,
    PRICE,
    ended,
    failure,
    instance,
    node,
    notice,
    pool,
    rental,
    survey,
)
from tests.factory.snapshots import snapshot
from tests.factory.times import APRIL, MARCH, T0, at

__all__ = [
    "APRIL",
    "LAG",
    "LISTED",
    "MARCH",
    "OFFERING",
    "POOL",
    "PRICE",
    "T0",
    "TEAM",
    "allocation",
    "at",
    "balance",
    "budget",
    "ended",
    "failure",
    "instance",
    "job",
    "node",
    "notice",
    "pod",
    "pool",
    "rental",
    "run",
    "snapshot",
    "survey",
]
