"""Room is shared out where a pool is full or a gang does not fit, else never: the plan is what it was without that."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.job import Job
from charterer.domain.node_demands import node_offers
from charterer.domain.offered_node import offered_node, taken
from charterer.domain.pool import Pool
from charterer.domain.rental import RentalPhase
from charterer.policy import plan
from tests import lanes
from tests.property.policy.test_plan_invariants import worlds
from tests.worlds import World

SHARE_OUT = "charterer.policy.actions.admission.shortage.allocate"
SHARE_ROOM = "charterer.policy.actions.admission.queue.allot_room"


def with_nodes_for_all(world: World) -> World:
    """The world with pools that answer, and may have just as many nodes as all jobs could want beside what is there."""
    world.unsurveyed.clear()
    for name, pool in world.pools.items():
        wanted = sum(_most_nodes(job, pool) for job in world.jobs.values())
        live = sum(rental.pool == name and rental.phase is not RentalPhase.ENDED for rental in world.rentals.values())
        world.pools[name] = replace(pool, max_nodes=live + wanted, cooled=(), deleting=False)
    return world


def _most_nodes(job: Job, pool: Pool) -> int:
    """The nodes that it takes at its largest width, with the GPUs that its pods leave empty."""
    size, each = pool.gpus_per_node or 1, job.widths.each
    pods = dict(node_offers({pool.id: offered_node(pool)}).limits(job.demands, each)).get(pool.id)
    return -(-(taken(job.widths.max, size, each, pods) or job.widths.max) // size)


@st.composite
def with_odd_widths(draw: st.DrawFn) -> World:
    """Jobs of 3 or 5 GPUs beside others: a node may not hold two of them."""
    world = draw(worlds())
    for number in range(draw(st.integers(0, 4))):
        world.job(f"odd{number}", gpus=draw(st.sampled_from([3, 5, 6])), profile=draw(st.sampled_from([None, "sft"])))
    return world


@settings(max_examples=lanes.examples(150))
@given(with_odd_widths())
def test_where_no_pool_is_full_the_plan_is_the_same_without_the_exact_answer(world: World) -> None:
    snapshot = with_nodes_for_all(world).snapshot()
    with patch(SHARE_OUT, side_effect=AssertionError("no pool is full")):
        decided = plan(snapshot)
    with patch(SHARE_ROOM, lambda *_: None):
        assert decided == plan(snapshot)
