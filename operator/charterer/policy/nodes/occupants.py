"""The jobs on each node that are on one node only: how many GPUs they have there, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position
from charterer.policy.nodes.holdings import by_rental


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """A job on one node: the ``gpus`` that it takes there, and the seconds that it has ``left`` at the speed it has."""

    facts: JobFacts
    gpus: int
    left: float


def occupants(group: JobGroup, mean_work: float) -> Mapping[RentalId, Sequence[Occupant]]:
    """A group's jobs that are on one node, by node. ``mean_work``: of one that does not say what it has left."""
    found: dict[RentalId, list[Occupant]] = {}
    for facts in group.runners.values():
        allocation = facts.job.allocation
        there = {} if allocation is None else by_rental(allocation.placements)
        if allocation is not None and len(there) == 1:
            ((rental, gpus),) = there.items()
            left = job_position(facts.job, mean_work).left / allocation.option.speed
            found.setdefault(rental, []).append(Occupant(facts, gpus, left))
    return found


def all_occupants(groups: Iterable[Mapping[RentalId, Sequence[Occupant]]]) -> Mapping[RentalId, Sequence[Occupant]]:
    """The occupants of several groups, by node."""
    found: dict[RentalId, list[Occupant]] = {}
    for group in groups:
        for rental, here in group.items():
            found.setdefault(rental, []).extend(here)
    return found
