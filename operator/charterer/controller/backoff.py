"""Pauses after failures, for each object on its own: twice as long after each further failure in a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is tried before the clock shows ``until``; it is ``seconds`` long."""

    until: float
    seconds: float


class Backoff(Generic[Key]):
    """The pauses of objects, ``first`` seconds long after a first failure. ``clock``: in seconds."""

    def __init__(self, clock: Callable[[], float], first: float) -> None:
        self._clock = clock
        self._first = first
        self._pauses: dict[Key, Pause] = {}

    def pausing(self, key: Key) -> bool:
        """Whether the object is to be left alone now."""
        pause = self._pauses.get(key)
        return pause is not None and self._clock() < pause.until

    def failed(self, key: Key, longest: float, least: float = 0.0) -> float:
        """Leave the object alone for a while, from ``least`` to ``longest`` seconds; returns for how many."""
        last = self._pauses.get(key)
        seconds = min(max(self._first if last is None else 2 * last.seconds, least), longest)
        self._pauses[key] = Pause(self._clock() + seconds, seconds)
        return seconds

    def succeeded(self, key: Key) -> None:
        """The next failure of the object is a first one."""
        self._pauses.pop(key, None)

    def retain(self, keys: Collection[Key]) -> None:
        """Forget all other objects."""
        for gone in self._pauses.keys() - set(keys):
            del self._pauses[gone]

    def forget_ended(self, seconds: float) -> None:
        """Forget the pauses that ended that many seconds ago or earlier: the next failures are first ones."""
        oldest = self._clock() - seconds
        self._pauses = {key: pause for key, pause in self._pauses.items() if pause.until > oldest}

    def soonest(self) -> float | None:
        """When the first pause ends; None without any."""
        return min((pause.until for pause in self._pauses.values()), default=None)
