"""What a pool has, by what its rentals, orders and instances need of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from charterer.domain.ids import OrderToken
from charterer.domain.pool import Instance, Pool, Survey
from charterer.domain.rental import Rental, has_machine
from charterer.lifecycle.view import COUNTED_STATES, LifecycleView, draining, vanished


@dataclass(frozen=True, slots=True)
class PoolInventory:
    """Rentals and instances of one pool, by what they need of each other.

    ``waiting``: Requested rentals without an instance. ``leaving``: released rentals that never got one. ``held``:
    rentals whose instance counts towards the target. ``unclaimed``: instances that no rental names, those still alive
    first. ``counted``: the number of instances that live. ``gangs``: by name, the rentals of gangs that are to stay.
    ``surplus``: rentals that wait and get no node any more. ``wanted``: those that the cloud may be asked for now.
    """

    pool: Pool
    survey: Survey
    rentals: Sequence[Rental]
    waiting: Sequence[Rental]
    leaving: Sequence[Rental]
    held: Sequence[Rental]
    unclaimed: Sequence[Instance]
    counted: int
    gangs: Mapping[str, Sequence[Rental]]
    surplus: Sequence[Rental]
    wanted: Sequence[Rental]

    @classmethod
    def of(cls, pool: Pool, survey: Survey, view: LifecycleView) -> PoolInventory:
        """As the snapshot has them: linear in the pool's rentals and instances."""
        rentals = view.rentals_of_pool.get(pool.id, ())
        machines = view.machines[pool.id]
        without_instance, gangs = machines.waiting, machines.gangs
        waiting = _gang_by_gang([rental for rental in without_instance if not draining(rental)])
        held = [*machines.listed, *[rental for rental in machines.unlisted if not vanished(rental, None, survey)]]
        closing = pool.cooling(view.snapshot.now) is not None or pool.deleting or view.snapshot.stop is not None
        surplus = waiting if closing else _surplus(waiting, pool.max_nodes - len(held))
        kept = {rental.id for rental in waiting} - {rental.id for rental in surplus}
        return cls(
            pool=pool,
            survey=survey,
            rentals=rentals,
            waiting=waiting,
            leaving=[rental for rental in without_instance if draining(rental)],
            held=held,
            unclaimed=sorted(view.unclaimed(pool.id), key=lambda instance: instance.state not in COUNTED_STATES),
            counted=machines.counted,
            gangs=gangs,
            surplus=surplus,
            wanted=[rental for rental in _askable(waiting, gangs, survey) if rental.id in kept],
        )

    @property
    def split_gangs(self) -> Sequence[Sequence[Rental]]:
        """The gangs of which some have machines and others wait for one."""
        return [members for members in self.gangs.values() if len({has_machine(rental) for rental in members}) == 2]


def lacks_others(rental: Rental, gangs: Mapping[str, Sequence[Rental]]) -> bool:
    """Whether rentals of its gang are not there (yet), so that the cloud is asked for none of them."""
    return rental.gang is not None and len(gangs.get(rental.gang.name, ())) < rental.gang.nodes


def _gang_by_gang(rentals: Sequence[Rental]) -> Sequence[Rental]:
    """Rentals in order of creation, with all of a gang where its first one is."""
    first: dict[str, int] = {}
    for position, rental in enumerate(rentals):
        first.setdefault(rental.id if rental.gang is None else rental.gang.name, position)
    return sorted(rentals, key=lambda rental: first[rental.id if rental.gang is None else rental.gang.name])


def _surplus(waiting: Sequence[Rental], room: int) -> Sequence[Rental]:
    """The rentals that wait and for which the pool has no room any more, as after its size was lowered.

    The oldest that fit are kept; of a gang all or none. A cloud that counts would refuse all of them for one too many.
    """
    surplus: list[Rental] = []
    parts = groupby(waiting, key=lambda rental: rental.id if rental.gang is None else rental.gang.name)
    for part in [list(rentals) for _, rentals in parts]:
        if len(part) <= room:
            room -= len(part)
        else:
            surplus += part
    return surplus


def _askable(waiting: Sequence[Rental], gangs: Mapping[str, Sequence[Rental]], survey: Survey) -> Sequence[Rental]:
    """The rentals that wait, without gangs that cannot be asked for as a whole now.

    Those are gangs that lack rentals, and gangs of which a cloud that keeps trying has only some on record: it would
    launch those without the others, so they are withdrawn first.
    """
    traits, ordered = survey.traits, survey.ordered
    complete = [rental for rental in waiting if not lacks_others(rental, gangs)]
    if not (traits.together and traits.keeps_trying):
        return complete
    on_record: dict[str, set[bool]] = {}
    for rental in complete:
        if rental.gang is not None:
            on_record.setdefault(rental.gang.name, set()).add(order_token(rental.uid) in ordered)
    return [rental for rental in complete if rental.gang is None or len(on_record[rental.gang.name]) == 1]


def order_token(uid: str) -> OrderToken:
    """The token of the order of the rental with that uid: the same for every try, and no other rental's."""
    return OrderToken(f"c{hashlib.sha256(uid.encode()).hexdigest()[:31]}")
