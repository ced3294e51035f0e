"""Identifiers. Each has its own type, so that mypy finds a pool's name that is passed as a node's name."""

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
"""The identifier by which a cloud knows an order for one machine: [a-z0-9]{1,63}, beginning with a letter."""
NodeName = NewType("NodeName", str)
"""The name of a Kubernetes Node."""
Rate = NewType("Rate", float)
"""Dollars per second: the exchange rate θ, which is the value of one second of a job's life."""


class ClassId(NamedTuple):
    """A class of jobs with the same speedup: the jobs that follow the SpeedupProfile ``name`` of ``namespace``.

    A job without a profile is a class of its own (``of_job``). The statistics of all such jobs are counted together in
    ``NO_PROFILE``. The class is a tuple for fast hashing, because it is a key of most tables of a plan.
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
        return self.namespace != ""

    @property
    def counted_in(self) -> ClassId:
        """The class in whose statistics the jobs are counted: this class, or NO_PROFILE if the class has no
        profile."""
        return self if self.has_profile else NO_PROFILE

    def __str__(self) -> str:
        """``namespace/name`` of the profile, ``uid/<uid of the job>`` without one, empty for NO_PROFILE."""
        if self.has_profile:
            return f"{self.namespace}/{self.name}"
        return f"uid/{self.name}" if self.name else ""


NO_PROFILE = ClassId("", "")
"""The class in whose statistics all jobs without a profile are counted."""


class StepKind(StrEnum):
    """The kinds of object that steps change.

    Some changes of an object have a kind of their own, beside the other steps on the object: its finalizer, the spec
    that a GPUPoolSet gives to a GPUPool, and the rows of a budget's rentals in the record of costs.
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
    """The object that a step or command changes. ``name``: its name; for a job or an orphaned run, its uid.

    Mutations under different keys may be in flight at the same time. Mutations under the same key may not.
    """

    kind: StepKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"
