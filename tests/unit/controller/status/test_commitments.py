"""What committed pools and the budgets that pay for them show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from charterer.api.models.base import dump
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import Mode, Selector
from charterer.domain.ids import PoolId
from charterer.policy.planner import plan
from tests.worlds import World


def shown(world: World, kind: str, aspect: str) -> Mapping[str, Any] | None:
    """The condition of the world's one object of the kind; None without it."""
    snapshot = world.snapshot()
    (view,) = [
        viewed.make(snapshot) for viewed in viewed_objects(snapshot, plan(snapshot), {}) if viewed.kind.name == kind
    ]
    found = [each for each in dump(view)["conditions"] if each["type"] == aspect]
    return found[0] if found else None


def world_with(nodes: int = 2, *, payer: str = "research", **budget: Any) -> World:
    world = World()
    world.budget(**budget)
    world.pool("reserved", price="16", max_nodes=nodes, committed_hours=2_000.0, payer=payer)
    return world


def kept(world: World) -> tuple[str, str, str]:
    found = shown(world, "GPUPool", "CommitmentKept")
    assert found is not None
    return found["status"], found["reason"], found["message"]


def covered(world: World) -> tuple[str, str, str]:
    found = shown(world, "GPUBudget", "CommitmentsCovered")
    assert found is not None
    return found["status"], found["reason"], found["message"]


def test_a_pool_says_that_its_nodes_are_kept_and_by_whom() -> None:
    world = world_with()
    world.rental("reserved")
    assert kept(world) == (
        "True",
        "Kept",
        "1 of 2 nodes is rented and kept until 2026-09-07T08:00Z, used or not, by GPUBudget research",
    )


@pytest.mark.parametrize(
    ("budget", "reason", "said"),
    [
        ({"max_hourly": "20"}, "HourlyLimit", "0 of 2 nodes are rented, though all are paid for until 2026-09-07"),
        ({"mode": Mode.OBSERVE}, "OnlyObserved", "GPUBudget research only observes (spec.mode), so 0 of 2 nodes are"),
        ({"pools": Selector((("tier", "x"),))}, "NotSelected", "does not select this pool (spec.poolSelector: tier=x)"),
        (
            {"name": "other"},
            "NoSuchBudget",
            "there is no GPUBudget research, so nothing is rented in this pool",
        ),
        ({"name": "reserch"}, "NoSuchBudget", "correct spec.price.committed.budget; did you mean reserch?"),
    ],
)
def test_a_pool_says_why_nodes_of_its_commitment_are_not_rented(budget: Any, reason: str, said: str) -> None:
    status, found, message = kept(world_with(**budget))
    assert (status, found) == ("False", reason)
    assert said in message


def test_a_pool_without_a_commitment_and_its_budget_say_nothing_of_one() -> None:
    world = world_with()
    world.pools[PoolId("reserved")] = replace(world.pools[PoolId("reserved")], committed=None)
    assert shown(world, "GPUPool", "CommitmentKept") is None
    assert shown(world, "GPUBudget", "CommitmentsCovered") is None


def test_a_budget_says_whether_its_money_is_enough_for_its_commitments() -> None:
    """360 hours of June are left: two nodes at $16 cost $11,520."""
    still = "nodes that are paid for whether they are used or not cost $11,520.00 until the period's end"
    assert covered(world_with(amount="12000")) == ("True", "CommitmentsCovered", still)
    low = ("False", "AmountBelowCommitments", f"{still}, and the amount leaves $9,000.00")
    assert covered(world_with(amount="10000", spent="1000")) == low
    limited = ("False", "LimitBelowCommitments", f"{still}, and the hard limit leaves $10,000.00: all nodes end before")
    assert covered(world_with(amount="20000", hard_limit="10000")) == limited
