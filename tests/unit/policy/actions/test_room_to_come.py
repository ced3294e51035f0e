"""When GPUs of a pool come free together, and that each of them is given to one job at a time."""

from __future__ import annotations

from math import factorial, inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.policy.actions.admission.room_waits import HeldRoom, RoomToCome, used
from charterer.policy.nodes.pool_room import PoolRoom
from tests import lanes

POOL = PoolId("a100")


def option(gpus: int) -> Option:
    return Option(POOL, gpus, 1.0, Price(0))


def room(free: dict[str, int], *held: tuple[str, int, float], size: int = 4) -> RoomToCome:
    there = {RentalId(name): gpus for name, gpus in free.items()}
    runs = [HeldRoom(POOL, RentalId(name), gpus, seconds) for name, gpus, seconds in held]
    return RoomToCome({POOL: PoolRoom(size, there)}, runs)


def test_what_is_free_is_free_now_and_what_runs_hold_when_they_end() -> None:
    there = room({"one": 1}, ("one", 2, 60.0), ("one", 1, 90.0))
    assert [there.wait(option(gpus)) for gpus in (1, 2, 3, 4)] == [0.0, 60.0, 60.0, 90.0]


def test_gpus_of_two_nodes_are_not_put_together() -> None:
    there = room({"one": 2, "two": 2}, ("one", 2, 60.0), ("two", 2, 30.0))
    assert there.wait(option(4)) == 30.0
    assert there.wait(option(8)) == 60.0


def test_what_strangers_hold_and_more_nodes_than_there_are_is_never_free() -> None:
    there = room({"one": 2})
    assert there.wait(option(4)) == inf
    assert there.wait(option(8)) == inf


def test_what_is_given_to_one_job_is_free_for_the_next_one_when_that_ends() -> None:
    there = room({"one": 0}, ("one", 4, 60.0))
    there.take(option(4), 100.0)
    assert there.wait(option(4)) == 160.0
    there.take(option(4), 10.0)
    assert there.wait(option(2)) == 170.0


def test_a_job_below_a_node_gets_a_node_in_use_before_one_that_is_wholly_free() -> None:
    there = room({"one": 4, "two": 2}, ("two", 2, 60.0))
    there.take(option(2), 100.0)
    assert there.wait(option(4)) == 0.0


@settings(max_examples=lanes.examples(200))
@given(
    ends=st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=3),
    jobs=st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 9)), max_size=12),
)
def test_no_gpu_is_given_to_two_jobs_at_once(ends: list[list[int]], jobs: list[tuple[int, int]]) -> None:
    """At each instant the jobs have no more GPUs than there are beside the runs that still go on."""
    free = {str(number): sum(end == 0 for end in node) for number, node in enumerate(ends)}
    held = [(str(number), 1, float(end)) for number, node in enumerate(ends) for end in node if end]
    there = room(free, *held)
    given_to = []
    for gpus, seconds in jobs:
        at = there.wait(option(gpus))
        if at < inf:
            there.take(option(gpus), float(seconds))
            given_to.append((at, at + seconds, gpus))
    for now, _, _ in given_to:
        taken = sum(gpus for begin, end, gpus in given_to if begin <= now < end)
        assert taken + sum(end > now for node in ends for end in node) <= 4 * len(ends)


@pytest.mark.parametrize(("offered", "places"), [(0.3, 1), (1.0, 1), (1.7, 3), (9.0, 4), (2.0, 12)])
def test_the_use_of_places_is_that_of_erlangs_loss_formula(offered: float, places: int) -> None:
    terms = [offered**count / factorial(count) for count in range(places + 1)]
    assert isclose(used(offered, places), offered * (1.0 - terms[-1] / sum(terms)) / places, rel_tol=1e-6)
