"""Groups that take orders: each by its name, at once or as soon as there is a machine, all or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from charterer.tools.fakecloud.cloud import Failure
from charterer.tools.fakecloud.records import Machine
from tests.unit.fakecloud.world import World, config, refused

EITHER = pytest.mark.parametrize("orders", ["named", "replying"])


def world(orders: str, path: Path | None = None, **fields: Any) -> World:
    return World(config({"orders": orders, **fields}), path)


def place(of: World, *orders: str, together: bool = False) -> list[str]:
    """What became of each: its machine, the code of its failure, or that it waits."""
    return [_said(result) for result in of.cloud.place("a100", orders, together=together).values()]


def _said(result: Machine | Failure | None) -> str:
    match result:
        case Machine():
            return result.id
        case Failure():
            return result.code
        case None:
            return "waits"


@EITHER
def test_an_order_has_one_machine_however_often_it_is_placed_even_when_that_has_ended(orders: str) -> None:
    w = world(orders)
    [machine] = place(w, "c1")
    assert place(w, "c1") == [machine]
    w.cloud.terminate("a100", machine, decrement=True)
    w.wait(60)
    assert place(w, "c1") == [machine]
    assert w.alive() == []
    [other] = place(w, "c2")
    assert w.alive() == [other]


def test_a_named_order_waits_for_a_machine_until_it_is_withdrawn() -> None:
    w = world("named", stock=1, retrySeconds=30)
    place(w, "c1")
    assert place(w, "c2") == ["waits"]
    assert w.cloud.group("a100").ordered == ("c2",)
    w.cloud.change_group("a100", {"stock": 2})
    w.wait(31)
    assert len(w.alive()) == 2
    assert w.cloud.group("a100").ordered == ()
    place(w, "c3")
    w.cloud.withdraw("a100", "c3")
    w.cloud.withdraw("a100", "c3")
    w.cloud.change_group("a100", {"stock": 9})
    w.wait(100)
    assert len(w.alive()) == 2


def test_a_failed_launch_says_which_order_it_was_for() -> None:
    w = world("named", stock=0)
    place(w, "c1")
    assert [(a.order, a.code) for a in w.cloud.activities("a100")] == [("c1", "InsufficientInstanceCapacity")]


def test_a_replying_group_says_at_once_why_not_and_leaves_nothing_behind() -> None:
    w = world("replying", stock=1)
    [machine, *rest] = place(w, "c1", "c2")
    assert rest == ["InsufficientInstanceCapacity"]
    w.cloud.change_group("a100", {"stock": 9})
    w.wait(100)
    assert w.alive() == [machine]


@EITHER
def test_orders_together_are_launched_all_or_none(orders: str) -> None:
    w = world(orders, stock=2)
    assert set(place(w, "c1", "c2", "c3", together=True)) <= {"waits", "InsufficientInstanceCapacity"}
    assert w.alive() == []
    w.cloud.change_group("a100", {"stock": 3})
    w.wait(31)
    assert len(set(place(w, "c1", "c2", "c3", together=True))) == 3
    assert len(w.alive()) == 3


@EITHER
def test_a_dead_machine_is_not_replaced(orders: str) -> None:
    w = world(orders, healSeconds=5)
    [machine] = place(w, "c1")
    w.cloud.kill(machine, node_stays=False)
    w.wait(60)
    assert w.alive() == []


def test_an_order_that_has_a_machine_cannot_be_withdrawn() -> None:
    w = world("named")
    place(w, "c1")
    with refused("OrderLaunched"):
        w.cloud.withdraw("a100", "c1")


@EITHER
def test_more_orders_than_the_group_takes_are_refused_whole(orders: str) -> None:
    w = world(orders, maxSize=2)
    with refused("MaxSizeExceeded"):
        place(w, "c1", "c2", "c3")
    assert w.alive() == []


def test_each_kind_of_group_says_which_call_it_takes() -> None:
    with refused("InvalidRequest"):
        world("named").cloud.set_target("a100", 1)
    with refused("InvalidRequest"):
        place(World(config()), "c1")


def test_a_new_process_knows_the_orders_that_wait_and_those_that_were_served(tmp_path: Path) -> None:
    w = world("named", tmp_path / "cloud.db", stock=1)
    [machine] = place(w, "c1")
    place(w, "c2")
    w.reopen()
    assert w.cloud.group("a100").ordered == ("c2",)
    assert place(w, "c1") == [machine]


def test_a_target_means_nothing_to_a_group_that_takes_orders() -> None:
    """Nothing is ever due for it; a timer that fires again and again would write the state file each time."""
    world = World(config({"orders": "named", "initialTarget": 2}))
    assert (world.cloud.next_due(), world.alive()) == (None, [])
