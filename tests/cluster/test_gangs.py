"""A cloud with one node fewer than a job needs at once, where it can launch all or none and where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS
from charterer.domain.money import Money
from tests.testbed.bed import Bed, group


def _orders(orders: str, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(orders, marks=[pytest.mark.groups(group("a100", orders=orders, stock=1)), *marks])


# "replying" without a cluster: tests/property/lifecycle/test_one_node_short.py
@pytest.mark.parametrize("orders", [_orders("named"), _orders("replying", pytest.mark.repeats)])
async def test_a_cloud_that_launches_all_or_none_bills_nothing_until_it_has_all(bed: Bed, orders: str) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("wide", gpus=8)
    await bed.until(lambda: (bed.mirror.one(GPU_POOLS, "a100") or {}).get("status", {}).get("state") == "Cooling")
    assert await bed.launched() == 0
    await bed.cloud.admin("PUT", "/groups/a100", {"stock": 2})
    await bed.running("wide")
    assert await bed.launched() == 2
    assert {rental["spec"]["gang"]["nodes"] for rental in bed.rentals()} == {2}


@pytest.mark.groups(group("a100", stock=1))
async def test_the_machine_of_an_incomplete_gang_is_given_back_and_its_cost_named(bed: Bed) -> None:
    bed.operator()
    await bed.pool(cooldownSeconds=60)  # longer than a gang is waited for
    await bed.budget()
    await bed.job("wide", gpus=8)

    def in_vain() -> Money:
        status = (bed.mirror.one(GPU_BUDGETS, "team") or {}).get("status", {})
        pools = status.get("costs", {}).get("pools", [])
        return Money.parse(pools[0].get("incompleteGang", "0")) if pools else Money(0)

    await bed.until(lambda: in_vain() > Money(0))
    await bed.given_back()
    _, bill = await bed.bill()
    await bed.until(lambda: in_vain().micros == bill)
    assert await bed.launched() == 1
