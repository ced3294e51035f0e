"""Whom the gate of moves lets go anywhere, as far as nothing holds it wherever it would go."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.policy.outlook.move_gate import MoveGate
from charterer.policy.planner import solve_budgets
from tests import lanes
from tests.random_events import EVENTS, is_carried_out, some_world
from tests.worlds import World


@settings(max_examples=lanes.examples(60))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), min_size=1, max_size=9))
def test_what_holds_a_free_job_holds_it_wherever_it_would_go(
    draw: Random, events: list[Callable[[World, Random], None]]
) -> None:
    world = some_world(draw)
    for happens in [is_carried_out, *events]:
        happens(world, draw)
        world.passes(draw.choice([60.0, 20_000.0]))
    for solution in solve_budgets(world.snapshot()):
        gate = MoveGate(solution)
        for facts in [facts for group in solution.groups.values() for facts in group.runners.values()]:
            job, assignment = facts.job, solution.assignment(facts.job)
            if assignment is None or job.allocation is None or not gate.free(job):
                continue
            values, position, here = assignment.values, assignment.position(job), job.allocation.option
            for to in [end.option for end in values.entering(position)]:
                there = values.moving(here, to, position, rented=True)
                assert gate.held(job, values, position, there) == gate.closed(job, values)
