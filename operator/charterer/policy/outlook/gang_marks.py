"""Gangs: nodes that a job needs at once are marked when they are rented (docs/development/adr/0039)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.rental import Gang, Rental, gang_pending, has_machine
from charterer.domain.snapshot import Snapshot
from charterer.policy.nodes.rental_index import PoolRentals


class GangMarks:
    """The gangs of all rentals, those that this plan rents included. ``ending``: rentals that are being released."""

    def __init__(self, pools: Iterable[PoolRentals], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._members = {name: list(members) for pool in pools for name, members in pool.gangs.items()}
        self._added: dict[str, int] = {}
        self.ending: Container[RentalId] = ()

    def marks(self, job: Job, pool: PoolId, needed: int, rented: int) -> Sequence[Gang | None]:
        """The gangs of ``rented`` new nodes of the pool, of which the job cannot do without ``needed``.

        A gang of the job that these complete gets them first: a write failed, a person deleted a rental, the cloud
        refused one, or a machine died.
        """
        marks: list[Gang | None] = []
        for gang, members in self._of(job, pool):
            lacking = self._lacking(gang, members)
            if lacking < gang.nodes and lacking <= rented - len(marks):
                self._added[gang.name] = self._added.get(gang.name, 0) + lacking
                marks += [gang] * lacking
        still = needed - len(marks)
        if still > 1:
            gang = Gang(self._name(job), job.id, f"{job.namespace}/{job.name}", still)
            self._members[gang.name] = []
            marks += [gang] * still
        return [*marks, *[None] * (rented - len(marks))]

    def short(self) -> Sequence[tuple[Gang, Sequence[Rental]]]:
        """The gangs that lack rentals even with those of this plan, each with those that have no machine.

        Nobody asks the cloud for them, so nobody may wait for them.
        """
        found = []
        for members in self._members.values():
            gang = members[0].gang if members else None
            if gang is not None and self._lacking(gang, members):
                found.append((gang, [rental for rental in members if self._stays(rental) and not has_machine(rental)]))
        return found

    def _of(self, job: Job, pool: PoolId) -> Sequence[tuple[Gang, Sequence[Rental]]]:
        own = []
        for members in self._members.values():
            gang = members[0].gang if members and members[0].pool == pool else None
            if gang is not None and gang.job == job.id and gang_pending(gang, members, self._snapshot.jobs):
                own.append((gang, members))
        return own

    def _lacking(self, gang: Gang, members: Iterable[Rental]) -> int:
        there = sum(self._stays(rental) for rental in members) + self._added.get(gang.name, 0)
        return max(gang.nodes - there, 0)

    def _stays(self, rental: Rental) -> bool:
        return rental.stays and rental.id not in self.ending

    def _name(self, job: Job) -> str:
        """``<first 8 of the job's uid>-<ordinal>``, with the smallest ordinal that no other gang has."""
        ordinal = 1
        while (name := f"{job.short_id}-{ordinal}") in self._members:
            ordinal += 1
        return name
