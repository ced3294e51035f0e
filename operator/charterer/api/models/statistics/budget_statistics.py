"""GPUBudget.status.machineState: what finished jobs cost against what was predicted, beyond what people read of it."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Time
from charterer.api.models.statistics.machine_state import MachineContent
from charterer.domain.budget import ClassHistory

_DROPPED_AT_ONCE: Final = 8
"""Divisor of the number of entries: an eighth is left out at a time, so that few tries find what fits."""

_Sum = Annotated[float, Field(ge=0)]


class ClassCostStatistics(ApiModel):
    """The part of ``domain.budget.ClassHistory`` that ``status.classes`` does not show."""

    squares: _Sum
    since: Time
    at: Time
    arrivals: _Sum = 0.0
    recent_arrivals: _Sum = 0.0

    @classmethod
    def from_domain(cls, history: ClassHistory) -> Self:
        """The statistics as they are recorded."""
        return cls.copy_of(history)


class BudgetStatistics(MachineContent):
    """``classes``: by name of the class. ``counted``: finished jobs in the sums after ``status.countedThrough``, by uid
    when they finished.
    """

    classes: dict[str, ClassCostStatistics] = Field(default_factory=dict)
    counted: dict[str, Time] = Field(default_factory=dict)

    def smaller(self) -> Self | None:
        """Without the eighth of the counted jobs that finished first; then of the classes that finished first."""
        if self.counted:
            oldest = sorted(self.counted, key=lambda uid: (self.counted[uid], uid))
            kept = oldest[max(1, len(oldest) // _DROPPED_AT_ONCE) :]
            return self.model_copy(update={"counted": {uid: self.counted[uid] for uid in sorted(kept)}})
        if self.classes:
            stalest = sorted(self.classes, key=lambda name: (self.classes[name].at, name))
            kept = stalest[max(1, len(stalest) // _DROPPED_AT_ONCE) :]
            return self.model_copy(update={"classes": {name: self.classes[name] for name in sorted(kept)}})
        return None
