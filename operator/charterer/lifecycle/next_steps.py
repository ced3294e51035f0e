"""The next steps of a whole snapshot, at most one for each object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from charterer.domain.ids import JobId, StepKey, StepKind
from charterer.domain.job import RUN_LABEL_PREFIX
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import LabelNode, Step, StopOrphan, Wait
from charterer.lifecycle.budget import budget_step
from charterer.lifecycle.guard import budget_guard, pool_guard
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.run import active, run_step
from charterer.lifecycle.view import LifecycleView


def next_steps(snapshot: Snapshot) -> tuple[Mapping[StepKey, Step], Mapping[StepKey, Wait]]:
    """The steps to take now and the waits, by the object that they change or concern."""
    steps: dict[StepKey, Step] = {}
    waits: dict[StepKey, Wait] = {}
    for key, next_step in _all(LifecycleView.of(snapshot)):
        if isinstance(next_step, Wait):
            waits[key] = next_step
        elif next_step is not None:
            steps[key] = next_step
    return steps, waits


def _all(view: LifecycleView) -> Iterator[tuple[StepKey, Step | Wait | None]]:
    snapshot = view.snapshot
    for rental in snapshot.rentals:
        yield StepKey(StepKind.RENTAL, rental), rental_step(rental, view)
    for pool in snapshot.pools:
        yield StepKey(StepKind.POOL, pool), pool_step(pool, view)
        yield StepKey(StepKind.POOL_GUARD, pool), pool_guard(pool, view)
    for budget in snapshot.budgets:
        yield StepKey(StepKind.BUDGET, budget), budget_step(budget, view)
        yield StepKey(StepKind.BUDGET_GUARD, budget), budget_guard(budget, view)
    for job in snapshot.jobs:
        yield StepKey(StepKind.JOB, job), run_step(job, view)
    for orphan in snapshot.orphans:
        if active(orphan.run) and not orphan.run.deleting and not view.observes(orphan.budget):
            yield StepKey(StepKind.JOB, orphan.job), StopOrphan(orphan)
    yield from _abandoned_labels(view)


def _abandoned_labels(view: LifecycleView) -> Iterator[tuple[StepKey, Step]]:
    """Remove the placement labels of jobs that are gone, which have no step of their own any more."""
    labels_of_jobs = {job.run_label for job in view.snapshot.jobs.values()}
    for node in view.snapshot.nodes.values():
        for key in sorted(node.run_labels):
            if key not in labels_of_jobs and not node.deleting:
                step = LabelNode(JobId(key.removeprefix(RUN_LABEL_PREFIX)), node.name, node.uid, key, None)
                yield StepKey(StepKind.NODE, node.name), step
                break
