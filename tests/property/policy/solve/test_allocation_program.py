"""Sharing out too little room: what is chosen fits onto the nodes, is never worse than one after the other, and is near
the best of all ways to share, which are tried one by one here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import PoolId
from charterer.policy.solve import linear_program
from charterer.policy.solve.linear_program import (
    NEAR,
    Allotment,
    Claimant,
    Columns,
    NodeRoom,
    Way,
    allocate,
    fits,
    minimise,
)
from tests import lanes

POOLS = (PoolId("a"), PoolId("b"))
SIZE = 4
WORK = 5_000
Free = Mapping[PoolId, tuple[int, ...]]


def places(way: Way, free: Free) -> Iterator[Free]:
    """What is free after the way was given its GPUs, in each way to do that."""
    here = free[way.pool]
    part, count = min(way.gpus, SIZE), max(way.gpus // SIZE, 1)
    fitting = [node for node, gpus in enumerate(here) if gpus >= part]
    for nodes in combinations(fitting, count):
        left = tuple(gpus - part if node in nodes else gpus for node, gpus in enumerate(here))
        yield {**free, way.pool: left}


def options(claimant: Claimant, free: Free) -> Iterator[tuple[int | None, Free]]:
    """Each way of a claimant, and what is free then."""
    if claimant.stays is None:
        yield None, free
    for at, way in enumerate(claimant.ways):
        if at == claimant.stays:
            left = tuple(gpus - dict(claimant.held).get(node, 0) for node, gpus in enumerate(free[way.pool]))
            if min(left) >= 0:
                yield at, {**free, way.pool: left}
        else:
            yield from ((at, left) for left in places(way, free))


def best(claimants: Sequence[Claimant], free: Free) -> float:
    """The most that any way to share is worth."""
    if not claimants:
        return 0.0
    first, *others = claimants
    values = ((0.0 if at is None else first.ways[at].value) + best(others, left) for at, left in options(first, free))
    return max(values, default=float("-inf"))


def can_be_placed(claimants: Sequence[Claimant], chosen: Sequence[int | None], free: Free) -> bool:
    if not claimants:
        return True
    return any(
        at == chosen[0] and can_be_placed(claimants[1:], chosen[1:], left) for at, left in options(claimants[0], free)
    )


def free_of(pools: Mapping[PoolId, NodeRoom]) -> Free:
    return {name: tuple(pool.free) for name, pool in pools.items()}


values = st.floats(-3.0, 10.0)


@st.composite
def programs(
    draw: st.DrawFn, widths: Sequence[int] = (1, 2, 4, 8), running: bool = True
) -> tuple[list[Claimant], dict[PoolId, NodeRoom]]:
    """Up to five jobs and two pools of up to three nodes; some jobs run."""
    free = {name: list(draw(st.lists(st.integers(0, SIZE), min_size=1, max_size=3))) for name in POOLS}
    pools = {name: list(gpus) for name, gpus in free.items()}
    claimants = []
    for _ in range(draw(st.integers(1, 5))):
        kinds = draw(st.sets(st.tuples(st.sampled_from(POOLS), st.sampled_from(widths)), min_size=1, max_size=3))
        ways = tuple(Way(pool, gpus, draw(values)) for pool, gpus in sorted(kinds))
        left = places(ways[0], {name: tuple(gpus) for name, gpus in free.items()})
        placed = next(left, None) if running and draw(st.booleans()) else None
        if placed is None:
            claimants.append(Claimant(ways))
            continue
        pool = ways[0].pool
        before = list(zip(free[pool], placed[pool], strict=True))
        held = tuple((node, had - gpus) for node, (had, gpus) in enumerate(before) if had > gpus)
        free[pool] = list(placed[pool])
        claimants.append(Claimant(ways, 0, held))
    return claimants, {name: NodeRoom(SIZE, tuple(gpus)) for name, gpus in pools.items()}


def solved(claimants: Sequence[Claimant], pools: Mapping[PoolId, NodeRoom]) -> Allotment:
    answer = allocate(claimants, pools, WORK)
    assert answer.value == pytest.approx(
        sum(one.ways[at].value for one, at in zip(claimants, answer.chosen, strict=True) if at is not None)
    )
    return answer


@settings(max_examples=lanes.examples(30))
@given(programs((1, 2, 3, 4, 8)))
def test_what_is_chosen_fits_onto_the_nodes_and_lies_between_the_start_and_the_bound(
    program: tuple[list[Claimant], dict[PoolId, NodeRoom]],
) -> None:
    claimants, pools = program
    answer = solved(claimants, pools)
    assert can_be_placed(claimants, answer.chosen, free_of(pools))
    assert answer.first - 1e-9 <= answer.value <= best(claimants, free_of(pools)) + 1e-9
    assert best(claimants, free_of(pools)) <= answer.bound * (1.0 + 1e-6) + 1e-9
    assert all(at is not None for one, at in zip(claimants, answer.chosen, strict=True) if one.stays is not None)


@settings(max_examples=lanes.examples(60))
@given(programs(running=False))
def test_where_each_width_divides_the_next_and_nobody_runs_it_is_the_best_of_all(
    program: tuple[list[Claimant], dict[PoolId, NodeRoom]],
) -> None:
    claimants, pools = program
    assert solved(claimants, pools).value >= (1.0 - NEAR) * best(claimants, free_of(pools)) - 1e-9


@settings(max_examples=lanes.examples(40))
@given(programs())
def test_one_more_node_adds_no_more_than_it_is_said_to_be_worth(
    program: tuple[list[Claimant], dict[PoolId, NodeRoom]],
) -> None:
    claimants, pools = program
    answer = allocate(claimants, pools, 0)
    for name, pool in pools.items():
        more = allocate(claimants, pools | {name: pool._replace(free=(*pool.free, SIZE))}, 0)
        assert more.bound <= answer.bound + answer.node_worth[name] + 1e-6


@settings(max_examples=lanes.examples(60))
@given(programs(running=False))
def test_ways_fit_just_where_they_can_be_placed_if_each_width_divides_the_next(
    program: tuple[list[Claimant], dict[PoolId, NodeRoom]],
) -> None:
    claimants, pools = program
    ways = [one.ways[0] for one in claimants]
    assert fits(ways, pools) is can_be_placed(claimants, [0] * len(claimants), free_of(pools))


@settings(max_examples=lanes.examples(200))
@given(
    columns=st.lists(st.tuples(values, st.integers(0, 3), st.integers(0, 4)), max_size=16),
    uses=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=4, max_size=4),
    limits=st.lists(st.integers(0, 6), min_size=2, max_size=2),
)
def test_a_program_that_is_begun_with_few_columns_has_the_optimum_of_all(
    columns: list[tuple[float, int, int]], uses: list[list[int]], limits: list[int]
) -> None:
    """The first column of each class, which uses nothing, is what it is begun with."""
    everything = [*((0.0, number, 0) for number in range(4)), *columns]
    costs, classes, kinds = (np.array(each) for each in zip(*everything, strict=True))
    kinds_of_uses = [[], *([(row, float(amount)) for row, amount in enumerate(used) if amount] for used in uses)]
    program = Columns(-costs, classes, kinds), kinds_of_uses, [float(limit) for limit in limits], np.arange(4)
    whole = minimise(*program)
    with patch.object(linear_program, "_FEW", 0):
        some = minimise(*program)
    assert whole is not None
    assert some is not None
    assert some.cost == pytest.approx(whole.cost, abs=1e-6)
    used = [
        sum(some.fractions[at] * dict(kinds_of_uses[kind]).get(row, 0.0) for at, kind in enumerate(kinds))
        for row in (0, 1)
    ]
    assert all(amount <= limit + 1e-6 for amount, limit in zip(used, limits, strict=True))
    assert np.bincount(classes, some.fractions) == pytest.approx(np.ones(4))


def test_the_same_program_has_the_same_answer() -> None:
    claimants = [Claimant(tuple(Way(POOLS[0], gpus, 1.0 + gpus % 3) for gpus in (1, 2, 4))) for _ in range(9)]
    pools = {POOLS[0]: NodeRoom(SIZE, (4, 3, 1))}
    assert allocate(claimants, pools, WORK) == allocate(claimants, pools, WORK)


def test_a_job_that_runs_moves_to_a_narrower_way_where_that_lets_another_run() -> None:
    wide = Claimant((Way(POOLS[0], 4, 5.0), Way(POOLS[0], 2, 4.0)), 0, ((0, 4),))
    answer = allocate([wide, Claimant((Way(POOLS[0], 2, 3.0),))], {POOLS[0]: NodeRoom(SIZE, (4,))}, WORK)
    assert answer.chosen == (1, 0)
    assert (answer.value, answer.first) == (7.0, 5.0)


def test_a_running_job_makes_room_at_a_loss_where_the_room_is_worth_more_to_another() -> None:
    runs = Claimant((Way(POOLS[0], 4, 1.0), Way(POOLS[0], 1, -0.5)), stays=0, held=((0, 4),))
    waits = Claimant((Way(POOLS[0], 2, 5.0),))
    answer = solved([runs, waits], {POOLS[0]: NodeRoom(SIZE, (4,))})
    assert answer.chosen == (1, 0)
    assert answer.value == pytest.approx(4.5)
    assert answer.bound >= 4.5
