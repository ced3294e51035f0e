"""Pools of AWS with an Auto Scaling group: what the operator may rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import OrderToken
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType, InstanceState
from charterer.providers.aws.calls import Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, RENTAL_TAG
from charterer.providers.errors import AtMinSize, Busy, CloudOutcomeUnknown, InvalidRequest, NotFoundInCloud
from tests.clouds.aws.protocol import Fault
from tests.contract.aws_pools import GROUP, REGION, TYPE, AwsMarket, aws_pool
from tests.contract.conftest import OpenAws
from tests.contract.wire import CLUSTER, Wire, own_cluster


async def test_an_order_is_launched_into_the_group_and_tagged(aws: OpenAws) -> None:
    m = aws(GROUP)
    reply = await m.ask("one")
    [machine] = m.machines
    assert reply.launched == {"cone": machine.id}
    tags = machine.tags_at(m.account.clock.now)
    assert (machine.group, tags[ORDER_TAG], tags[RENTAL_TAG]) == ("gpu-group", "cone", "aws-one")
    assert m.account.groups["gpu-group"].desired == 1
    survey = await m.survey()
    assert [(i.order, i.state) for i in survey.instances] == [("cone", InstanceState.RUNNING)]
    assert survey.offering.group_id == "arn:aws:autoscaling:us-east-1:111122223333:autoScalingGroup:x:gpu-group"
    assert not survey.traits.together


async def test_an_instance_that_ec2_does_not_know_yet_is_tagged_seconds_later(aws: OpenAws, aws_clients: Sdk) -> None:
    """EC2 need not know at once what EC2 Auto Scaling has launched. Without the tag no survey tells it for a minute."""
    here = aws(GROUP).account
    here.list_lag = 3

    async def sleep(seconds: float) -> None:
        here.clock.advance(seconds)

    provider = AwsCloud(REGION, "", own_cluster, Wire(aws_clients), lambda: here.clock.now.timestamp(), sleep)
    await AwsMarket(here, provider, aws_pool(GROUP)).ask("one")
    await provider.close()
    [machine] = here.machines.values()
    assert machine.tags_at(here.clock.now)[ORDER_TAG] == "cone"
    assert here.count()["ec2:CreateTags"] == 4


async def test_one_zone_after_the_other_is_tried_and_the_same_order_gets_the_same_instance(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.stock[TYPE, "us-east-1a", "on-demand"] = 0
    first = await m.ask("one")
    assert [machine.subnet.zone for machine in m.machines] == ["us-east-1b"]
    m.account.stock = {}
    assert await m.ask("one") == first
    assert len(m.truth()) == 1


async def test_a_stock_out_everywhere_is_the_pools_and_a_quota_is_asked_for_once(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.stock = {(TYPE, zone, "on-demand"): 0 for zone in ("us-east-1a", "us-east-1b")}
    [out] = (await m.ask("one")).refused.values()
    assert (out.kind, out.scope, m.account.count()["autoscaling:LaunchInstances"]) == (
        RefusalKind.STOCK_OUT,
        Scope.POOL,
        2,
    )
    m.account.quota["on-demand"] = 0
    [limited] = (await m.ask("two")).refused.values()
    assert (limited.kind, limited.where) == (RefusalKind.QUOTA_EXCEEDED, "P OnDemand us-east-1")
    assert m.account.count()["autoscaling:LaunchInstances"] == 3


async def test_an_instance_without_its_tag_is_not_told_until_the_order_is_asked_for_again(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.faults.lose_answer("autoscaling:LaunchInstances", takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one")
    assert len(m.truth()) == 1
    assert await m.held() == {}
    reply = await m.ask("one")
    assert await m.held() == {id: token for token, id in reply.launched.items()}
    assert len(m.truth()) == 1


@pytest.mark.parametrize("others", [(), ("two",)])
async def test_a_machine_whose_answer_was_lost_in_the_second_zone_is_not_launched_again_in_the_first(
    aws: OpenAws, others: tuple[str, ...]
) -> None:
    """A zone that had no room may have some by the next try, and a call that launched nothing may then launch."""
    m = aws(GROUP)
    m.account.stock[TYPE, "us-east-1a", "on-demand"] = 0
    m.account.faults.lose_answer("autoscaling:LaunchInstances", takes_effect=True, after=1)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one")
    [machine] = m.machines
    m.account.stock = {}
    m.account.tokens = {key: call for key, call in m.account.tokens.items() if call[1]["Instances"]}
    reply = await m.ask("one", *others)
    assert reply.launched[OrderToken("cone")] == machine.id
    assert len(m.truth()) == 1 + len(others)


async def test_an_instance_that_nobody_asked_for_again_is_told_once_a_list_must_have_shown_its_tag(
    aws: OpenAws,
) -> None:
    m = aws(GROUP)
    m.account.faults.lose_answer("autoscaling:LaunchInstances", takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one")
    m.account.clock.advance(61)
    [instance] = (await m.survey()).instances
    assert (instance.id, instance.order) == (m.truth()[0], None)


async def test_ending_lowers_the_groups_size_and_nothing_takes_the_instances_place(aws: OpenAws) -> None:
    m = aws(GROUP)
    await m.ask("one", "two")
    first, second = m.truth()
    await m.terminate(first)
    await m.terminate(first)
    assert (m.truth(), m.account.groups["gpu-group"].desired) == ([second], 1)


async def test_an_instance_that_was_taken_out_of_its_group_is_ended_all_the_same(aws: OpenAws) -> None:
    m = aws(GROUP)
    await m.ask("one")
    m.machines[0].group = None
    await m.terminate(m.truth()[0])
    assert m.truth() == []


async def test_a_group_that_was_given_a_minimum_says_so(aws: OpenAws) -> None:
    m = aws(GROUP)
    await m.ask("one")
    m.account.groups["gpu-group"].least = 1
    with pytest.raises(AtMinSize, match="minSize"):
        await m.terminate(m.truth()[0])


async def test_a_group_that_is_busy_is_asked_again_later(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.faults.fail("autoscaling:LaunchInstances", Fault("ResourceContention", "busy", 409))
    with pytest.raises(Busy):
        await m.ask("one")
    assert (await m.ask("one")).launched


async def test_a_group_that_chooses_its_instance_types_by_requirements_is_the_users_to_change(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.groups["gpu-group"].types = (TYPE, "")
    with pytest.raises(InvalidRequest, match=r"spec.aws.autoScalingGroup: an override of gpu-group names no instance"):
        await m.survey()


async def test_a_group_that_does_not_exist_is_the_users_to_change(aws: OpenAws) -> None:
    m = aws(replace(GROUP, auto_scaling_group="nope"))
    with pytest.raises(NotFoundInCloud, match=r"spec.aws.autoScalingGroup: .*'nope' in us-east-1"):
        await m.survey()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tags": {POOL_TAG: "aws"}}, f"the tag {CLUSTER_TAG} is missing: set it to '{CLUSTER}'"),
        ({"tags": {CLUSTER_TAG: CLUSTER, POOL_TAG: "b"}}, f"the tag {POOL_TAG} 'b' is another's: set it to 'aws'"),
        ({"least": 1}, "MinSize is 1: set it to 0"),
        ({"suspended": ("AZRebalance",)}, "suspend the processes ReplaceUnhealthy, InstanceRefresh"),
        ({"max_lifetime": 86400}, "MaxInstanceLifetime is 86400 s: remove it"),
        ({"warm": True}, "delete the warm pool"),
        ({"lifecycle": "spot"}, "it launches Spot nodes, but spec.capacityType is OnDemand"),
        ({"on_demand_percent": 50}, "it launches OnDemand and Spot nodes"),
    ],
)
async def test_a_group_that_would_end_add_or_hide_nodes_is_never_used(
    aws: OpenAws, change: dict[str, Any], said: str
) -> None:
    m = aws(GROUP)
    m.account.groups["gpu-group"] = replace(m.account.groups["gpu-group"], **change)
    with pytest.raises(InvalidRequest) as caught:
        await m.ask("one")
    assert said in str(caught.value)
    assert m.truth() == []
    assert any(said in finding.message for finding in await m.provider.preflight(m.pool) if not finding.well)


async def test_policies_and_schedules_that_change_the_groups_size_are_found_before(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.groups["gpu-group"].policies = ("scale-out",)
    m.account.groups["gpu-group"].scheduled = ("nightly",)
    [wrong] = [finding for finding in await m.provider.preflight(m.pool) if not finding.well]
    assert wrong.message.startswith("scale-out, nightly would add or end nodes")


async def test_a_fit_group_passes_its_preflight_and_can_sell_spot(aws: OpenAws) -> None:
    m = aws(GROUP, CapacityType.SPOT)
    m.account.groups["gpu-group"].lifecycle = "spot"
    for zone in ("us-east-1a", "us-east-1b"):
        m.account.set_spot_price(TYPE, zone, "9.5")
    findings = await m.provider.preflight(m.pool)
    assert [finding.message for finding in findings if not finding.well] == []
    await m.ask("one")
    assert [machine.lifecycle for machine in m.machines] == ["spot"]
