"""What a GPURental's status says of who used its GPUs, and of how much of its cost is in the record of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.allocation_status import RunNumber
from charterer.api.models.base import Amount, ApiModel, ObjectName, Time, dump
from charterer.api.models.labels import Labels
from charterer.api.stored_size import cut, stored_bytes
from charterer.domain.spending.cost_row import Payer
from charterer.domain.spending.use import RecordedCost, Use
from charterer.domain.time import LAST, Instant

_USER_BYTES: Final = 253
USES_BYTES: Final = 384 * 1024
"""Most bytes of the uses in a status."""


class UseStatus(ApiModel):
    """GPUs of the node that a run of a job holds or held. It stays when the job is deleted."""

    namespace: ObjectName
    """Namespace of the TrainingJob."""
    job: ObjectName
    """Name of the TrainingJob."""
    job_uid: Annotated[str, Field(min_length=1, max_length=63)]
    """UID of the TrainingJob."""
    run: RunNumber
    """Number of the run."""
    job_class: Annotated[str, Field(max_length=507)] = ""
    """The class of the run, as namespace/name of its SpeedupProfile. Absent: the job names none."""
    user: Annotated[str, Field(max_length=_USER_BYTES)] = ""
    """Who created the job, where that is recorded."""
    labels: Labels = Field(default_factory=dict)
    """Those of the job's labels that are recorded, as they were when it got the GPUs."""
    gpus: Annotated[int, Field(ge=1, le=999_999)]
    """Number of GPUs, or of slices or places on shared GPUs."""
    since: Time
    """When the run got them."""
    until: Time | None = None
    """When it left them. Absent: it holds them."""

    @classmethod
    def from_domain(cls, use: Use) -> Self:
        """The use as it is recorded."""
        payer = use.payer
        return cls(
            namespace=payer.namespace,
            job=payer.job,
            job_uid=payer.job_uid,
            run=payer.run,
            job_class=payer.job_class,
            user=cut(payer.user, _USER_BYTES),
            labels=dict(payer.labels),
            gpus=use.gpus,
            since=use.since,
            until=use.until,
        )

    def to_domain(self) -> Use:
        """The use as it was recorded."""
        payer = Payer(self.namespace, self.job, self.job_uid, self.run, self.job_class, self.user, self.labels)
        return Use(payer, self.gpus, self.since, self.until)


def kept_uses(uses: Sequence[Use], since: Instant | None) -> tuple[tuple[UseStatus, ...], Instant | None]:
    """The uses within ``USES_BYTES``, without the oldest that ended, and since when these are all."""
    made = [(use, UseStatus.from_domain(use)) for use in uses]
    sizes = [stored_bytes(dump(status)) for _, status in made]
    excess = sum(sizes) - USES_BYTES
    dropped: set[int] = set()
    for place in sorted(range(len(made)), key=lambda place: uses[place].until or LAST):
        if excess <= 0 or (until := uses[place].until) is None:
            break
        dropped.add(place)
        since, excess = until, excess - sizes[place]
    return tuple([status for place, (_, status) in enumerate(made) if place not in dropped]), since


class RecordedStatus(ApiModel):
    """How much of what the node cost is in the record of costs."""

    through: Time
    """Up to when its cost is on record."""
    cost: Amount
    """Dollars that are on record."""
    parts: Annotated[int, Field(ge=1, le=999_999_999)]
    """Number of parts that are on record."""
    correcting: bool = False
    """Whether a correction of them is being put on record."""

    @classmethod
    def from_domain(cls, recorded: RecordedCost) -> Self:
        """The sums as they are recorded."""
        return cls(through=recorded.through, cost=recorded.cost, parts=recorded.parts, correcting=recorded.correcting)

    def to_domain(self) -> RecordedCost:
        """The sums as they were recorded."""
        return RecordedCost(self.through, self.cost, self.parts, self.correcting)
