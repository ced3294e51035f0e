"""A gang queue: jobs that wait for all of their GPUs at once. Who fits may pass who does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from charterer.domain.ids import ClassId, JobId
from charterer.domain.time import Instant
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.policies.fleet import BaselineFleet

_Waiting = tuple[float, Instant, JobId, SimJob]


class GangQueue:
    """Waiting jobs in lines of one width each (and one class, where classes have a rank), the first at its head.

    ``first``: whose is the least comes first, of equal ones the oldest. ``rank``: which class comes first just now.
    """

    def __init__(self, first: Callable[[SimJob], float], rank: Callable[[ClassId], float] | None = None) -> None:
        self._first = first
        self._rank = rank
        self._lines: dict[tuple[int, ClassId | None], list[_Waiting]] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._lines)

    def put(self, task: SimJob, gpus: int) -> None:
        """The task waits for so many GPUs."""
        line = self._lines.setdefault((gpus, task.class_id if self._rank else None), [])
        heappush(line, (self._first(task), task.created, task.id, task))

    def widths(self) -> Iterator[int]:
        """What is waited for."""
        for (gpus, _), line in self._lines.items():
            for _ in line:
                yield gpus

    def serve(self, fleet: BaselineFleet) -> list[SimJob]:
        """Start who fits, in order, and say who. Where the head of a line does not fit, nobody in it does."""
        started: list[SimJob] = []
        if not self._lines:
            return started
        heads = [(self._place(key, line), key) for key, line in self._lines.items()]
        heapify(heads)
        while heads:
            _, key = heappop(heads)
            placements = fleet.place(key[0])
            if placements is None:
                continue
            line = self._lines[key]
            task = heappop(line)[-1]
            fleet.start(task, placements)
            started.append(task)
            if line:
                heappush(heads, (self._place(key, line), key))
            else:
                del self._lines[key]
        return started

    def _place(self, key: tuple[int, ClassId | None], line: list[_Waiting]) -> tuple[float, Instant, JobId]:
        first, created, name, _ = line[0]
        return first if self._rank is None or key[1] is None else self._rank(key[1]), created, name
