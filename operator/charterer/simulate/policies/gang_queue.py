"""A gang queue: jobs wait for all of their GPUs at once, and a job that fits may pass one that does not."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from heapq import heapify, heappop, heappush

from charterer.domain.ids import ClassId, JobId
from charterer.domain.time import Instant
from charterer.simulate.model.sim_job import SimJob
from charterer.simulate.policies.fleet import BaselineFleet

_Waiting = tuple[float, Instant, JobId, SimJob]


class GangQueue:
    """Waiting jobs in lines of one width each (and one class, where classes have a rank), the first at the head.

    ``first``: the job with the least value comes first, then the oldest. ``rank``: a class's present rank, least first.
    """

    def __init__(self, first: Callable[[SimJob], float], rank: Callable[[ClassId], float] | None = None) -> None:
        self._first = first
        self._rank = rank
        self._lines: dict[tuple[int, ClassId | None], list[_Waiting]] = {}

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self._lines)

    def put(self, job: SimJob, gpus: int) -> None:
        """Let the job wait for ``gpus`` GPUs."""
        line = self._lines.setdefault((gpus, job.class_id if self._rank else None), [])
        heappush(line, (self._first(job), job.created, job.id, job))

    def widths(self) -> Iterator[int]:
        """The width of each waiting job."""
        for (gpus, _), line in self._lines.items():
            for _ in line:
                yield gpus

    def waiting(self) -> list[tuple[int, SimJob]]:
        """The width of each waiting job, and the job, in the order of the queue."""
        entries = [(self._place(key, entry), key[0], entry[-1]) for key, line in self._lines.items() for entry in line]
        return [(gpus, job) for _, gpus, job in sorted(entries, key=lambda entry: entry[0])]

    def remove(self, jobs: Container[JobId]) -> None:
        """Let these jobs wait no longer."""
        lines = {key: [entry for entry in line if entry[2] not in jobs] for key, line in self._lines.items()}
        self._lines = {key: line for key, line in lines.items() if line}
        for line in self._lines.values():
            heapify(line)

    def serve(self, fleet: BaselineFleet) -> list[SimJob]:
        """Start the jobs that fit, in order, and return them. A line whose head does not fit is skipped."""
        started: list[SimJob] = []
        if not self._lines:
            return started
        heads = [(self._place(key, line[0]), key) for key, line in self._lines.items()]
        heapify(heads)
        while heads:
            _, key = heappop(heads)
            placements = fleet.place(key[0])
            if placements is None:
                continue
            line = self._lines[key]
            job = heappop(line)[-1]
            fleet.start(job, placements)
            started.append(job)
            if line:
                heappush(heads, (self._place(key, line[0]), key))
            else:
                del self._lines[key]
        return started

    def _place(self, key: tuple[int, ClassId | None], entry: _Waiting) -> tuple[float, Instant, JobId]:
        first, created, name, _ = entry
        return first if self._rank is None or key[1] is None else self._rank(key[1]), created, name
