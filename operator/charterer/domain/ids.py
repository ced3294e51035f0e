"""Identifiers: distinct types, so that a pool's name is never passed where a node's is meant."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, NewType

JobId = NewType("JobId", str)
"""The uid of a TrainingJob."""
BudgetId = NewType("BudgetId", str)
"""The name of a GPUBudget (cluster-scoped)."""
PoolId = NewType("PoolId", str)
"""The name of a GPUPool (cluster-scoped)."""
PoolSetId = NewType("PoolSetId", str)
"""The name of a GPUPoolSet (cluster-scoped)."""
RentalId = NewType("RentalId", str)
"""The name of a GPURental (cluster-scoped)."""
InstanceId = NewType("InstanceId", str)
"""The cloud's own identifier of one machine."""
OrderToken = NewType("OrderToken", str)
"""The name by which a cloud knows an order for one machine: [a-z0-9]{1,63}, first a letter."""
NodeName = NewType("NodeName", str)
"""The name of a Kubernetes Node."""
Rate = NewType("Rate", float)
"""Dollars per second: the exchange rate θ, what one second of a job's life is worth."""


class ClassId(NamedTuple):
    """A class of jobs with one speedup: those that follow the SpeedupProfile ``name`` of ``namespace``.

    A job that follows no profile is a class of its own (``of_job``); its statistics are counted in ``NO_PROFILE``,
    together with those of all other such jobs. A tuple, because it is a key of most tables of a plan.
    """

    namespace: str
    name: str

    @classmethod
    def of_job(cls, job: JobId) -> ClassId:
        """The class of one job that follows no profile."""
        return cls("", job)

    @classmethod
    def parse(cls, text: str) -> ClassId:
        """The class of a profile from ``namespace/name``, NO_PROFILE from the empty string; ValueError otherwise."""
        namespace, _, name = text.partition("/")
        if text and not (namespace and name and "/" not in name):
            raise ValueError(f"{text!r} is not the name of a class: write namespace/name")
        return cls(namespace, name)

    @property
    def has_profile(self) -> bool:
        """Whether its jobs follow a SpeedupProfile."""
        return self.namespace != ""

    @property
    def counted_in(self) -> ClassId:
        """The class whose statistics its jobs count in: itself, or NO_PROFILE."""
        return self if self.has_profile else NO_PROFILE

    def __str__(self) -> str:
        """``namespace/name`` of the profile, ``uid/<uid of the job>`` without one, empty for NO_PROFILE."""
        if self.has_profile:
            return f"{self.namespace}/{self.name}"
        return f"uid/{self.name}" if self.name else ""


NO_PROFILE = ClassId("", "")
"""The class in whose statistics all jobs count that follow no profile."""


class StepKind(StrEnum):
    """The kinds of object that steps change.

    A finalizer is a step of its own beside the object's other steps, and so are what a GPUPoolSet says of a pool and
    what of a budget's rentals goes into the record of costs.
    """

    RENTAL = "rental"
    POOL = "pool"
    POOL_GUARD = "guard/pool"
    POOL_OF_SET = "set/pool"
    BUDGET = "budget"
    BUDGET_GUARD = "guard/budget"
    COST_RECORD = "costs/budget"
    JOB = "job"
    NODE = "node"


class StepKey(NamedTuple):
    """The object that a step or command changes: its kind, and its name (a job's uid, an orphaned run's own uid).

    Mutations under different keys may be in flight at the same time, two under one key never.
    """

    kind: StepKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"
