"""What the spec of an interactive TrainingJob says beside any other job's."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from charterer.api.models.base import ApiModel, Rule, SpecHourly, rules
from charterer.api.models.trainingjob_status import InteractiveStatus
from charterer.domain.jobs.interactive import Interactive
from charterer.domain.money import ZERO


class InteractiveSpec(ApiModel):
    """How an interactive job, as the worker of a notebook, gets GPUs and gives them back."""

    asks: Annotated[int, Field(ge=0, le=999_999_999)] = 0
    """How often a GPU was asked for. The job gets one while asks is larger than status.interactive.answered: whoever
    needs one raises asks above that, and who needs none any more takes it back to that."""
    hourly: SpecHourly | None = None
    """Dollars that an hour of its owner's waiting is worth at least. Absent: as much as an hour of any job of the
    budget."""
    idle_seconds: (
        Annotated[
            float,
            Field(
                ge=0,
                le=2_592_000,
                json_schema_extra=rules(
                    Rule(
                        "self > 0.0",
                        "interactive.idleSeconds must be more than 0: leave it out to hold GPUs as long as that pays",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Seconds without a cell after which the GPUs are given back. Absent: when to hold them longer costs more than to
    wait for the next ones, as measured."""

    def to_domain(self, record: InteractiveStatus | None) -> Interactive:
        """What is asked for, with what is on record of it."""
        kept = InteractiveStatus() if record is None else record
        return Interactive(
            asks=self.asks,
            hourly=self.hourly,
            idle_seconds=self.idle_seconds,
            answered=kept.answered,
            served=kept.served,
            busy_cost=kept.busy_cost or ZERO,
            idle_cost=kept.idle_cost or ZERO,
        )
