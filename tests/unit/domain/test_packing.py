"""How many GPUs a job takes of its nodes: every shape against a search over all ways to put its pods there."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from charterer.domain.offered_node import pods_on_node, taken

UP_TO = 16


@cache
def fewest_nodes(pods: int, each: int, size: int, most: int | None) -> int | None:
    """The least number of nodes on which the pods can be, by trying how many go onto the first."""
    if not pods:
        return 0
    ways = [
        1 + rest
        for here in range(1, pods + 1)
        if here * each <= size and (most is None or here <= most)
        if (rest := fewest_nodes(pods - here, each, size, most)) is not None
    ]
    return min(ways, default=None)


@pytest.mark.parametrize("size", range(1, UP_TO + 1))
def test_pods_take_the_fewest_nodes_that_hold_them(size: int) -> None:
    for pods, each, most in itertools.product(range(1, UP_TO + 1), range(1, UP_TO + 1), (None, 1, 2, 3, 5)):
        nodes, takes = fewest_nodes(pods, each, size, most), taken(pods * each, size, each, most)
        if nodes is None:
            assert takes is None
        elif nodes == 1:
            assert takes is not None
            assert pods * each <= takes <= size
        else:
            assert takes == nodes * size


@pytest.mark.parametrize("size", range(1, UP_TO + 1))
def test_jobs_that_share_a_node_by_their_gpus_also_have_the_other_resources_that_they_ask_for(size: int) -> None:
    """Each pod of a job takes one part in ``most`` of its node."""
    for one, other in itertools.combinations_with_replacement(range(1, UP_TO + 1), 2):
        for gpus, more in itertools.product(range(1, size + 1), repeat=2):
            first, second = taken(gpus, size, 0, one), taken(more, size, 0, other)
            assert first is not None
            assert second is not None
            if first + second <= size:
                assert gpus + more <= size
                assert 1 / one + 1 / other <= 1.0


def test_as_many_pods_share_a_node_as_it_has_processors_for() -> None:
    """Pods of 1 GPU with 32 of 96 processors each, on nodes of 8: one takes 3 GPUs, three take all."""
    assert [taken(pods, 8, 1, 3) for pods in (1, 2, 3, 4)] == [3, 6, 8, 16]


def test_one_pod_on_each_node_needs_all_of_it_from_one_node_on() -> None:
    assert [taken(gpus, 8) for gpus in (4, 8, 12, 16)] == [4, 8, None, 16]


def test_a_node_that_takes_no_pod_takes_no_job() -> None:
    assert taken(1, 8, 0, 0) is None
    assert taken(1, 8, 1, 0) is None
    assert pods_on_node(8, 3) == 2


def test_a_width_that_pods_do_not_make_up_is_none() -> None:
    assert taken(5, 8, 2) is None
