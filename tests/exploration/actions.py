"""What may happen next in a course of rentals: calls of ``Course`` and of its world, that can be told and repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from charterer.domain.rental import RentalPhase
from charterer.domain.steps import AskCloud
from tests import factory as make
from tests.property.lifecycle.rented_cloud import LAG
from tests.property.lifecycle.rented_course import Course
from tests.property.lifecycle.rented_objects import RENAMED

SECONDS = (LAG, 35, 65)
"""The lag of lists; when a machine that is missing counts as ended; when a Node is there and the minimum is billed."""
_MOST_WRONG_LISTS = 1
"""A list that lacks machines is not believed; two of them, half a minute apart, cannot be told from the truth."""
_GANG = 2


@dataclass(frozen=True, slots=True)
class Action:
    """One call: of the course, or with a dot of what it has."""

    name: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def apply(self, course: Course) -> None:
        """Let it happen."""
        found: Any = course
        for part in self.name.split("."):
            found = getattr(found, part)
        found(*self.arguments, **dict(self.options))

    def __str__(self) -> str:
        """As a line of a test."""
        arguments = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.options)]
        return f"course.{self.name}({', '.join(arguments)})"


def _call(name: str, *arguments: Any, **options: Any) -> Action:
    return Action(name, arguments, tuple(options.items()))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much happens at most: rentals that have not ended, machines and objects that were ever created."""

    rentals: int = 2
    machines: int = 3
    objects: int = 5


def possible(course: Course, bounds: Bounds) -> Iterator[Action]:
    """All that may happen next, in an order that is always the same."""
    yield from _of_the_operator(course)
    yield from _of_people(course, bounds)
    yield from _of_the_cloud(course)


def _of_the_operator(course: Course) -> Iterator[Action]:
    yield _call("turn")
    yield _call("turn", LAG)
    yield _call("decide")
    yield _call("decide", LAG)
    if len(course.world.surveys) > 1:
        for name in sorted(course.world.surveys):
            yield _call("decide", only=str(name))
    if course.wrong_lists < _MOST_WRONG_LISTS and course.world.cloud.machines:
        yield _call("decide", every=2)
        yield _call("decide", every=99)
    for key in sorted(course.pending):
        if len(course.pending) > 1:
            yield _call("carry_out", key.kind.value, key.name)
        under_way = course.pending[key]
        if isinstance(under_way.step, AskCloud):
            yield _call("lose_the_answer", key.kind.value, key.name)
            if under_way.reply is None and course.world.cloud.replies():
                yield _call("cloud_answers", key.name)
    if course.pending:
        yield _call("carry_out_all")
        yield _call("crash")
    if course.abandoned:
        yield _call("a_call_arrives_late")


def _of_people(course: Course, bounds: Bounds) -> Iterator[Action]:
    world = course.world
    living = [rental for rental in world.rentals.values() if rental.phase is not RentalPhase.ENDED]
    room = len(world.cloud.machines) < bounds.machines and world.created < bounds.objects
    if room and len(living) < bounds.rentals:
        yield _call("world.rent")
    if room and not living and world.cloud.traits.together:
        yield _call("rent_gang", _GANG)
    for rental in living:
        if rental.phase is not RentalPhase.DRAINING:
            yield _call("world.release", str(rental.id))
    for rental in world.rentals.values():
        if not rental.deleting:
            yield _call("world.delete", str(rental.id))
    yield from _of_declarations(course, room)


def _of_declarations(course: Course, room: bool) -> Iterator[Action]:
    world = course.world
    for name, pool in sorted(world.pools.items()):
        yield _call("world.tear_out", str(name))
        if not pool.deleting:
            yield _call("world.delete_pool", str(name))
            most = 0 if pool.max_nodes else 8
            yield _call("world.resize", str(name), most)
    if make.POOL not in world.pools:
        yield _call("create_pool")
    if RENAMED.id not in world.pools and room:
        yield _call("declare_again", older=False)
        yield _call("declare_again", older=True)
    if world.budget_gone:
        if room:
            yield _call("create_budget")
    elif not world.budget.deleting:
        yield _call("world.delete_budget")


def _of_the_cloud(course: Course) -> Iterator[Action]:
    cloud = course.world.cloud
    for machine in cloud.machines:
        if machine.ends is None:
            yield _call("a_machine_dies", machine.name)
    if not course.world.rentals and not cloud.machines:
        return
    yield _call("stock", 99 if cloud.stock == 0 else 0)
    for seconds in SECONDS:
        yield _call("pass_time", seconds)
