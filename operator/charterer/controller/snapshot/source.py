"""Seeing: what the store, the clouds and the pods' reports say now, joined into a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.snapshot.cluster_state import cluster_state
from charterer.controller.snapshot.observe import ObservationCache, observe
from charterer.controller.surveys import Surveys
from charterer.controller.templates import Templates
from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import Progress
from charterer.domain.pool import Pool
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.server.progress import ProgressBoard


class SnapshotSource:
    """``look`` makes a snapshot; ``last`` is the one that the present turn is decided on."""

    def __init__(self, store: Store, board: ProgressBoard, now: Callable[[], Instant]) -> None:
        self._store = store
        self._board = board
        self._now = now
        self._surveys: Surveys | None = None
        self._templates: Templates | None = None
        self._last: Snapshot | None = None
        self._memory = ObservationCache()

    def use(self, surveys: Surveys, templates: Templates) -> None:
        """Where clouds and templates are asked (they are made after the sight, which tells them what there is)."""
        self._surveys = surveys
        self._templates = templates

    def look(self) -> Snapshot:
        """Everything as it is known now."""
        if self._surveys is None or self._templates is None:
            raise RuntimeError("Sight.use was not called")
        jobs = self._store.view(kinds.TRAINING_JOBS).objects.values()
        seen = cluster_state(
            self._store,
            surveys=self._surveys.latest,
            quotes=self._surveys.quotes,
            refusals=self._templates.refusals(decoded.job for decoded in jobs),
            progress=self._progress(),
        )
        self._last = observe(seen, self._now(), self._memory)
        return self._last

    def last(self) -> Snapshot:
        """The snapshot of the present turn; RuntimeError before the first."""
        if self._last is None:
            raise RuntimeError("nothing was looked at yet")
        return self._last

    def last_or_none(self) -> Snapshot | None:
        """The snapshot of the present turn, if there was one yet."""
        return self._last

    def pools(self) -> Mapping[PoolId, Pool]:
        """The pools there are."""
        return {pool.id: pool for pool in self._store.view(kinds.GPU_POOLS).objects.values()}

    def moving(self) -> frozenset[PoolId]:
        """Pools with a rental that is being asked for, started, drained or settled."""
        rentals = self._store.view(kinds.GPU_RENTALS).objects.values()
        return frozenset(rental.pool for rental in rentals if rental.phase is not RentalPhase.READY or rental.deleting)

    def _progress(self) -> Mapping[JobId, Progress]:
        found = {}
        for decoded in self._store.view(kinds.TRAINING_JOBS).objects.values():
            progress = self._board.latest(decoded.job.id)
            if progress is not None:
                found[decoded.job.id] = progress
        return found
