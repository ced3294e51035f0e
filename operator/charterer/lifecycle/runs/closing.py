"""Machines that are about to be given back: no object gets its pods back while one of their nodes takes them."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.plan import ReasonCode
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Stop
from charterer.domain.steps import Cordon, MarkDraining, Wait
from charterer.domain.time import after
from charterer.lifecycle.view import LifecycleView, draining, left_alone, takes_pods

_PATIENCE_SECONDS = 60.0
"""Seconds after which an object is given back although a node is still open: nothing stays held for good."""


def steps_to_close(job: Job, view: LifecycleView) -> tuple[MarkDraining | Cordon, ...]:
    """Give back the machines that only the job's object used, and let no pod onto their nodes any more.

    What is paid for whether it is used or not stays, and so does what an observing budget has. While all machines are
    ended, ``wait_for_drain`` says when they are closed.
    """
    if view.snapshot.stop is Stop.DRAIN:
        return ()
    used = dict.fromkeys(place.rental for record in job.records for place in record.placements)
    rentals = [rental for name in used if (rental := view.rental(name)) is not None]
    return tuple([step for rental in rentals if _goes_with(job, rental, view) for step in _closed(rental, view)])


def _goes_with(job: Job, rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's machine is given back together with the job's object."""
    if rental.phase is RentalPhase.ENDED or left_alone(rental, view):
        return False
    pool = view.snapshot.pools.get(rental.pool)
    kept = pool is not None and pool.committed is not None and not draining(rental)
    return not kept and not _held_by_others(job, rental.id, view)


def _held_by_others(job: Job, rental: RentalId, view: LifecycleView) -> bool:
    return any(use.until is None and use.payer.job_uid != job.id for use in view.uses.get(rental, ()))


def _closed(rental: Rental, view: LifecycleView) -> Sequence[MarkDraining | Cordon]:
    marked = [] if draining(rental) else [MarkDraining(rental.id, ReasonCode.NOT_ADOPTED.value)]
    node = view.node(rental)
    if node is None or not takes_pods(node):
        return marked
    return [*marked, Cordon(rental.id, node.name, node.uid, rental.uid)]


def wait_for_drain(view: LifecycleView) -> Wait | None:
    """What is given back while all machines are ended waits until their nodes are closed."""
    if view.snapshot.stop is not Stop.DRAIN or view.open_rental is None:
        return None
    marked = view.open_rental.released
    until = None if marked is None else after(marked, _PATIENCE_SECONDS)
    if until is not None and view.snapshot.now >= until:
        return None
    return Wait(f"the Node of GPURental {view.open_rental.id} to take no more pods", until=until)
