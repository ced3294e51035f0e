"""TrainingJob.status.options: the ways to run a job, compared."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from charterer.api.models.base import ApiModel, Cents, HourlyCents, Message, ObjectName
from charterer.api.template import MOST_GPUS
from charterer.domain.pool import CapacityType

OPTIONS_SHOWN: Final = 8
"""Number of options that a status has: as many as a person compares."""
MOST_SECONDS: Final = 10**12
"""The longest time that is written."""


class ComparedOption(ApiModel):
    """One way to run the job from now to its end, or a pool in which there is none."""

    pool: ObjectName
    """Name of the GPUPool."""
    gpu_type: Annotated[str, Field(max_length=253)] | None = None
    """GPU type of the pool's nodes."""
    capacity_type: CapacityType | None = None
    """OnDemand or Spot."""
    gpus: Annotated[int, Field(ge=1, le=MOST_GPUS)] | None = None
    """Number of GPUs; absent where the pool has no option for the job."""
    variant: Annotated[str, Field(max_length=32)] | None = None
    """Name of the job's variant. Absent: the template as it stands."""
    hourly: HourlyCents | None = None
    """Dollars an hour: the GPUs' share of the price of their nodes."""
    seconds_left: Annotated[int, Field(ge=0, le=MOST_SECONDS)] | None = None
    """Seconds from now to the job's end, getting there included."""
    cost_left: Cents | None = None
    """Dollars from now to the job's end, getting there included; while few jobs are in sight, with what of its nodes
    stays empty."""
    per_hour_saved: Cents | None = None
    """Dollars for each hour that the option saves over the chosen one, or that the chosen one saves over it."""
    verdict: Annotated[str, Field(max_length=64)]
    """At the budget's exchange rate: chosen, as good, better, too dear, too slow, or slower and dearer. Ruled out: the
    job may not have it."""
    nodes: Annotated[str, Field(max_length=64)] | None = None
    """Where the option's nodes would come from, or why they cannot be had now."""
    message: Message = ""
    """Why the job has the chosen option, or what rules an option out."""
