"""With what the turns before remembered, next steps and status views are what they are without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.cluster import kinds
from charterer.controller.status.budgets_and_pools import Tally
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.errors import Problem
from charterer.incremental import Memo
from charterer.lifecycle import LifecycleView, next_steps
from charterer.lifecycle.rental import is_used, rental_step
from charterer.lifecycle.run import Placed, goes_on, misplaced, run_step
from charterer.metrics.unused_nodes import kept_nodes
from charterer.policy.planner import plan
from tests import lanes
from tests.random_events import EVENTS, is_carried_out, some_world
from tests.worlds import NAMESPACE, World


def labels_are_written(world: World, draw: Random) -> None:
    """Some nodes carry the labels of the jobs placed on them; some carry others, or labels of jobs that are gone."""
    for name, node in list(world.nodes.items()):
        labels = {}
        for job in world.jobs.values():
            for placement in () if job.allocation is None else job.allocation.placements:
                rental = world.rentals.get(placement.rental)
                if rental is not None and rental.node == name and draw.random() < 0.9:
                    labels[job.run_label] = f"r{draw.choice([job.last_run, job.last_run, job.last_run, 99])}"
        if draw.random() < 0.2:
            labels[f"run.charterer.dev/{draw.choice(['gone', *sorted(world.jobs)])[:8]}"] = "r1"
        world.nodes[name] = replace(node, run_labels=labels)


@settings(max_examples=lanes.examples(60))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from([*EVENTS, labels_are_written]), max_size=10))
def test_steps_with_a_memo_are_those_without(draw: Random, events: list[Callable[[World, Random], None]]) -> None:
    world, memo, kept = some_world(draw), Memo(), Memo()
    for happens in [is_carried_out, labels_are_written, *events]:
        happens(world, draw)
        world.passes(draw.choice([0.0, 60.0]))
        snapshot = world.snapshot()
        assert next_steps(snapshot, memo) == next_steps(snapshot)
        assert kept_nodes(snapshot, kept) == kept_nodes(snapshot)
        view, jobs = LifecycleView.of(snapshot), snapshot.jobs.values()
        wrong = misplaced({job.id: Placed.of(job) for job in jobs}, snapshot.rentals, view.nodes)
        assert all(run_step(job.id, view) is None for job in jobs if goes_on(job) and job.run_label not in wrong)
        used = [
            name
            for name, rental in snapshot.rentals.items()
            if is_used(rental, view.listed.get(name), view.settled[name])
        ]
        assert all(rental_step(name, view) is None for name in used)


@settings(max_examples=lanes.examples(40))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), max_size=8))
def test_the_view_of_a_job_that_is_shown_again_is_the_view_made_anew(
    draw: Random, events: list[Callable[[World, Random], None]]
) -> None:
    world, planned, shown, counted = some_world(draw), Memo(), Memo(), Memo()
    for happens in [is_carried_out, *events]:
        happens(world, draw)
        world.passes(draw.choice([0.0, 60.0]))
        wrong = [
            Problem("TrainingJob", NAMESPACE, job.name, "spec", "ProfileNotFound", "no profile")
            for job in world.jobs.values()
            if draw.random() < 0.2
        ]
        snapshot = replace(world.snapshot(), problems=tuple(wrong))
        decided = plan(snapshot, planned)
        tallied = snapshot.jobs, snapshot.rentals, decided.jobs
        with counted.turn():
            assert Tally.of(*tallied, counted) == Tally.of(*tallied)
        again, anew = ([*viewed_objects(snapshot, decided, {}, memo)] for memo in (shown, None))
        assert [one.key for one in again] == [one.key for one in anew]
        for one, other in zip(again, anew, strict=True):
            if one.kind is kinds.TRAINING_JOBS:
                assert one._replace(make=other.make) == other
                assert one.make(snapshot) == other.make(snapshot)
