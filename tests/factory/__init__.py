"""Domain objects with every field filled in: a test passes as keywords only the fields that matter to it.

All objects fit together: one budget, one pool of nodes with four GPUs, times counted from T0.
"""

from tests.factory.budgets import TEAM, balance, budget
from tests.factory.jobs import allocation, job, pod, run
from tests.factory.pools import (
    COUNTED,
    LAG,
    LISTED,
    NAMED,
    OFFERING,
    POOL,
    PRICE,
    REPLYING,
    cooled,
    ended,
    fake_group,
    instance,
    node,
    notice,
    pool,
    refusal,
    rental,
    survey,
)
from tests.factory.snapshots import snapshot, with_uses
from tests.factory.times import APRIL, MARCH, T0, at

__all__ = [
    "APRIL",
    "COUNTED",
    "LAG",
    "LISTED",
    "MARCH",
    "NAMED",
    "OFFERING",
    "POOL",
    "PRICE",
    "REPLYING",
    "T0",
    "TEAM",
    "allocation",
    "at",
    "balance",
    "budget",
    "cooled",
    "ended",
    "fake_group",
    "instance",
    "job",
    "node",
    "notice",
    "pod",
    "pool",
    "refusal",
    "rental",
    "run",
    "snapshot",
    "survey",
    "with_uses",
]
