"""Which nodes to rent and which job gets which GPUs: a Snapshot in, a Plan out (docs/theory/policy.md).

Pure: values of ``domain``, numpy and HiGHS. Nothing here awaits, logs, reads a clock or draws at random.
"""

from charterer.policy.planner import plan

__all__ = ["plan"]
