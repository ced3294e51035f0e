"""Breadth-first over all that may happen, then random walks from the states that were reached last."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from charterer.domain.order import Traits
from tests import factory as make
from tests.exploration.actions import Action, Bounds, possible
from tests.exploration.canonical import canonical
from tests.property.lifecycle.rented_course import CLAIMS, ONE_BY_ONE, Course

ORDERS: dict[str, Traits] = {
    "counted": make.COUNTED,
    "named": make.NAMED,
    "replying": make.REPLYING,
    "claims": CLAIMS,
    "one-by-one": ONE_BY_ONE,
}
WIDER = Bounds(rentals=3, machines=6, objects=12)
"""Of random walks, which go further than all courses can be followed."""
_LONGEST_WALK = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """What must not happen, and a course on which it does: ``actions``, or these and then the undisturbed end."""

    error: Exception
    actions: Sequence[Action]
    at_the_end: bool

    def as_test(self, orders: str) -> str:
        """To be pasted among the known courses."""
        traits = {"claims": "CLAIMS", "one-by-one": "ONE_BY_ONE"}.get(orders, f"make.{orders.upper()}")
        lines = [f"def test_{orders.replace('-', '_')}() -> None:", f"course = Course({traits})"]
        lines += map(str, self.actions)
        lines += ["course.end()" if self.at_the_end else "course.check()"]
        return "\n    ".join(lines)


@dataclass
class Progress:
    """How far an exploration has come."""

    states: int = 0
    depth: int = 0
    steps: int = 0
    walks: int = 0
    ends: int = 0


@dataclass(frozen=True, slots=True)
class _Reached:
    """A state. ``before``: the one from which ``action`` led here."""

    depth: int
    before: _Reached | None = None
    action: Action | None = None

    def actions(self) -> list[Action]:
        found, here = [], self
        while here.before is not None and here.action is not None:
            found.append(here.action)
            here = here.before
        return found[::-1]


class Explorer:
    """Explores courses with these orders. ``progress`` is kept current; ``told`` is called now and then."""

    def __init__(self, orders: str, seed: int = 0, told: Callable[[Progress], None] = lambda progress: None) -> None:
        self.orders = orders
        self.seed = seed
        self.progress = Progress()
        self._told = told
        self._frontier = deque([(Course(ORDERS[orders]), _Reached(0))])

    def breadth_first(self, states: int, end_each: int = 50) -> Fault | None:
        """All courses, the shortest first, until so many states were reached.

        Each ``end_each``-th state is played to its end.
        """
        start = Course(ORDERS[self.orders])
        seen = {hash(canonical(start))}
        waiting = deque([(start, _Reached(0))])
        while waiting and self.progress.states < states:
            course, reached = waiting.popleft()
            self.progress.depth = reached.depth + 1
            for action in list(possible(course, Bounds())):
                following, here = course.copied(), _Reached(reached.depth + 1, reached, action)
                self.progress.steps += 1
                if (error := _failure(following, action)) is not None:
                    return shortest(Fault(error, here.actions(), False), self.orders)
                value = hash(canonical(following))
                if value in seen:
                    continue
                seen.add(value)
                self._count()
                if self.progress.states % end_each == 0 and (error := self._end(following)) is not None:
                    return shortest(Fault(error, here.actions(), True), self.orders)
                waiting.append((following, here))
        self._frontier = waiting or self._frontier
        return None

    def walk(self, walks: int) -> Fault | None:
        """So many random walks, each from a state that the search had reached last, and each to its end."""
        chance = random.Random(f"{self.orders} {self.seed}")
        starts = list(self._frontier)
        for _ in range(walks):
            course, reached = chance.choice(starts)
            course, actions = course.copied(), reached.actions()
            self.progress.walks += 1
            for _ in range(chance.randrange(_LONGEST_WALK)):
                actions.append(_chosen(chance, list(possible(course, WIDER))))
                self.progress.steps += 1
                self._count()
                if (error := _failure(course, actions[-1])) is not None:
                    return shortest(Fault(error, actions, False), self.orders)
            if (error := self._end(course)) is not None:
                return shortest(Fault(error, actions, True), self.orders)
        return None

    def _count(self) -> None:
        self.progress.states += 1
        if self.progress.states % 1_000 == 0:
            self._told(self.progress)

    def _end(self, course: Course) -> Exception | None:
        self.progress.ends += 1
        return _end_failure(course)


def _chosen(chance: random.Random, actions: Sequence[Action]) -> Action:
    """By name first, so that what can be done in many ways is not done all the time."""
    name = chance.choice(sorted({action.name for action in actions}))
    return chance.choice([action for action in actions if action.name == name])


def _failure(course: Course, action: Action) -> Exception | None:
    try:
        action.apply(course)
        course.check()
    except Exception as error:
        return error
    return None


def _end_failure(course: Course) -> Exception | None:
    course = course.copied()
    try:
        course.end()
    except Exception as error:
        return error
    return None


def _replayed(actions: Sequence[Action], orders: str) -> Fault | None:
    """What goes wrong on this course; None where it cannot be played, or nothing does."""
    course = Course(ORDERS[orders])
    for place, action in enumerate(actions):
        if action not in set(possible(course, WIDER)):
            return None
        if (error := _failure(course, action)) is not None:
            return Fault(error, actions[: place + 1], False)
    error = _end_failure(course)
    return None if error is None else Fault(error, actions, True)


def shortest(fault: Fault, orders: str) -> Fault:
    """The same kind of fault on a course from which no action can be left out."""
    place = len(fault.actions) - 1
    while place >= 0:
        shorter = _replayed([*fault.actions[:place], *fault.actions[place + 1 :]], orders)
        if shorter is not None and type(shorter.error) is type(fault.error):
            fault = shorter
        place = min(place, len(fault.actions)) - 1
    return fault
