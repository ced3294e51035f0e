"""Carrying out one command or step: one mutation of the API server or of a cloud, and nothing decided here.

Every write carries a guard (resourceVersion, uid, deterministic name, absolute target); what stands in the way of one
is STALE, and the next turn decides anew. Answers go into the store at once.
"""

from charterer.controller.execute.context import ExecutionContext
from charterer.controller.execute.executor import ClusterExecutor

__all__ = ["ClusterExecutor", "ExecutionContext"]
