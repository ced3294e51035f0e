"""Carry out one command or step, as one mutation of the API server or of a cloud. This package makes no decisions.

Every write carries a guard: a resourceVersion, a uid, a deterministic name, or an absolute target. If the guard fails,
the outcome is STALE, and the next turn decides anew. The objects in the answers go into the store at once.
"""

from charterer.controller.execute.context import (
    CloudWriter,
    CostWriter,
    DecidedObjects,
    ExecutionContext,
    ObjectWriter,
    Stale,
)
from charterer.controller.execute.executor import ClusterExecutor

__all__ = [
    "CloudWriter",
    "ClusterExecutor",
    "CostWriter",
    "DecidedObjects",
    "ExecutionContext",
    "ObjectWriter",
    "Stale",
]
