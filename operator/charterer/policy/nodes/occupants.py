"""The jobs on each node that are on one node only: how many GPUs they have there, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """A job on one node: its ``gpus`` there, and the seconds that it has ``left`` at the speed that it has now."""

    facts: JobFacts
    gpus: int
    left: float


def occupants(group: JobGroup, mean_work: float) -> Mapping[RentalId, Sequence[Occupant]]:
    """A group's jobs that are on one node, by node. ``mean_work``: of one that does not say what it has left."""
    found: dict[RentalId, list[Occupant]] = {}
    for facts in group.runners.values():
        allocation = facts.job.allocation
        if allocation is not None and len(allocation.placements) == 1:
            place = allocation.placements[0]
            left = job_position(facts.job, mean_work).left / allocation.option.speed
            found.setdefault(place.rental, []).append(Occupant(facts, place.gpus, left))
    return found


def all_occupants(groups: Iterable[Mapping[RentalId, Sequence[Occupant]]]) -> Mapping[RentalId, Sequence[Occupant]]:
    """The occupants of several groups, by node."""
    found: dict[RentalId, list[Occupant]] = {}
    for group in groups:
        for rental, here in group.items():
            found.setdefault(rental, []).extend(here)
    return found
