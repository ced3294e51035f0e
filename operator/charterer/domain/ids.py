"""Identifiers: distinct types, so that a pool's name is never passed where a node's is meant."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
"""The uid of a TrainingJob."""
BudgetId = NewType("BudgetId", str)
"""The name of a GPUBudget (cluster-scoped)."""
PoolId = NewType("PoolId", str)
"""The name of a GPUPool (cluster-scoped)."""
RentalId = NewType("RentalId", str)
"""The name of a GPURental (cluster-scoped)."""
ClassId = NewType("ClassId", str)
"""``namespace/profile`` of the SpeedupProfile a job follows, or ``uid/<job uid>`` for a job that follows none."""
InstanceId = NewType("InstanceId", str)
"""The cloud's own identifier of one machine."""
NodeName = NewType("NodeName", str)
"""The name of a Kubernetes Node."""
Rate = NewType("Rate", float)
"""Dollars per second: the exchange rate θ, what one second of a job's life is worth."""
