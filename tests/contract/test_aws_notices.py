"""What AWS says before it takes an instance back: events on a queue, and the ends of Capacity Blocks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType, Survey
from charterer.domain.time import Instant, after, instant
from charterer.providers.errors import CloudUnauthorized
from tests.contract.aws_pools import FLEET, QUEUE, TYPE, AwsMarket, later
from tests.contract.conftest import OpenAws

# --- warnings --------------------------------------------------------------------------------------------------------


def warning(m: AwsMarket, instance: str, kind: str = "EC2 Spot Instance Interruption Warning") -> str:
    """An event as EventBridge puts it on a queue."""
    detail = {"instance-id": instance, "instance-action": "terminate"}
    event = {"source": "aws.ec2", "detail-type": kind, "time": later(m.account, 0), "detail": detail}
    return json.dumps(event)


async def spot_node(aws: OpenAws) -> AwsMarket:
    m = aws(replace(FLEET, queue=QUEUE), CapacityType.SPOT)
    m.account.set_spot_price(TYPE, "us-east-1a", "8")
    await m.ask("one")
    return m


async def test_a_warning_is_told_until_its_time_has_passed_also_by_a_new_process(aws: OpenAws) -> None:
    m = await spot_node(aws)
    m.account.warn(warning(m, m.truth()[0]))
    ends = after(instant(m.account.clock.now), 120)
    for _ in range(2):
        [notice] = (await m.survey()).notices
        assert (notice.instance, notice.at) == (m.truth()[0], ends)
    m.account.clock.advance(30)
    again = aws(replace(FLEET, queue=QUEUE), CapacityType.SPOT)
    assert [n.at for n in (await again.survey()).notices] == [ends], "the message was still in the queue"
    m.account.clock.advance(100)
    assert (await m.survey()).notices == ()
    assert m.account.queue == []


async def test_what_a_queue_says_of_others_or_of_nothing_is_taken_off_it(
    aws: OpenAws, caplog: pytest.LogCaptureFixture
) -> None:
    m = await spot_node(aws)
    m.account.warn(warning(m, "i-0123456789abcdef0"))
    m.account.warn("no json")
    m.account.warn('["no", "event"]')
    m.account.warn("[" * 100_000)
    m.account.warn(warning(m, m.truth()[0]).replace(f'"{m.truth()[0]}"', '["a list"]'))
    for _ in range(12):
        m.account.warn(warning(m, m.truth()[0], "EC2 Instance State-change Notification"))
    assert (await m.survey()).notices == ()
    assert len(m.account.queue) == 1, "the other's warning, until its time has passed"
    assert "is no event of EC2: no json" in caplog.text
    m.account.clock.advance(130)
    await m.survey()
    assert m.account.queue == []


async def test_a_recommendation_to_rebalance_says_that_an_instance_may_go_and_counts_for_an_hour(aws: OpenAws) -> None:
    m = await spot_node(aws)
    m.account.warn(warning(m, m.truth()[0], "EC2 Instance Rebalance Recommendation"))
    [notice] = (await m.survey()).notices
    assert (notice.certain, notice.at, notice.why) == (False, None, "EC2 Instance Rebalance Recommendation")
    m.account.warn(warning(m, m.truth()[0]))
    assert [(n.certain, n.at is None) for n in (await m.survey()).notices] == [(True, False), (False, True)]
    m.account.clock.advance(3601)
    assert (await m.survey()).notices == ()
    assert m.account.queue == []


async def test_a_queue_that_several_pools_name_is_read_once_for_all_of_them(aws: OpenAws) -> None:
    m = await spot_node(aws)
    cloud = replace(FLEET, queue=QUEUE, subnets=("subnet-b",))
    other = replace(m.pool, id=PoolId("other"), cloud=cloud)
    m.account.warn(warning(m, m.truth()[0]))
    m.account.calls.clear()
    answers = await m.provider.survey([other, m.pool])
    told = {name: len(survey.notices) for name, survey in answers.items() if isinstance(survey, Survey)}
    assert told == {"other": 0, "aws": 1}
    assert m.account.count()["sqs:ReceiveMessage"] == 1


async def test_a_queue_that_cannot_be_read_is_an_error_of_each_pool_that_names_it(aws: OpenAws) -> None:
    m = await spot_node(aws)
    pools = [replace(m.pool, id=PoolId(name)) for name in ("a", "b")]
    deaf = replace(m.pool, id=PoolId("c"), cloud=FLEET)
    m.account.denied.add("sqs:ReceiveMessage")
    answers = await m.provider.survey([*pools, deaf])
    for name in ("a", "b"):
        error = answers[PoolId(name)]
        assert isinstance(error, CloudUnauthorized)
        assert str(error).startswith(f"GPUPool {name}: sqs:ReceiveMessage: AccessDenied")
    assert isinstance(answers[PoolId("c")], Survey)


@pytest.mark.parametrize(
    "kind",
    [
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Interruptible Capacity Reservation Instance Interruption Warning",
    ],
)
async def test_instances_in_reservations_that_can_be_interrupted_are_warned_of_too(aws: OpenAws, kind: str) -> None:
    m = aws(replace(FLEET, queue=QUEUE))
    await m.ask("one")
    m.account.warn(warning(m, m.truth()[0], kind))
    assert [n.at for n in (await m.survey()).notices] == [after(instant(m.account.clock.now), 120)]


# --- Capacity Blocks -------------------------------------------------------------------------------------------------


async def block(aws: OpenAws, hours: float) -> AwsMarket:
    """A pool in a Capacity Block that ends after so many hours."""
    m = aws(replace(FLEET, capacity_reservation="cr-1", subnets=("subnet-a",)))
    m.account.reservations["cr-1"] = (TYPE, "us-east-1a", 2)
    m.account.blocks["cr-1"] = m.account.clock.now + timedelta(hours=hours)
    return m


async def ends_of(m: AwsMarket) -> list[Instant | None]:
    """The ends of the instances, as the survey has them."""
    return [instance.ends for instance in (await m.survey()).instances]


async def test_an_instance_in_a_capacity_block_says_when_ec2_ends_it(aws: OpenAws) -> None:
    m = await block(aws, 3)
    await m.ask("one")
    assert await ends_of(m) == [after(instant(m.account.clock.now), 2.5 * 3600)]


async def test_a_block_that_is_extended_ends_later(aws: OpenAws) -> None:
    m = await block(aws, 1)
    await m.ask("one")
    [before] = await ends_of(m)
    assert before is not None
    m.account.blocks["cr-1"] += timedelta(days=1)
    m.account.clock.advance(61)
    assert await ends_of(m) == [after(before, 86_400.0)]


async def test_nothing_is_launched_into_a_block_that_ends_before_the_node_is_of_use(aws: OpenAws) -> None:
    m = await block(aws, 0.7)
    reply = await m.ask("one", "two")
    assert [(r.kind, r.scope, r.where, r.code) for r in reply.refused.values()] == [
        (RefusalKind.STOCK_OUT, Scope.POOL, "cr-1", "CapacityBlockEnds")
    ] * 2
    assert "ec2:CreateFleet" not in m.account.count()


async def test_a_reservation_that_is_no_block_has_no_end(aws: OpenAws) -> None:
    m = await block(aws, 0.1)
    m.account.blocks.clear()
    assert len((await m.ask("one")).launched) == 1
    before = m.account.count()["ec2:DescribeCapacityReservations"]
    assert await ends_of(m) == [None]
    assert m.account.count()["ec2:DescribeCapacityReservations"] == before


async def test_the_end_that_was_read_counts_while_it_cannot_be_read_again(
    aws: OpenAws, caplog: pytest.LogCaptureFixture
) -> None:
    m = await block(aws, 3)
    await m.ask("one")
    ends = await ends_of(m)
    m.account.denied = {"ec2:DescribeCapacityReservations"}
    m.account.clock.advance(145 * 60)
    assert await ends_of(m) == ends != [None]
    assert "ec2:DescribeCapacityReservations: UnauthorizedOperation" in caplog.text


async def test_preflight_says_when_a_block_ends(aws: OpenAws) -> None:
    m = await block(aws, 24)
    found = {finding.subject: finding.message for finding in await m.provider.preflight(m.pool)}
    assert found["capacity reservation"] == (
        f"cr-1: 2 of 2 {TYPE} are free; EC2 ends its instances from 2026-11-01 23:30 UTC on"
    )
