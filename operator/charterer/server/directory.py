"""The facts of a job that the progress endpoint needs; the controller answers from its last snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from charterer.domain.ids import JobId
from charterer.domain.nodes.hazard import Hazard
from charterer.domain.time import Instant


class Members(NamedTuple):
    """The pods that should form the group of ``generation``: their indexes in the run's Job, and their DNS names.

    ``key``: by which they know each other; no pod of another run has it.
    """

    generation: int
    indexes: tuple[int, ...]
    addresses: tuple[str, ...]
    key: str


class SessionOfRun(NamedTuple):
    """An interactive job's run: how often its job was asked for GPUs, and since when it has its own."""

    asks: int
    since: Instant


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """The oldest run of a job that has live pods: while one run is handed over to the next, still the former one.

    ``allocation`` is the content of the pods' annotation ``charterer.dev/allocation``. ``stopping``: the run is being
    stopped or is about to be, so its pods should write a checkpoint and exit. ``hazard``: at which rate its nodes are
    taken back, whose ``ages`` are in hours; None where none is expected. ``members``: None where the run's width cannot
    change in place. ``session``: None of a job that is not interactive.
    """

    number: int
    pod_uids: frozenset[str]
    allocation: Mapping[str, int]
    stopping: bool
    hazard: Hazard | None = None
    ages: tuple[float, ...] = ()
    members: Members | None = None
    session: SessionOfRun | None = None

    @property
    def leader(self) -> int:
        """The index of the pod that speaks for the run."""
        return 0 if self.members is None else self.members.indexes[0]


class JobDirectory(Protocol):
    """Looks a job up by uid, at once and from memory."""

    def find(self, job: JobId) -> CurrentRun | None:
        """The job's current run; None when there is no such job or none of its runs has live pods."""
        ...
