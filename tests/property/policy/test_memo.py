"""A memo makes a plan faster, never different: whatever happens between two plans, in whatever order. So does a plan
without verdicts.

A verdict that equals that of the plan before is the same object, so that its view need not be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import JobId
from charterer.domain.plan import Verdict
from charterer.incremental import Memo
from charterer.policy.planner import plan
from tests import lanes
from tests.bench.turn import busy_world
from tests.random_events import EVENTS, is_carried_out, some_world
from tests.worlds import World


@settings(max_examples=lanes.examples(36))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), min_size=3, max_size=18))
def test_a_plan_with_a_memo_is_the_plan_without(draw: Random, events: list[Callable[[World, Random], None]]) -> None:
    world, memo, untold = some_world(draw), Memo(), Memo()
    before: Mapping[JobId, Verdict] = {}
    for happens in [is_carried_out, *events]:
        happens(world, draw)
        world.passes(draw.choice([0.0, 1.0, 60.0, 20_000.0, -90.0]))
        snapshot = world.snapshot()
        decided = plan(snapshot, memo)
        assert decided == plan(snapshot)
        assert plan(snapshot, untold, verdicts=False) == replace(decided, budgets={}, classes=(), jobs={})
        assert all(before[job] is verdict for job, verdict in decided.jobs.items() if before.get(job) == verdict)
        before = decided.jobs


@settings(max_examples=lanes.examples(36))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), min_size=3, max_size=12))
def test_room_of_full_pools_that_is_kept_is_allotted_as_if_it_was_anew(
    draw: Random, events: list[Callable[[World, Random], None]]
) -> None:
    world, memo, untold = busy_world(12, classes=4, pools=2, nodes=1), Memo(), Memo()
    for happens in [is_carried_out, is_carried_out, *events]:
        happens(world, draw)
        world.passes(draw.choice([0.0, 1.0, 60.0, 20_000.0, -90.0]))
        snapshot = world.snapshot()
        decided = plan(snapshot, memo)
        assert decided == plan(snapshot)
        assert plan(snapshot, untold, verdicts=False) == replace(decided, budgets={}, classes=(), jobs={})
