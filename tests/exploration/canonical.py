"""A course as a value that is equal for courses that go on alike: times as ages, names as positions.

What is taken for equal is only not looked at twice: a difference that is overlooked here hides faults, and makes none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from charterer.domain.money import Money, Price
from charterer.domain.order import Refusal
from charterer.domain.pool import Instance, Pool, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Instant
from charterer.lifecycle.pool import order_token
from tests.property.lifecycle.rented_cloud import LISTED, Machine
from tests.property.lifecycle.rented_course import Course, Pending

_SECOND = 1_000_000
_EXACT_SECONDS = 70
"""Ages up to this one are told apart: the longest that one passage of time crosses."""
_BOUNDS = (120, 300, 600, 3_600, 86_400, 86_405)
"""Ages beyond that are told apart by these: of gangs, cool-downs, patience and lists of ended machines."""
_WITHOUT_EFFECT = frozenset({"message", "because", "cost", "added", "in_period", "whole", "period_start"})


def canonical(course: Course) -> Hashable:
    """The value."""
    return _Canonical(course).value()


class _Canonical:
    def __init__(self, course: Course) -> None:
        self._course = course
        self._now = course.world.cloud.now
        self._names: dict[str, Hashable] = {}

    def value(self) -> Hashable:
        world = self._course.world
        rentals = sorted(world.rentals.values(), key=lambda rental: (rental.created, rental.uid))
        machines = [machine for machine in world.cloud.machines if not self._over(machine)]
        machines.sort(key=lambda machine: (machine.launched, str(machine.ends), machine.name))
        for place, rental in enumerate(rentals):
            self._names[rental.id] = self._names[rental.uid] = self._names[order_token(rental.uid)] = f"r{place}"
        for place, machine in enumerate(machines):
            self._names[machine.name] = f"m{place}"
        cloud, balance = world.cloud, world.budget.balance
        uids = {rental.uid for rental in rentals}
        return (
            tuple([self._rental(rental) for rental in rentals]),
            tuple([self._machine(machine) for machine in machines]),
            tuple([self._pool(pool) for _, pool in sorted(world.pools.items())]),
            tuple([self._survey(survey) for _, survey in sorted(world.surveys.items())]),
            (cloud.target, cloud.stock, tuple([tuple(map(self._name, part)) for part in cloud.waiting])),
            self._refusals(tuple(cloud.refusals)),
            (
                world.budget_gone,
                world.budget.deleting,
                world.budget.guarded,
                balance is not None and bool(balance.folded - uids),
                balance is not None and balance.costs.lifetime == balance.lifetime,
                None if balance is None or balance.costs.through is None else self._age(balance.costs.through) >= 60,
            ),
            tuple([(key.kind.value, self._name(key.name), self._pending(each)) for key, each in self._in_order()]),
            tuple([self._pending(each) for each in self._course.abandoned]),
            self._course.wrong_lists,
        )

    def _in_order(self) -> list[tuple[Any, Pending]]:
        return sorted(self._course.pending.items())

    def _over(self, machine: Machine) -> bool:
        """Whether nothing will ever be said of the machine again."""
        world = self._course.world
        if machine.ends is None or not machine.detached or self._age(machine.ends) < LISTED:
            return False
        return all(rental.instance != machine.name for rental in world.rentals.values())

    def _age(self, at: Instant) -> int:
        """Seconds; negative for what is still to come."""
        seconds = (self._now - at) // _SECOND
        if abs(seconds) <= _EXACT_SECONDS:
            return seconds
        bound = bisect_right(_BOUNDS, abs(seconds))
        nearest = _BOUNDS[bound - 1] if bound else _EXACT_SECONDS + 1
        return nearest if seconds > 0 else -nearest

    def _time(self, at: Instant | None) -> int | None:
        return None if at is None else self._age(at)

    def _name(self, name: str | None) -> Hashable:
        """Its place; names of things that are gone are all the same."""
        if name is None:
            return None
        known = self._names.get(name)
        if known is not None:
            return known
        return name if name in self._course.world.pools or name in self._course.world.surveys else "gone"

    def _rental(self, rental: Rental) -> Hashable:
        balance = self._course.world.budget.balance
        ended = rental.phase is RentalPhase.ENDED
        return (
            rental.pool,
            rental.phase.value,
            self._time(rental.created),
            self._name(rental.instance),
            rental.node is not None,
            bool(rental.provider_id),
            self._time(rental.launched),
            rental.ready is not None,
            self._time(rental.ended),
            self._time(rental.missing_since),
            self._time(rental.named) if rental.launched is None else None,
            rental.deleting,
            rental.released_because if not ended or rental.ready is None else "",
            None if rental.gang is None else (rental.gang.name, rental.gang.nodes),
            balance is not None and rental.uid in balance.folded,
        )

    def _machine(self, machine: Machine) -> Hashable:
        return (
            self._age(machine.launched),
            self._time(machine.ends),
            machine.detached,
            machine.cordoned,
            machine.node_gone,
            self._name(machine.order),
        )

    def _pool(self, pool: Pool) -> Hashable:
        uids = sorted(self._names[uid] for uid in pool.lifetimes.counted if uid in self._names)  # type: ignore[type-var]
        cooled = tuple([(cool.kind.value, self._age(cool.until), cool.times) for cool in pool.cooled])
        return (
            pool.id,
            self._age(pool.created) > 0,
            pool.max_nodes,
            self._time(pool.deleted),
            pool.guarded,
            tuple(uids),
            cooled,
        )

    def _survey(self, survey: Survey) -> Hashable:
        return (
            survey.pool,
            self._age(survey.asked),
            survey.target,
            tuple(sorted(str(self._name(order)) for order in survey.ordered)),
            tuple([self._instance(instance) for instance in survey.instances]),
            self._refusals(survey.refusals),
        )

    def _instance(self, instance: Instance) -> Hashable:
        return self._name(instance.id), instance.state.value, instance.node is not None

    def _refusals(self, refusals: tuple[Refusal, ...]) -> Hashable:
        """Those of orders that are still wanted, and the last one."""
        known = {(self._name(each.order), self._age(each.at)) for each in refusals if each.order in self._names}
        return tuple(sorted(known, key=str)), self._age(refusals[-1].at) if refusals else None

    def _pending(self, pending: Pending) -> Hashable:
        world = self._course.world
        step, decided = pending.step, pending.decided
        name = getattr(step, "rental", None)
        stale = name is not None and world.rentals.get(name) != decided.rentals.get(name)
        pool = getattr(step, "pool", None)
        stale = stale or (pool is not None and pool not in world.pools)
        reply = None if pending.reply is None else tuple(sorted(map(str, map(self._name, pending.reply.launched))))
        return type(step).__name__, stale, self._step(step), reply

    def _step(self, value: Any) -> Hashable:
        """The fields of a step that can make a difference."""
        match value:
            case Instance():
                return self._instance(value)
            case None | bool() | Enum() | Money() | Price():
                return str(value)
            case int():
                return self._age(Instant(value)) if value > _SECOND * _SECOND else value
            case str():
                return self._name(value)
            case tuple() | frozenset():
                return tuple([self._step(item) for item in value])
            case _ if hasattr(value, "__dataclass_fields__"):
                return tuple([self._step(getattr(value, name)) for name in _telling(value.__class__)])
            case _:
                return type(value).__name__


@cache
def _telling(kind: Callable[..., Any]) -> tuple[str, ...]:
    return tuple([field.name for field in fields(kind) if field.name not in _WITHOUT_EFFECT])  # type: ignore[arg-type]
