"""Whole lives on machines of AWS: rented, run on, given back and billed, with the operator killed around every call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from charterer.cluster.paths import EVENTS, GPU_POOLS
from charterer.domain.time import instant, parse_instant
from charterer.providers.aws.permissions import ORDER_TAG, RENEWED_TAG, RENTAL_TAG
from tests.clouds.aws.protocol import THROTTLED
from tests.testbed.aws_bed import GPU_TYPE, KEY, TYPE, AwsBed, node_name, open_aws_bed, provider_id
from tests.testbed.call_killer import CallKiller, around
from tests.testbed.controlplane import ControlPlane

_FLEET_OR_GROUP = pytest.mark.parametrize(
    "group", [False, pytest.param(True, marks=pytest.mark.repeats)], ids=["fleet", "group"]
)
"""A group: tests/contract/test_aws_group.py."""


@_FLEET_OR_GROUP
async def test_a_job_runs_on_two_machines_that_are_ended_after_it_and_paid_to_the_second(
    aws_bed: AwsBed, group: bool
) -> None:
    """Those of the fleet are spot machines, whose price changes while the job runs. All are renewed meanwhile."""
    bed, here = aws_bed, aws_bed.account
    bed.operator()
    await bed.aws_pool(group=group, spot=not group, abandon=1800)
    await bed.budget()
    await bed.job("train", gpus=16, spotPolicy="Allowed")
    await bed.running("train")
    machines, rentals = here.alive(), {raw["status"]["instance"]: raw for raw in bed.rentals()}
    assert {machine.id for machine in machines} == rentals.keys()
    assert len(machines) == 2
    for machine in machines:
        rental, tags = rentals[machine.id], machine.tags_at(here.clock.now)
        assert tags[RENTAL_TAG] == rental["metadata"]["name"]
        assert rental["status"]["providerId"] == provider_id(machine)
        assert rental["status"]["node"] == node_name(machine)
        assert parse_instant(rental["status"]["launchedAt"]) == instant(machine.launched)
    assert len({machine.tags_at(here.clock.now)[ORDER_TAG] for machine in machines}) == 2
    pool = bed.mirror.one(GPU_POOLS, "aws")
    assert pool is not None
    offering, quote = pool["status"]["offering"], pool["status"]["quote"]
    assert (offering["gpuType"], offering["gpusPerNode"], offering["instanceType"]) == (GPU_TYPE, 8, TYPE)
    assert quote["hourly"] == ("21.957642" if group else "9.50")
    here.clock.advance(200)
    here.set_spot_price(TYPE, "us-east-1a", "11.25")
    here.set_spot_price(TYPE, "us-east-1b", "10.75")
    here.clock.advance(300)
    await bed.until(lambda: all(RENEWED_TAG in machine.tags_at(here.clock.now) for machine in machines))
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not here.alive())
    assert all(cost > 21_957_642 // 24 if group else cost > 1_300_000 for cost in here.bill().values())


async def test_a_role_that_expires_and_a_throttled_account_cost_a_running_job_nothing(aws_bed: AwsBed) -> None:
    """The pool says what is wrong; what was wanted meanwhile is rented and ended once the account answers again."""
    bed, here = aws_bed, aws_bed.account
    bed.operator()
    await bed.aws_pool()
    await bed.budget()
    await bed.job("first", gpus=8)
    await bed.running("first")
    here.expired = {KEY}
    await bed.job("second", gpus=8)
    await bed.until(lambda: "RequestExpired" in _cloud_says(bed))
    assert bed.state("first") == "Running"
    here.expired = set()
    await bed.running("second")
    assert len(here.machines) == 2
    here.faults.fail_for("*", THROTTLED, here.clock.now, 600)
    await bed.finish("first")
    await bed.complete("first")
    await bed.until(lambda: "RequestLimitExceeded" in _cloud_says(bed))
    assert len(here.alive()) == 2
    assert bed.state("second") == "Running"
    here.clock.advance(601)
    await bed.until(lambda: len(here.alive()) == 1)
    assert len(here.machines) == 2


_BLOCK_SECONDS = 60.0
"""For how long the Capacity Block lasts by the operator's clock."""
_BLOCK_BEHIND = 900.0
"""By how much the account's clock is behind: EC2 is not asked for a node in a block that ends in ten minutes."""


@pytest.mark.repeats  # tests/contract/test_aws_notices.py; the move: test_faults.py
async def test_a_job_leaves_a_capacity_block_in_time_to_save_its_work(installed: ControlPlane, tmp_path: Path) -> None:
    """It goes on in another pool before EC2 would end its node."""
    async with open_aws_bed(installed, tmp_path, behind_seconds=_BLOCK_BEHIND) as bed:
        here = bed.account
        ends = datetime.now(UTC) + timedelta(seconds=_BLOCK_SECONDS)
        here.reservations["cr-0001"] = (TYPE, "us-east-1a", 1)
        here.blocks["cr-0001"] = ends + timedelta(minutes=30)
        bed.operator()
        await bed.aws_pool("block", reservation="cr-0001", maxNodes=1)
        await bed.budget()
        await bed.job("train", gpus=8)
        await bed.running("train")
        await bed.kube.merge_patch(GPU_POOLS.one("block"), {"spec": {"maxNodes": 0}})  # it is asked for no other node
        await bed.aws_pool("later")
        await bed.running_again("train", after=1)
        [first] = bed.tj("train")["runs"]
        assert first["outcome"] == "Stopped"
        events = await bed.kube.list(EVENTS.all(bed.namespace))
        assert [event for event in events.items if "the job leaves it first, to save its work" in event["note"]]
        assert parse_instant(first["until"]) < instant(ends)
        await bed.until(lambda: [machine.reservation for machine in here.alive()] == [None])
        await bed.finish("train")
        await bed.complete("train")
        await bed.close()


def _cloud_says(bed: AwsBed) -> str:
    """Why the pool is not ready."""
    return bed.condition(bed.mirror.one(GPU_POOLS, "aws"), "Ready").get("message", "")


_CALLS = {
    False: {"ec2:CreateFleet", "ec2:TerminateInstances"},
    True: {"autoscaling:LaunchInstances", "ec2:CreateTags", "autoscaling:TerminateInstanceInAutoScalingGroup"},
}
"""The calls that rent and release a machine: of a fleet, and of a group."""


@pytest.mark.long
@pytest.mark.timeout(300)
@_FLEET_OR_GROUP
async def test_killed_around_every_call_each_of_two_machines_is_launched_once(aws_bed: AwsBed, group: bool) -> None:
    """Lists lag, so that the next operator asks again for what the one before was given."""
    bed, here = aws_bed, aws_bed.account
    here.list_lag = 6
    operator = bed.operator()
    killer = here.witness = CallKiller(operator, around(_CALLS[group]))
    async with operator.revived():
        await bed.aws_pool(group=group)
        await bed.budget()
        await bed.job("train", gpus=16)
        await bed.running("train")
        assert len(here.machines) == 2
        await bed.finish("train")
        await bed.complete("train")
        await bed.until(lambda: not here.alive())
        await bed.settle()
        await bed.until(lambda: not bed.rentals())
    assert len(here.machines) == 2
    assert killer.points == set(), "calls around which the operator was not killed"
