"""Whole lives on machines of Google Cloud: rented, run on, given back and billed."""

from __future__ import annotations

import pytest

from charterer.cluster.paths import GPU_POOLS
from charterer.domain.time import instant, parse_instant, seconds_between
from tests.testbed.call_killer import CallKiller, around
from tests.testbed.gcp_bed import GPU_TYPE, TYPE, GcpBed, provider_id


@pytest.mark.parametrize(
    "group", [pytest.param(False, marks=pytest.mark.repeats), True], ids=["template", "group"]
)  # a template: tests/contract/test_gcp_bulk.py
async def test_a_job_runs_on_two_machines_that_are_ended_after_it_and_paid_to_the_second(
    gcp_bed: GcpBed, group: bool
) -> None:
    """Those of the group are spot machines."""
    bed, here = gcp_bed, gcp_bed.project
    bed.operator()
    await bed.gcp_pool(group=group, spot=group)
    await bed.budget()
    await bed.job("train", gpus=16, spotPolicy="Allowed")
    await bed.running("train")
    machines, rentals = here.alive(), {raw["status"]["instance"]: raw for raw in bed.rentals()}
    assert {str(vm.id) for vm in machines} == rentals.keys()
    assert len(machines) == 2
    for vm in machines:
        rental = rentals[str(vm.id)]
        assert rental["status"]["providerId"] == provider_id(vm)
        assert rental["status"]["node"] == vm.name
        assert abs(seconds_between(parse_instant(rental["status"]["launchedAt"]), instant(vm.launched))) < 0.001
    pool = bed.mirror.one(GPU_POOLS, "gcp")
    assert pool is not None
    offering, quote = pool["status"]["offering"], pool["status"]["quote"]
    assert (offering["gpuType"], offering["gpusPerNode"], offering["instanceType"]) == (GPU_TYPE, 8, TYPE)
    assert float(quote["hourly"]) == pytest.approx(float(here.prices[TYPE, group]))
    assert quote["asOf"].startswith(f"{here.clock.now:%Y-%m-%d}")
    here.clock.advance(500)
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not here.alive())
    assert len(here.instances) == 2


_CALLS = {"instanceGroupManagers.createInstances", "instanceGroupManagers.deleteInstances"}
"""The calls that rent and release a machine of a group."""


@pytest.mark.long
@pytest.mark.repeats  # of what test_aws.py shows, with another vendor's calls
@pytest.mark.timeout(600)
async def test_killed_around_every_call_each_of_two_machines_is_made_once(gcp_bed: GcpBed) -> None:
    """Of templates each call is tried in tests/contract/test_gcp_bulk.py."""
    bed, here = gcp_bed, gcp_bed.project
    operator = bed.operator()
    killer = here.witness = CallKiller(operator, around(_CALLS))
    async with operator.revived():
        await bed.gcp_pool(group=True)
        await bed.budget()
        await bed.job("train", gpus=16)
        await bed.running("train", seconds=240)
        assert len(here.instances) == 2
        await bed.finish("train")
        await bed.complete("train", seconds=180)
        await bed.until(lambda: not here.alive(), 180)
        await bed.settle()
        await bed.until(lambda: not bed.rentals())
    assert len(here.instances) == 2
    assert killer.points == set(), "calls around which the operator was not killed"
