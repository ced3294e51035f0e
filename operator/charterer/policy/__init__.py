"""The planner: which nodes to rent, and which job gets which GPUs. A Snapshot in, a Plan out (docs/theory/policy.md).

The package is pure: it uses values of ``domain``, numpy and HiGHS. It does not await, log, read a clock or draw random
numbers.
"""

from charterer.policy.planner import plan

__all__ = ["plan"]
