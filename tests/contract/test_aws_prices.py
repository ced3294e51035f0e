"""Prices, interruption warnings and the preflight of pools of AWS."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Instance, PriceSegment, Survey
from charterer.domain.time import Instant, after, instant
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG
from charterer.providers.errors import CloudUnauthorized, InvalidRequest
from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.protocol import Fault
from tests.contract.aws_pools import FLEET, TYPE, AwsMarket, aws_pool
from tests.contract.conftest import OpenAws
from tests.contract.wire import CLUSTER


def cost(instance: Instance, until: Instant) -> int:
    """Micro-dollars by the instance's own price segments, by the published rule."""
    end = until if instance.ended is None else instance.ended
    cuts = [*[segment.since for segment in instance.segments][1:], end]
    total = 0
    for segment, cut in zip(instance.segments, cuts, strict=True):
        total += segment.price.cost((cut - segment.since) // 1_000_000).micros
    return total


# --- prices ----------------------------------------------------------------------------------------------------------


async def test_the_list_price_is_the_plain_one_of_its_many_rows(aws: OpenAws) -> None:
    m = aws()
    quote = await m.provider.quote(m.pool)
    assert (quote.price, quote.worst) == (Price.parse("21.957642"), Price.parse("21.957642"))
    assert (quote.billing_minimum_seconds, quote.source) == (60, "AWS price list of us-east-1")
    assert quote.as_of == instant(m.account.clock.now)


async def test_a_node_costs_what_was_quoted_for_it_from_its_launch_to_its_end(aws: OpenAws) -> None:
    m = aws()
    quote = await m.provider.quote(m.pool)
    await m.ask("short", "long")
    short, long = m.truth()
    m.account.clock.advance(7)
    await m.terminate(short)
    m.account.clock.advance(90_001)
    await m.terminate(long)
    costs = {}
    for node in (await m.survey()).instances:
        assert (node.segments, node.ended is None) == ((), False), "of one type only: the quotes say what it costs"
        seconds = ((node.ended or node.launched) - node.launched) // 1_000_000
        costs[node.id] = quote.price.cost(max(seconds, node.billing_minimum_seconds)).micros
    assert costs | {short: m.account.bill()[short]} == m.account.bill()
    assert m.account.bill()[short] == quote.price.cost(60).micros


async def test_a_list_price_is_read_again_after_some_hours(aws: OpenAws) -> None:
    m = aws()
    await m.provider.quote(m.pool)
    m.account.prices[TYPE] = Decimal("20")
    assert (await m.provider.quote(m.pool)).price == Price.parse("21.957642")
    m.account.clock.advance(6 * 3600)
    assert (await m.provider.quote(m.pool)).price == Price.parse("20")


async def test_a_type_without_a_price_is_told_unless_the_pool_says_it(aws: OpenAws) -> None:
    m = aws()
    m.account.unpriced.add(TYPE)
    with pytest.raises(InvalidRequest, match=rf"price of {TYPE}: AWS lists no price: set spec\.price\.hourly"):
        await m.provider.quote(m.pool)
    said = aws(price_override=Price.parse("18"))
    said.account.unpriced.add(TYPE)
    assert (await said.provider.quote(said.pool)).price == Price.parse("18")
    said.account.denied = {"pricing:GetProducts"}
    assert (await said.provider.quote(said.pool)).price == Price.parse("18")
    with pytest.raises(CloudUnauthorized):
        await m.provider.quote(m.pool)
    free = aws()
    free.account.denied = set()
    free.account.prices[TYPE], free.account.unpriced = Decimal(0), set()
    with pytest.raises(InvalidRequest, match="NoPrice"):
        await free.provider.quote(free.pool)


async def test_a_pool_of_several_types_is_quoted_at_the_dearest_and_billed_at_each_types_own(
    aws: OpenAws,
) -> None:
    m = aws(replace(FLEET, instance_types=("g5.24xlarge", "g5.12xlarge")))
    m.account.stock = {("g5.12xlarge", zone, "on-demand"): 1 for zone in ("us-east-1a",)}
    await m.ask("one")
    m.account.stock["g5.12xlarge", "us-east-1b", "on-demand"] = 0
    await m.ask("two")
    assert (await m.provider.quote(m.pool)).price == Price.parse("8.144")
    m.account.clock.advance(1800)
    now = instant(m.account.clock.now)
    assert {i.id: cost(i, now) for i in (await m.survey()).instances} == m.account.bill()


async def test_spot_costs_what_its_zone_costs_second_by_second_and_at_most_the_list_price(aws: OpenAws) -> None:
    m = aws(replace(FLEET, subnets=("subnet-a",)), CapacityType.SPOT)
    m.account.set_spot_price(TYPE, "us-east-1a", "8.25")
    m.account.set_spot_price(TYPE, "us-east-1b", "9")
    m.account.clock.advance(1000)
    await m.ask("one")
    launched = instant(m.account.clock.now)
    quote = await m.provider.quote(m.pool)
    assert (quote.price, quote.worst) == (Price.parse("8.25"), Price.parse("21.957642"))
    assert [segment.price for segment in quote.history] == [Price.parse("8.25")]
    await m.survey()
    m.account.clock.advance(600)
    m.account.set_spot_price(TYPE, "us-east-1a", "11")
    m.account.clock.advance(400)
    [instance] = (await m.survey()).instances
    assert instance.segments == (
        PriceSegment(launched, Price.parse("8.25")),
        PriceSegment(after(launched, 600), Price.parse("11")),
    )
    m.account.end(m.truth()[0])
    m.account.set_spot_price(TYPE, "us-east-1a", "12")
    m.account.clock.advance(10)
    [ended] = (await m.survey()).instances
    assert ended.segments == instance.segments
    assert {ended.id: cost(ended, instant(m.account.clock.now))} == m.account.bill()


async def test_a_price_change_right_before_the_end_is_billed_although_prices_were_read_a_moment_ago(
    aws: OpenAws,
) -> None:
    m = aws(replace(FLEET, subnets=("subnet-a",)), CapacityType.SPOT)
    m.account.set_spot_price(TYPE, "us-east-1a", "8")
    await m.ask("one")
    await m.survey()
    m.account.clock.advance(100)
    m.account.set_spot_price(TYPE, "us-east-1a", "10")
    m.account.clock.advance(50)
    m.account.end(m.truth()[0])
    m.account.clock.advance(5)
    [ended] = (await m.survey()).instances
    assert {ended.id: cost(ended, instant(m.account.clock.now))} == m.account.bill()


async def test_a_new_process_that_quotes_first_bills_each_zone_by_its_own_whole_history(aws: OpenAws) -> None:
    old = aws(capacity=CapacityType.SPOT)
    old.account.set_spot_price(TYPE, "us-east-1a", "8")
    old.account.set_spot_price(TYPE, "us-east-1b", "9")
    old.account.clock.advance(1000)
    await old.ask("one")
    old.account.clock.advance(600)
    old.account.set_spot_price(TYPE, "us-east-1a", "11")
    old.account.clock.advance(400)
    m = aws(capacity=CapacityType.SPOT)
    await m.provider.quote(m.pool)
    [instance] = (await m.survey()).instances
    assert [segment.price for segment in instance.segments] == [Price.parse("8"), Price.parse("11")]
    assert {instance.id: cost(instance, instant(m.account.clock.now))} == m.account.bill()


async def test_spot_without_a_history_is_told(aws: OpenAws) -> None:
    m = aws(capacity=CapacityType.SPOT)
    with pytest.raises(InvalidRequest, match="spot price"):
        await m.provider.quote(m.pool)


async def test_hundreds_of_idle_nodes_of_twenty_pools_cost_one_call_a_survey(aws: OpenAws) -> None:
    m = aws()
    pools = [aws_pool(FLEET, id=PoolId(f"p{number}"), uid=f"u{number}") for number in range(20)]
    for number in range(300):
        tags = {CLUSTER_TAG: CLUSTER, POOL_TAG: f"p{number % 20}", ORDER_TAG: f"c{number}"}
        m.account.start_by_hand(TYPE, "subnet-a", tags)
    await m.provider.survey(pools)
    await asyncio.gather(*(m.provider.quote(each) for each in pools))
    m.account.calls.clear()
    for _ in range(2):
        m.account.clock.advance(60)
        surveys = await m.provider.survey(pools)
        await asyncio.gather(*(m.provider.quote(each) for each in pools))
    assert m.account.count() == {"ec2:DescribeInstances": 2}
    assert {len(survey.instances) for survey in surveys.values() if isinstance(survey, Survey)} == {15}


# --- preflight -------------------------------------------------------------------------------------------------------


async def wrong(m: AwsMarket) -> dict[str, str]:
    """What a preflight finds wrong, by subject."""
    return {finding.subject: finding.message for finding in await m.provider.preflight(m.pool) if not finding.well}


async def test_a_fit_pool_passes_and_nothing_was_launched(aws: OpenAws) -> None:
    m = aws()
    findings = {finding.subject: finding.message for finding in await m.provider.preflight(m.pool)}
    assert await wrong(m) == {}
    assert findings == {
        "credentials": "account 111122223333 as arn:aws:sts::111122223333:assumed-role/charterer/session",
        "launch template": "gpu version 1",
        "subnets": "subnet-a in us-east-1a, subnet-b in us-east-1b: 500 free addresses",
        "GPUs": "8 × NVIDIA-A100-SXM4-40GB a node",
        "zones": "p4d.24xlarge in us-east-1a, us-east-1b",
        "right to make fleets": "EC2 would accept CreateFleet",
        "right to launch": "EC2 would launch p4d.24xlarge in subnet-a",
        "price": "$21.96/h, at most $21.96/h: AWS price list of us-east-1",
        "quota": "Running On-Demand P instances: 0 of 1000000 vCPUs are used, a node has 96, spec.maxNodes 8 fits",
    }
    assert m.machines == []


async def test_a_role_that_may_not_launch_is_found_before(aws: OpenAws) -> None:
    m = aws()
    m.account.denied = {"ec2:CreateFleet", "ec2:RunInstances"}
    found = await wrong(m)
    assert found.keys() == {"right to make fleets", "right to launch"}
    assert "UnauthorizedOperation: You are not authorized to perform: ec2:RunInstances" in found["right to launch"]


async def test_a_quota_that_a_dry_run_meets_is_found_before(aws: OpenAws) -> None:
    m = aws()
    m.account.faults.fail("ec2:RunInstances", Fault("VcpuLimitExceeded", "You have requested more vCPU capacity"))
    assert "VcpuLimitExceeded: You have requested more vCPU" in (await wrong(m))["right to launch"]


async def test_what_does_not_exist_is_named(aws: OpenAws) -> None:
    m = aws(replace(FLEET, launch_template="nope", subnets=("subnet-a", "subnet-x")))
    found = await wrong(m)
    assert "InvalidLaunchTemplateName.NotFoundException" in found["launch template"]
    assert "The subnet ID 'subnet-x' does not exist" in found["subnets"]


async def test_too_few_addresses_and_zones_without_the_type_are_told(aws: OpenAws) -> None:
    m = aws(max_nodes=8)
    m.account.add_subnet("subnet-a", "us-east-1a", free=3)
    m.account.add_subnet("subnet-b", "us-east-1b", free=2)
    m.account.not_offered = {(TYPE, "us-east-1a"), (TYPE, "us-east-1b")}
    found = await wrong(m)
    assert "5 free addresses, fewer than spec.maxNodes 8" in found["subnets"]
    assert "in no zone; not offered in us-east-1a, us-east-1b" in found["zones"]


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (("m7i.large",), "spec.aws.instanceTypes: InvalidSpec: instance type m7i.large has no GPU"),
        (("g6f.large",), "instance type g6f.large has a part of an L4 (0.125), which Charterer does not rent: take"),
        ((TYPE, "p5.48xlarge"), f"{TYPE} has 8 × A100 of 40960 MiB, p5.48xlarge has 8 × H100 of 81920 MiB"),
        (("p9.huge",), "InvalidInstanceType: The following supplied instance types do not exist: [p9.huge]"),
    ],
)
async def test_types_without_gpus_or_with_unequal_ones_are_the_users_to_change(
    aws: OpenAws, types: tuple[str, ...], said: str
) -> None:
    m = aws(replace(FLEET, instance_types=types))
    with pytest.raises(InvalidRequest) as caught:
        await m.survey()
    assert said in str(caught.value)
    assert said in (await wrong(m))["GPUs"]


async def test_a_count_that_contradicts_the_table_is_told_and_not_used(
    aws: OpenAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TYPES, TYPE, replace(TYPES[TYPE], gpus=12))
    m = aws()
    assert (await m.survey()).offering.gpus_per_node == 8
    assert (await wrong(m))["GPUs"].startswith(f"the cloud lists 12 GPUs of {TYPE}, which has 8 by Charterer's table")


async def test_the_gpu_type_that_the_spec_says_is_used(aws: OpenAws) -> None:
    m = aws(replace(FLEET, gpu_type="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"))
    assert (await m.survey()).offering.gpu_type == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
