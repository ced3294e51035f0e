"""Nodes by their free GPUs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import RentalId
from charterer.policy.nodes.placement import NodesByFreeGpus


@given(st.lists(st.integers(0, 8), max_size=12), st.integers(1, 8))
def test_the_fullest_node_that_fits_is_the_one_a_search_finds(free: list[int], gpus: int) -> None:
    nodes = NodesByFreeGpus()
    for at, each in enumerate(free):
        nodes.put(RentalId(f"n-{at:02}"), 8)
        nodes.put(RentalId(f"n-{at:02}"), each)
    fitting = [(each, f"n-{at:02}") for at, each in enumerate(free) if each >= gpus]
    assert nodes.fullest(gpus) == (min(fitting)[1] if fitting else None)
