"""The GPUs that are intended for a job, the pods that train together on them, and how long it had others."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ATOMIC, Amount, ApiModel, Hourly, Message, ObjectName, Time
from charterer.api.names import GPU_RESOURCE
from charterer.api.stored_size import cut
from charterer.api.template import MOST_GPUS
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.jobs.group import Stretch, TrainingGroup
from charterer.domain.money import ZERO
from charterer.domain.option import MOST_PODS, Option

REASON_BYTES: Final = 1_024
"""Most bytes of why a run was given its GPUs, and of what is known about its end."""

RunNumber = Annotated[int, Field(ge=0, le=999_999_999)]
_Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]


class OptionStatus(ApiModel):
    """One way to run the job."""

    pool: ObjectName
    """Name of the GPUPool."""
    gpus: _Gpus
    """Number of GPUs."""
    speed: Annotated[float, Field(ge=1e-30, le=9e18)]
    """Work per second, relative to the reference of the job's SpeedupProfile, which has speed 1."""
    hourly: Hourly
    """Dollars per hour: the GPUs' share of the price of their nodes."""
    entry_seconds: Annotated[float, Field(ge=0, le=1e12)] = 0
    """Seconds without training that changing to this option costs, once."""
    entry_cost: Amount | None = None
    """Dollars that changing to this option costs, once."""
    resource: Annotated[str, Field(max_length=253)] = GPU_RESOURCE
    """Name of the GPUs in a pod's resources."""
    slice: Annotated[str, Field(max_length=16)] = ""
    """MIG profile of the slice that the job has instead of a GPU; shared-2 or mps-2: a GPU that two jobs use at once.
    Absent: whole GPUs."""
    trial: bool = False
    """True if the option was chosen to measure the job's speed there, paid from the budget's explorationPercent."""
    variant: Annotated[str, Field(max_length=32)] = ""
    """Name of the job's variant. Absent: the template as it stands."""
    empty: Annotated[int, Field(ge=0)] = 0
    """Number of GPUs of its nodes that stay empty because its pods do not fill them; their price is in hourly."""

    @classmethod
    def from_domain(cls, option: Option) -> Self:
        """The option as it is recorded."""
        return cls(
            pool=option.pool,
            gpus=option.gpus,
            speed=option.speed,
            hourly=option.price,
            entry_seconds=option.entry_seconds,
            entry_cost=None if option.entry_cost == ZERO else option.entry_cost,
            resource=option.resource,
            slice=option.slice,
            trial=option.trial,
            variant=option.variant,
            empty=option.empty,
        )

    def to_domain(self) -> Option:
        """The option as it was recorded."""
        return Option(
            pool=PoolId(self.pool),
            gpus=self.gpus,
            speed=self.speed,
            price=self.hourly,
            entry_seconds=self.entry_seconds,
            entry_cost=ZERO if self.entry_cost is None else self.entry_cost,
            resource=self.resource,
            slice=self.slice,
            trial=self.trial,
            variant=self.variant,
            empty=self.empty,
        )


class PlacementStatus(ApiModel):
    """The place of one pod."""

    rental: ObjectName
    """Name of the GPURental whose node the pod runs on."""
    gpus: _Gpus
    """Number of GPUs of that node that the pod uses."""
    empty: Annotated[int, Field(ge=0)] = 0
    """Number of GPUs of that node that stay empty, because nothing else fits beside the job's pods."""

    @classmethod
    def from_domain(cls, placement: Placement) -> Self:
        """The placement as it is recorded."""
        return cls(rental=placement.rental, gpus=placement.gpus, empty=placement.empty)

    def to_domain(self) -> Placement:
        """The placement as it was recorded."""
        return Placement(RentalId(self.rental), self.gpus, self.empty)


Placements = Annotated[tuple[PlacementStatus, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)]


class AllocationStatus(ApiModel):
    """The GPUs that are intended for the job: for which run, in which way, and on which nodes."""

    run: RunNumber
    """Number of the run."""
    option: OptionStatus
    """Pool, number of GPUs, speed and price."""
    placements: Annotated[Placements, Field(min_length=1)]
    """The place of each pod, in the order of the pods' indices."""
    since: Time
    """When this was decided."""
    because: Message = ""
    """Why this was decided."""
    withdrawn_because: Message = ""
    """Why the run was given up before all its pods ran."""
    stalled_because: Message = ""
    """Why the run was given up because it did not advance any more."""
    stopped_because: Message = ""
    """Why the run was stopped for another reason, where no run follows it at once."""
    begun: bool = False
    """True once Kueue was told that the run may start, if the job stands for an object in a queue."""

    @classmethod
    def from_domain(cls, allocation: Allocation) -> Self:
        """The allocation as it is recorded."""
        return cls(
            run=allocation.run,
            option=OptionStatus.from_domain(allocation.option),
            placements=tuple(PlacementStatus.from_domain(placement) for placement in allocation.placements),
            since=allocation.since,
            because=cut(allocation.because, REASON_BYTES),
            withdrawn_because=allocation.withdrawn_because,
            stalled_because=allocation.stalled_because,
            stopped_because=cut(allocation.stopped_because, REASON_BYTES),
            begun=allocation.begun,
        )

    def to_domain(self) -> Allocation:
        """The allocation as it was recorded."""
        placements = tuple(placement.to_domain() for placement in self.placements)
        because = self.because, self.withdrawn_because, self.stalled_because, self.stopped_because
        return Allocation(self.run, self.option.to_domain(), placements, self.since, *because, begun=self.begun)


_Index = Annotated[int, Field(ge=0, le=MOST_PODS - 1)]
_Uid = Annotated[str, Field(max_length=8)]


class GroupStatus(ApiModel):
    """The pods that should train together, in a run that is resized in place."""

    run: RunNumber
    """Number of the run."""
    generation: Annotated[int, Field(ge=1, le=999_999_999)]
    """Number of this group: 1 for a run's first, one more for each change."""
    indexes: Annotated[tuple[_Index, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)]
    """Indexes of the pods."""
    uids: Annotated[tuple[_Uid, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)] = ()
    """First characters of the pods' uids, in the same order. Absent before the first group trains."""
    since: Time
    """When this group was asked for."""
    by: Time
    """When it should have been formed. Otherwise the change is withdrawn, or the run is restarted."""
    formed: RunNumber = 0
    """Number of the group in which the run's leader last said that it trains; 0 before it named any."""
    reports: bool = False
    """True once the job's trainer has named the group that it trains in."""
    withdrawn: RunNumber = 0
    """How many times in a row pods that were added did not join in time."""
    withdrawn_at: Time | None = None
    """When they last did not. The job is not widened again for a while."""

    @classmethod
    def from_domain(cls, group: TrainingGroup) -> Self:
        """The group as it is recorded."""
        return cls.copy_of(group)

    def to_domain(self) -> TrainingGroup:
        """The group as it was recorded."""
        return TrainingGroup(**dict(self))


class StretchStatus(ApiModel):
    """How long runs had a width before they were resized in place."""

    option: OptionStatus
    """Pool, number of GPUs, speed and price."""
    seconds: Annotated[float, Field(ge=0, le=1e12)]
    """Seconds, in all runs together."""

    @classmethod
    def from_domain(cls, stretch: Stretch) -> Self:
        """The time as it is recorded."""
        return cls(option=OptionStatus.from_domain(stretch.option), seconds=stretch.seconds)

    def to_domain(self) -> Stretch:
        """The time as it was recorded."""
        return Stretch(self.option.to_domain(), self.seconds)
