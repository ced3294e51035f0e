"""Whole lives on VMs of Azure: rented, run on, given back and billed, with the operator killed around every call."""

from __future__ import annotations

import pytest

from charterer.cluster.paths import GPU_POOLS
from charterer.domain.time import instant, parse_instant
from tests.lanes import repeats
from tests.testbed.azure_bed import GPU_TYPE, SIZE, AzureBed
from tests.testbed.call_killer import CallKiller, around


@pytest.mark.parametrize("kind", ["flexible", *repeats("uniform", "aks")])  # uniform, aks: below
async def test_a_job_runs_on_two_machines_that_are_ended_after_it_and_paid_for(azure_bed: AzureBed, kind: str) -> None:
    bed, sub = azure_bed, azure_bed.subscription
    bed.operator()
    await bed.azure_pool(kind)
    await bed.budget()
    await bed.job("train", gpus=16)
    await bed.running("train")
    vms, rentals = bed.alive(), {raw["status"]["instance"]: raw for raw in bed.rentals()}
    assert {vm.vm_id for vm in vms} == rentals.keys()
    assert len(vms) == 2
    for vm in vms:
        status = rentals[vm.vm_id]["status"]
        assert (status["node"], status["providerId"].rpartition("/")[2]) == (vm.computer, vm.id.rpartition("/")[2])
        assert parse_instant(status["launchedAt"]) == instant(vm.created)
    pool = bed.mirror.one(GPU_POOLS, "azure")
    assert pool is not None
    offering, quote = pool["status"]["offering"], pool["status"]["quote"]
    assert (offering["gpuType"], offering["gpusPerNode"], offering["instanceType"]) == (GPU_TYPE, 8, SIZE)
    assert quote["hourly"] == "27.197"
    bed.let_lists_show_all()
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not bed.alive())
    assert all(cost > 0 for cost in sub.bill().values())


async def test_a_stock_out_cools_the_pool_and_the_vms_without_a_host_are_deleted(azure_bed: AzureBed) -> None:
    """Its cause is read from the failed VMs themselves; the job runs once there are hosts again."""
    bed, sub = azure_bed, azure_bed.subscription
    bed.operator()
    sub.stock[SIZE, sub.location, "Regular"] = 0
    scale_set = await bed.azure_pool("uniform", cooldownSeconds=1)
    await bed.budget()
    await bed.job("train", gpus=8)
    await bed.until(lambda: "AllocationFailed" in str((bed.mirror.one(GPU_POOLS, "azure") or {}).get("status")))
    await bed.until(lambda: (scale_set.capacity, bed.alive()) == (0, []))
    assert sub.bill() == dict.fromkeys(sub.vms, 0)
    sub.stock.clear()
    await bed.running("train")
    assert len(bed.alive()) == 1
    bed.let_lists_show_all()
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not bed.alive())


_CALLS = {"agent_pools_create_or_update", "agent_pools_delete_machines"}
"""The calls that rent and release a machine of AKS."""


@pytest.mark.long
@pytest.mark.repeats  # of what test_aws.py shows, with another vendor's calls
@pytest.mark.timeout(600)
async def test_killed_around_every_call_two_machines_are_launched_and_no_third(azure_bed: AzureBed) -> None:
    """Of the other kinds each call is tried in tests/contract/test_azure_crashes.py."""
    bed, sub = azure_bed, azure_bed.subscription
    operator = bed.operator()
    killer = sub.witness = CallKiller(operator, around(_CALLS))
    async with operator.revived():
        await bed.azure_pool("aks")
        await bed.budget()
        await bed.job("train", gpus=16)
        await bed.running("train", seconds=240)
        assert len(sub.vms) == 2
        bed.let_lists_show_all()
        await bed.finish("train")
        await bed.complete("train", seconds=180)
        await bed.until(lambda: not bed.alive(), 180)
        await bed.settle()
        await bed.until(lambda: not bed.rentals())
    assert len(sub.vms) == 2
    assert killer.points == set(), "calls around which the operator was not killed"


_BACK = 600
"""Seconds."""


@pytest.mark.parametrize("kind", ["aks", *repeats("uniform")])  # uniform: tests/contract/test_azure_scaling.py
async def test_a_machine_with_the_number_of_one_that_is_gone_is_another(azure_bed: AzureBed, kind: str) -> None:
    """Its path, providerID and Node are those of the machine before it, whose end no list has proved yet."""
    bed = azure_bed
    bed.subscription.clock.advance(-_BACK)  # so that it is never ahead of the operator's, whatever is let pass below
    bed.operator()
    await bed.azure_pool(kind, reuses_numbers=True)
    await bed.budget()
    await bed.job("first", gpus=8)
    await bed.running("first")
    (former,) = bed.alive()
    bed.let_lists_show_all()
    await bed.finish("first")
    await bed.complete("first")
    await bed.until(lambda: not bed.alive())
    await bed.job("next", gpus=8)
    await bed.running("next")
    (vm,) = bed.alive()
    assert (vm.computer, vm.vm_id == former.vm_id) == (former.computer, False)
    assert len(bed.subscription.vms) == 2
    bed.let_lists_show_all()
    await bed.until(lambda: [raw["status"]["instance"] for raw in bed.rentals()] == [vm.vm_id])
    node = bed.pods("next")[0]["spec"]["nodeName"]
    assert node == vm.computer
    assert bed.state("next") == "Running"
    await bed.finish("next")
    await bed.complete("next")
    bed.subscription.clock.advance(_BACK)
