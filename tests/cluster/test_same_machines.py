"""Two GPUPools that mean the same machines, and a pool that is torn out, on a real control plane."""

from __future__ import annotations

import pytest

from charterer.cluster.paths import GPU_POOLS
from tests.testbed.bed import Bed


@pytest.mark.repeats  # tests/unit/lifecycle/test_same_machines.py; tests/property/lifecycle
async def test_a_second_pool_of_a_group_waits_until_the_first_one_is_gone(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("one")
    await bed.running("one")
    first = bed.mirror.one(GPU_POOLS, "a100")
    assert first is not None
    group = first["spec"]["fake"]
    await bed.pool("renamed", fake={**group, "endpoint": group["endpoint"].replace("127.0.0.1", "localhost")})

    def reason() -> str:
        return bed.condition(bed.mirror.one(GPU_POOLS, "renamed"), "Ready").get("reason", "")

    await bed.until(lambda: reason() == "GroupTaken")
    await bed.job("two")
    await bed.running("two")
    assert await bed.launched() == 2
    assert {rental["spec"]["pool"] for rental in bed.rentals()} == {"a100"}
    await bed.delete("GPUPool", "a100")
    await bed.kube.merge_patch(GPU_POOLS.one("a100"), {"metadata": {"finalizers": None}})
    await bed.until(lambda: bed.state("one") == bed.state("two") == "Running" and bed.run("one") == bed.run("two") == 2)
    await bed.until(lambda: {rental["spec"]["pool"] for rental in bed.rentals()} == {"renamed"})
