"""Pools of AWS with a launch template, against a server made of botocore's models: what the operator may rely on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType, InstanceState, Offering, Survey
from charterer.domain.time import instant
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, RENTAL_TAG
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    Throttled,
    Transient,
    UnknownCode,
)
from tests.clouds.aws.protocol import THROTTLED, Fault
from tests.contract.aws_pools import FLEET, TYPE, aws_pool
from tests.contract.conftest import OpenAws
from tests.contract.wire import CLUSTER, of_machine

OUT = {(TYPE, zone, lifecycle): 0 for zone in ("us-east-1a", "us-east-1b") for lifecycle in ("on-demand", "spot")}


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_an_order_is_answered_with_an_instance_that_carries_it(aws: OpenAws) -> None:
    m = aws()
    reply = await m.ask("one")
    [machine] = m.machines
    assert (reply.launched, reply.refused) == ({"cone": machine.id}, {})
    tags = machine.tags_at(m.account.clock.now)
    assert {key: tags[key] for key in (CLUSTER_TAG, POOL_TAG, ORDER_TAG, RENTAL_TAG)} == {
        CLUSTER_TAG: CLUSTER,
        POOL_TAG: "aws",
        ORDER_TAG: "cone",
        RENTAL_TAG: "aws-one",
    }
    [call] = [params for name, params in m.account.calls if name == "ec2:CreateFleet"]
    assert [each["ResourceType"] for each in call["TagSpecifications"]] == ["instance", "volume"]


async def test_a_survey_tells_state_order_and_offering(aws: OpenAws) -> None:
    m = aws()
    m.account.pending_seconds = 30
    await m.ask("one")
    survey = await m.survey()
    [instance] = survey.instances
    assert (instance.state, instance.order, instance.ended, instance.node) == (
        InstanceState.PENDING,
        "cone",
        None,
        None,
    )
    assert instance.provider_id == f"aws:///us-east-1a/{instance.id}"
    assert instance.launched == survey.asked == instant(m.account.clock.now)
    assert instance.billing_minimum_seconds == 60
    node = Offering("NVIDIA-A100-SXM4-40GB", 8, TYPE, "us-east-1a,us-east-1b", traits=of_machine(96, 1_179_648))
    assert survey.offering == node
    assert (survey.target, survey.ordered, survey.refusals, survey.notices) == (None, frozenset(), (), ())
    assert survey.traits.named
    assert not survey.traits.keeps_trying
    m.account.clock.advance(30)
    assert [i.state for i in (await m.survey()).instances] == [InstanceState.RUNNING]


async def test_of_several_types_and_zones_those_with_stock_are_used(aws: OpenAws) -> None:
    m = aws(replace(FLEET, instance_types=("g5.24xlarge", "g5.12xlarge")))
    m.account.stock = {("g5.12xlarge", "us-east-1a", "on-demand"): 1, ("g5.12xlarge", "us-east-1b", "on-demand"): 1}
    for name in ("one", "two", "three"):
        await m.ask(name)
    places = [(machine.type, machine.subnet.zone) for machine in m.machines]
    assert places == [("g5.12xlarge", "us-east-1a"), ("g5.12xlarge", "us-east-1b"), ("g5.24xlarge", "us-east-1a")]
    assert m.account.bill().keys() == {i.id for i in (await m.survey()).instances}


async def test_a_launch_template_with_a_placement_group_and_a_reservation_is_used_as_the_pool_says(
    aws: OpenAws,
) -> None:
    m = aws(replace(FLEET, placement_group="pg", capacity_reservation="cr-1", subnets=("subnet-a",)))
    m.account.reservations["cr-1"] = (TYPE, "us-east-1a", 1)
    reply = await m.ask("one", "two", together=True)
    assert len(reply.launched) == 1, "a reservation gives what it has: it does not know all or nothing"
    [refusal] = reply.refused.values()
    assert (refusal.kind, refusal.scope, refusal.code) == (
        RefusalKind.STOCK_OUT,
        Scope.POOL,
        "ReservationCapacityExceeded",
    )
    assert [machine.reservation for machine in m.machines] == ["cr-1"]
    assert not (await m.survey()).traits.together


# --- tokens ----------------------------------------------------------------------------------------------------------


async def test_an_order_that_got_nothing_gets_the_same_answer_again(aws: OpenAws) -> None:
    m = aws()
    m.account.stock = dict(OUT)
    first = await m.ask("one")
    m.account.stock = {}
    assert (await m.ask("one")).refused == first.refused
    assert (await m.ask("two")).launched


async def test_many_orders_are_asked_for_one_by_one_until_the_first_refusal(aws: OpenAws) -> None:
    m = aws()
    m.account.quota["on-demand"] = 96 * 6
    names = [f"n{number}" for number in range(20)]
    reply = await m.ask(*names)
    assert (len(reply.launched), len(reply.refused)) == (6, 2)
    assert m.account.count()["ec2:CreateFleet"] == 8
    assert {refusal.code for refusal in reply.refused.values()} == {"VcpuLimitExceeded"}
    assert {(r.kind, r.scope, r.where) for r in reply.refused.values()} == {
        (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY, "P OnDemand us-east-1")
    }


async def test_what_was_launched_before_an_error_is_told_and_the_rest_is_asked_for_again(aws: OpenAws) -> None:
    m = aws()
    m.account.faults.lose_answer("ec2:CreateFleet", takes_effect=True)
    names = [f"n{number}" for number in range(6)]
    first = await m.ask(*names)
    assert (len(first.launched), len(m.truth())) == (3, 4)
    assert len((await m.ask(*names)).launched) == len(m.truth()) == 6


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_a_stock_out_in_one_zone_names_it_and_one_in_all_zones_is_the_pools(aws: OpenAws) -> None:
    here, everywhere = aws(replace(FLEET, subnets=("subnet-a",))), aws()
    here.account.stock = dict(OUT)
    [near] = (await here.ask("one")).refused.values()
    [all_zones] = (await everywhere.ask("two")).refused.values()
    assert (near.kind, near.scope, near.where) == (RefusalKind.STOCK_OUT, Scope.ZONE, f"{TYPE} OnDemand us-east-1a")
    assert (all_zones.kind, all_zones.scope, all_zones.where) == (RefusalKind.STOCK_OUT, Scope.POOL, "aws")
    assert near.code == "InsufficientInstanceCapacity"
    assert near.at == instant(here.account.clock.now)
    assert near.order == "cone"


async def test_a_spot_quota_reaches_the_spot_instances_that_it_counts(aws: OpenAws) -> None:
    m = aws(capacity=CapacityType.SPOT)
    m.account.quota["spot"] = 0
    [refusal] = (await m.ask("one")).refused.values()
    assert (refusal.kind, refusal.scope, refusal.where) == (
        RefusalKind.QUOTA_EXCEEDED,
        Scope.FAMILY,
        "P4, P3 and P2 Spot us-east-1",
    )


async def test_a_subnet_without_addresses_is_named(aws: OpenAws) -> None:
    m = aws(replace(FLEET, subnets=("subnet-a",)))
    m.account.add_subnet("subnet-a", "us-east-1a", free=0)
    [refusal] = (await m.ask("one")).refused.values()
    assert (refusal.kind, refusal.scope, refusal.where) == (RefusalKind.STOCK_OUT, Scope.SUBNET, "subnet-a")


async def test_a_code_that_nobody_knows_is_loud_and_never_a_lack_of_capacity(
    aws: OpenAws, caplog: pytest.LogCaptureFixture
) -> None:
    m = aws()
    m.account.faults.fail("ec2:CreateFleet", Fault("BrandNewCode", "surprise"))
    with pytest.raises(UnknownCode, match="BrandNewCode"):
        await m.ask("one")
    assert "unknown code BrandNewCode" in caplog.text


@pytest.mark.parametrize(
    ("template", "version", "said"),
    [
        ("nope", "1", "InvalidLaunchTemplateName.NotFoundException"),
        ("gpu", "7", "InvalidLaunchTemplateId.VersionNotFound"),
    ],
)
async def test_a_template_that_does_not_exist_is_the_users_to_change(
    aws: OpenAws, template: str, version: str, said: str
) -> None:
    m = aws(replace(FLEET, launch_template=template, version=version))
    with pytest.raises(InvalidRequest, match=said):
        await m.ask("one")


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("takes_effect", "launched"), [(True, 1), (False, 0)])
async def test_a_call_without_an_answer_has_an_unknown_outcome_and_is_sent_once(
    aws: OpenAws, takes_effect: bool, launched: int
) -> None:
    m = aws()
    m.account.faults.lose_answer("ec2:CreateFleet", takes_effect=takes_effect)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one")
    assert (len(m.truth()), m.account.count()["ec2:CreateFleet"]) == (launched, 1)
    assert list((await m.ask("one")).launched) == ["cone"]
    assert len(m.truth()) == 1


async def test_a_read_is_tried_again_and_gives_up_in_the_end(aws: OpenAws) -> None:
    m = aws()
    m.account.faults.lose_answer("ec2:DescribeInstances", takes_effect=False, times=2)
    assert (await m.survey()).instances == ()
    m.account.faults.fail("ec2:DescribeInstances", Fault("Unavailable", status=503), times=3)
    with pytest.raises(Transient):
        await m.survey()


async def test_throttling_is_told_and_not_repeated(aws: OpenAws) -> None:
    m = aws()
    m.account.faults.fail_for("*", THROTTLED, m.account.clock.now, 600)
    for _ in range(3):
        with pytest.raises(Throttled):
            await m.survey()
    with pytest.raises(Throttled) as caught:
        await m.ask("one")
    assert (caught.value.retry_after, len(m.account.calls), m.truth()) == (5.0, 4, [])
    m.account.clock.advance(601)
    assert (await m.ask("one")).launched


@pytest.mark.parametrize("fault", ["expired", "skewed"])
async def test_expired_credentials_and_a_wrong_clock_are_told_with_what_to_do(aws: OpenAws, fault: str) -> None:
    m = aws()
    await m.ask("one")
    m.account.expired = {"AKIATESTTESTTESTTEST"} if fault == "expired" else set()
    m.account.faults.clock_skew = 0 if fault == "expired" else 400
    with pytest.raises(CloudUnauthorized, match=r"RequestExpired.*the operator's clock is right"):
        await m.survey()
    with pytest.raises(CloudUnauthorized):
        await m.ask("two")
    m.account.expired, m.account.faults.clock_skew = set(), 0
    assert len(await m.held()) == 1


# --- ending ----------------------------------------------------------------------------------------------------------


async def test_terminating_ends_exactly_that_instance_and_tells_when(aws: OpenAws) -> None:
    m = aws()
    m.account.ending_seconds = 90
    await m.ask("one", "two")
    first, second = m.truth()
    m.account.clock.advance(3600)
    ended = instant(m.account.clock.now)
    await m.terminate(first)
    assert m.truth() == [second]
    [stopping] = [i for i in (await m.survey()).instances if i.id == first]
    assert stopping.state is InstanceState.STOPPING
    m.account.clock.advance(100)
    [gone] = [i for i in (await m.survey()).instances if i.id == first]
    assert (gone.state, gone.ended) == (InstanceState.ENDED, ended)
    await m.terminate(first)
    m.account.clock.advance(3600)
    assert [i.id for i in (await m.survey()).instances] == [second]
    await m.terminate(first)
    assert m.truth() == [second]


async def test_an_instance_of_another_cluster_or_pool_is_neither_seen_nor_ended(aws: OpenAws) -> None:
    m = aws()
    other = m.account.start_by_hand(TYPE, "subnet-a", {CLUSTER_TAG: "another", POOL_TAG: "aws"})
    beside = m.account.start_by_hand(TYPE, "subnet-a", {CLUSTER_TAG: CLUSTER, POOL_TAG: "beside"})
    assert (await m.survey()).instances == ()
    for machine in (other, beside):
        with pytest.raises(InvalidRequest, match="it is not ended"):
            await m.terminate(machine.id)
    assert m.truth() == [other.id, beside.id]


async def test_a_fresh_instance_that_is_not_listed_yet_is_ended_once_it_is(aws: OpenAws) -> None:
    m = aws()
    m.account.list_lag = 20
    await m.ask("one")
    [id] = m.truth()
    await m.terminate(id)
    assert m.truth() == [id], "EC2 does not know it yet, and the next list will show it"
    m.account.clock.advance(30)
    await m.terminate(id)
    assert m.truth() == []


async def test_what_somebody_ends_by_hand_is_listed_as_ended(aws: OpenAws) -> None:
    m = aws(capacity=CapacityType.SPOT)
    m.account.set_spot_price(TYPE, "us-east-1a", "8")
    await m.ask("one")
    m.account.clock.advance(600)
    m.account.end(m.truth()[0], "Server.SpotInstanceTermination", "")
    [gone] = (await m.survey()).instances
    assert (gone.state, gone.ended) == (InstanceState.ENDED, None)


# --- lists -----------------------------------------------------------------------------------------------------------


async def test_all_pools_of_an_account_are_in_one_list_of_many_pages(aws: OpenAws) -> None:
    m = aws()
    m.account.page = 3
    beside = aws_pool(FLEET, id=PoolId("beside"), uid="uid-beside")
    await m.ask(*[f"n{number}" for number in range(7)])
    m.account.start_by_hand(TYPE, "subnet-a", {CLUSTER_TAG: CLUSTER, POOL_TAG: "beside", ORDER_TAG: "cx"})
    m.account.calls.clear()
    surveys = await m.provider.survey([m.pool, beside])
    sizes = {id: len(survey.instances) for id, survey in surveys.items() if isinstance(survey, Survey)}
    assert sizes == {"aws": 7, "beside": 1}
    assert m.account.count()["ec2:DescribeInstances"] == 3


async def test_one_pools_error_hides_no_other_pool(aws: OpenAws) -> None:
    m = aws()
    wrong = aws_pool(replace(FLEET, subnets=("subnet-x",)), id=PoolId("wrong"), uid="uid-wrong")
    surveys = await m.provider.survey([wrong, m.pool])
    error = surveys[wrong.id]
    assert isinstance(error, InvalidRequest)
    assert str(error).startswith("GPUPool wrong: ec2:DescribeSubnets: InvalidSubnetID.NotFound: ")
    assert "subnet-x" in str(error)
    assert not isinstance(surveys[m.pool.id], Exception)


async def test_concurrent_calls_never_launch_twice(aws: OpenAws) -> None:
    m = aws()
    await asyncio.gather(*(m.ask("one", "two") for _ in range(6)))
    assert len(m.truth()) == 2
