"""The next steps of a whole snapshot, at most one for each object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from charterer.domain.ids import JobId, RentalId, StepKey, StepKind
from charterer.domain.jobs.run_names import RUN_LABEL_PREFIX
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.steps import LabelNode, Step, StopOrphan, Wait
from charterer.incremental import Memo
from charterer.lifecycle.budget import budget_step
from charterer.lifecycle.guard import budget_guard, pool_guard
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.pool_set import Obstacle, pool_set_steps
from charterer.lifecycle.rental import is_used, rental_step
from charterer.lifecycle.run import Placed, goes_on, misplaced, run_step
from charterer.lifecycle.runs.adopted import adopt_step
from charterer.lifecycle.runs.stopping import to_stop
from charterer.lifecycle.spending.cost_record import cost_record_step
from charterer.lifecycle.view import LifecycleView

_Id = TypeVar("_Id", bound=str)


def next_steps(snapshot: Snapshot, memo: Memo | None = None) -> tuple[Mapping[StepKey, Step], Mapping[StepKey, Wait]]:
    """The steps to take now and the waits, by the object that they change or concern.

    ``next_steps(snapshot, memo) == next_steps(snapshot)``. With a memo, jobs and rentals are passed over that went
    on as intended in its last turn, and that nothing has changed for.
    """
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _next_steps(snapshot, memo)


def _next_steps(snapshot: Snapshot, memo: Memo) -> tuple[Mapping[StepKey, Step], Mapping[StepKey, Wait]]:
    steps: dict[StepKey, Step] = {}
    waits: dict[StepKey, Wait] = {}
    for kind, name, next_step in _all(LifecycleView.of(snapshot, memo), memo):
        if isinstance(next_step, Wait):
            waits[StepKey(kind, name)] = next_step
        elif next_step is not None:
            steps[StepKey(kind, name)] = next_step
    return steps, waits


def _all(view: LifecycleView, memo: Memo) -> Iterator[tuple[StepKind, str, Step | Wait | None]]:
    snapshot = view.snapshot
    disturbed = memo(_disturbed, memo.each(is_used, (snapshot.rentals, view.listed, view.settled)))
    for rental in snapshot.rentals if snapshot.stop is Stop.DRAIN else disturbed:
        yield StepKind.RENTAL, rental, _step(rental_step, rental, view)
    for pool in snapshot.pools:
        yield StepKind.POOL, pool, _step(pool_step, pool, view)
        yield StepKind.POOL_GUARD, pool, _step(pool_guard, pool, view)
    yield from _pools_of_sets(snapshot)
    for budget in snapshot.budgets:
        yield StepKind.BUDGET, budget, _step(budget_step, budget, view)
        yield StepKind.BUDGET_GUARD, budget, _step(budget_guard, budget, view)
        yield StepKind.COST_RECORD, budget, _step(cost_record_step, budget, view)
    placed = memo.stable(memo.each(Placed.of, snapshot.jobs), "placed")
    wrong = memo(misplaced, placed, snapshot.rentals, view.nodes)
    for job, undisturbed in memo.each(goes_on, snapshot.jobs).items():
        if not undisturbed or placed[job].label in wrong:
            yield StepKind.JOB, job, _step(run_step, job, view)
    for orphan in snapshot.orphans:
        if to_stop(orphan.run) and not view.observes(orphan.budget):
            yield StepKind.JOB, orphan.run.uid, StopOrphan(orphan)  # not orphan.job, which anybody may have written
    for candidate in snapshot.candidates:
        yield StepKind.JOB, candidate.target.ref.uid, adopt_step(candidate, view)
    yield from _abandoned_labels(view, memo(_labels, placed))


def _disturbed(used: Mapping[RentalId, bool]) -> Sequence[RentalId]:
    """The rentals that more than use may happen to."""
    return [name for name, only in used.items() if not only]


def _step(
    next_step: Callable[[_Id, LifecycleView], Step | Wait | None], name: _Id, view: LifecycleView
) -> Step | Wait | None:
    """The object's next step; if it cannot be found, a wait with the error: one object must not stop the others."""
    try:
        return next_step(name, view)
    except Exception as error:
        return _fault(error)


def _fault(error: Exception) -> Wait:
    return Wait(f"a fault to be corrected ({type(error).__name__}: {error}); please report it", error=error)


def _pools_of_sets(snapshot: Snapshot) -> Iterator[tuple[StepKind, str, Step | Wait]]:
    """What is to be done about pools that are not as their sets say. One set must not stop the others."""
    for name in snapshot.pool_sets:
        try:
            differences = pool_set_steps(name, snapshot)
        except Exception as error:
            yield StepKind.POOL_OF_SET, name, _fault(error)
            continue
        for pool, difference in differences.items():
            if not isinstance(difference, Obstacle):
                yield StepKind.POOL_OF_SET, pool, difference


def _abandoned_labels(view: LifecycleView, labels_of_jobs: AbstractSet[str]) -> Iterator[tuple[StepKind, str, Step]]:
    """Remove the placement labels of jobs that are gone, which have no step of their own any more."""
    if view.nodes.labelled.keys() <= labels_of_jobs:
        return
    for node in view.snapshot.nodes.values():
        for key in sorted(node.run_labels):
            if key not in labels_of_jobs and not node.deleting:
                step = LabelNode(JobId(key.removeprefix(RUN_LABEL_PREFIX)), node.name, node.uid, key, None)
                yield StepKind.NODE, node.name, step
                break


def _labels(placed: Mapping[JobId, Placed]) -> AbstractSet[str]:
    return {label for label, _, _ in placed.values()}
