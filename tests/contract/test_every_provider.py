"""What the operator relies on, whatever the cloud: every case on every provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from charterer.domain.money import Price
from charterer.domain.order import RefusalKind
from charterer.domain.pool import InstanceState
from charterer.providers.errors import CloudOutcomeUnknown, CloudUnauthorized, ProviderError, Throttled
from tests.contract.aws_pools import FLEET, GROUP
from tests.contract.azure_world import AzureWorld
from tests.contract.conftest import OpenAws, OpenAzure, OpenGcp, OpenMarket
from tests.contract.every_world import AwsWorld, FakeWorld, World
from tests.contract.gcp_pools import GROUP as GCP_GROUP
from tests.contract.gcp_pools import TEMPLATE
from tests.contract.gcp_world import GcpWorld
from tests.contract.karpenter_world import KarpenterPrices, KarpenterWorld

FAKE = ("fake counting", "fake named", "fake replying")
AWS = ("aws fleet", "aws group")
GCP = ("gcp group", "gcp bulk")
AZURE = ("azure uniform", "azure flexible", "azure aks")


@pytest.fixture(params=[*FAKE, *AWS, *GCP, *AZURE, "karpenter claims"])
async def world(
    request: pytest.FixtureRequest,
    market: OpenMarket,
    aws: OpenAws,
    gcp: OpenGcp,
    azure_market: OpenAzure,
    karpenter_prices: KarpenterPrices,
) -> AsyncIterator[World]:
    """A pool of each cloud, in each way that it can be asked."""
    made: World
    cloud, kind = request.param.split()
    if cloud == "fake":
        orders = "counted" if kind == "counting" else kind
        made = FakeWorld(await market(orders=orders), await market())
    elif cloud == "karpenter":
        made = KarpenterWorld(karpenter_prices)
    elif cloud == "azure":
        made = AzureWorld(partial(azure_market, kind))
    elif cloud == "gcp":
        made = GcpWorld(partial(gcp, GCP_GROUP if kind == "group" else TEMPLATE))
    else:
        made = AwsWorld(partial(aws, FLEET if kind == "fleet" else GROUP))
    yield made
    await made.provider.close()


@pytest.fixture
async def karpenter_prices() -> AsyncIterator[KarpenterPrices]:
    """Karpenter's metrics."""
    prices = KarpenterPrices()
    await prices.start()
    yield prices
    await prices.stop()


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_an_order_that_is_repeated_launches_one_machine(world: World) -> None:
    for _ in range(3):
        await world.ask("one")
    assert len(await world.truth()) == 1
    await world.ask("one", "two")
    assert len(await world.truth()) == 2


async def test_asking_many_times_at_once_launches_each_order_once(world: World) -> None:
    await asyncio.gather(*(world.ask("one", "two", "three") for _ in range(6)))
    assert len(await world.truth()) == 3


async def test_each_instance_is_told_with_its_order_where_the_cloud_knows_it(world: World) -> None:
    await world.ask("one", "two")
    survey = await world.survey()
    assert sorted(i.order or "-" for i in survey.instances) == (["cone", "ctwo"] if survey.traits.named else ["-", "-"])
    assert {i.id for i in survey.instances} == set(await world.truth())
    assert len({i.provider_id for i in survey.instances}) == 2


async def test_an_answer_that_is_lost_after_the_effect_is_followed_by_no_second_machine(world: World) -> None:
    await world.lose(takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await world.ask("one")
    assert len(await world.truth()) == 1
    await world.ask("one")
    assert [i.id for i in (await world.survey()).instances] == list(await world.truth())


async def test_a_request_that_is_lost_has_launched_nothing(world: World) -> None:
    await world.lose(takes_effect=False)
    with pytest.raises(CloudOutcomeUnknown):
        await world.ask("one")
    assert list(await world.truth()) == []
    await world.ask("one")
    assert len(await world.truth()) == 1


async def test_an_error_although_the_machine_was_created_is_an_unknown_outcome(world: World) -> None:
    await world.fail_although_created()
    with pytest.raises(CloudOutcomeUnknown):
        await world.ask("one")
    await world.ask("one")
    assert len(await world.truth()) == 1


async def test_a_list_that_lags_leads_to_no_second_machine(world: World) -> None:
    await world.let_lists_lag()
    for _ in range(3):
        await world.ask("one")
        assert (await world.survey()).instances == ()
    assert len(await world.truth()) == 1
    await world.recover()
    assert [i.id for i in (await world.survey()).instances] == list(await world.truth())


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_a_stock_out_is_told_as_one(world: World) -> None:
    await world.set_stock(1)
    await world.ask("one")
    told = await world.refusals(await world.ask("two"))
    assert {refusal.kind for refusal in told} == {RefusalKind.STOCK_OUT}
    assert {refusal.code for refusal in told} == {world.stock_out}
    assert len(await world.truth()) == 1


async def test_an_exhausted_quota_is_told_as_one(world: World) -> None:
    await world.set_quota(1)
    await world.ask("one")
    told = await world.refusals(await world.ask("two"))
    assert {refusal.kind for refusal in told} == {RefusalKind.QUOTA_EXCEEDED}
    assert len(await world.truth()) == 1


async def test_a_group_that_is_full_says_so_and_refuses_what_is_too_many_alone(world: World) -> None:
    told = await world.limit_group(2)
    assert (await world.survey()).offering.group_size == told
    await world.ask("one", "two")
    if told is not None:
        with pytest.raises(ProviderError) as refused:
            await world.ask("three")
        assert refused.value.refuses in (RefusalKind.QUOTA_EXCEEDED, RefusalKind.INVALID_REQUEST)
        findings = {finding.subject: finding for finding in await world.provider.preflight(world.pool)}
        assert not findings["size"].well
        assert "the group takes 2: lower maxNodes" in findings["size"].message
    assert len(await world.truth()) == 2


async def test_ten_minutes_of_throttling_launch_and_end_nothing(world: World) -> None:
    await world.ask("one")
    await world.throttle()
    with pytest.raises(Throttled) as caught:
        await world.ask("one", "two")
    assert caught.value.retry_after > 0
    with pytest.raises(Throttled):
        await world.survey()
    assert len(await world.truth()) == 1
    await world.recover()
    await world.ask("one", "two")
    assert len(await world.truth()) == 2


async def test_credentials_that_expire_in_the_middle_are_told_and_nothing_is_forgotten(world: World) -> None:
    await world.ask("one")
    [id] = await world.truth()
    await world.expire_credentials()
    for call in (world.survey, lambda: world.ask("one", "two"), lambda: world.terminate(id)):
        with pytest.raises(CloudUnauthorized, match="credentials"):
            await call()
    assert list(await world.truth()) == [id]
    await world.recover()
    assert [i.id for i in (await world.survey()).instances] == [id]


# --- ending ----------------------------------------------------------------------------------------------------------


async def test_exactly_the_instance_that_is_named_is_ended_and_nothing_takes_its_place(world: World) -> None:
    await world.ask("one", "two", "three")
    first, second, third = sorted(await world.truth())
    await world.terminate(second)
    await world.terminate(second)
    assert sorted(await world.truth()) == [first, third]
    ended = {i.id: i for i in (await world.survey()).instances}
    assert [i.state for i in ended.values() if i.id == second] == [InstanceState.ENDED] * world.tells_ends
    assert all(i.ended is not None for i in ended.values() if i.id == second)


async def test_an_instance_can_be_ended_while_it_starts(world: World) -> None:
    await world.let_starts_take_long()
    await world.ask("one", "two")
    survey = await world.survey()
    assert {i.state for i in survey.instances} == {InstanceState.PENDING}
    await world.terminate(survey.instances[0].id)
    assert list(await world.truth()) == [survey.instances[1].id]


async def test_what_is_not_there_has_been_ended(world: World) -> None:
    await world.terminate("i-0123456789abcdef0")
    assert list(await world.truth()) == []


async def test_an_instance_that_somebody_ends_by_hand_is_told_as_ended(world: World) -> None:
    await world.ask("one")
    [id] = await world.truth()
    await world.end_by_hand(id)
    if not world.tells_ends:
        assert (await world.survey()).instances == ()
        return
    [instance] = [i for i in (await world.survey()).instances if i.id == id]
    assert (instance.state, instance.ended is not None) == (InstanceState.ENDED, True)


async def test_what_somebody_else_has_in_the_account_is_neither_listed_nor_ended(world: World) -> None:
    other = await world.start_elsewhere()
    await world.ask("one")
    assert other not in [i.id for i in (await world.survey()).instances]
    for id in await world.truth():
        await world.terminate(id)
    assert list(await world.elsewhere()) == [other]


# --- a process that dies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes_effect", [True, False], ids=["after the call", "before the call"])
async def test_a_process_that_dies_while_it_rents_leaves_one_machine_to_the_next(
    world: World, takes_effect: bool
) -> None:
    await world.lose(takes_effect=takes_effect)
    with pytest.raises(CloudOutcomeUnknown):
        await world.ask("one")
    await world.restart()
    await world.survey()
    await world.ask("one")
    [instance] = (await world.survey()).instances
    assert [instance.id] == list(await world.truth())
    assert instance.order in ("cone", None)


@pytest.mark.parametrize("takes_effect", [True, False], ids=["after the call", "before the call"])
async def test_a_process_that_dies_while_it_ends_a_machine_leaves_the_others_alone(
    world: World, takes_effect: bool
) -> None:
    await world.ask("one", "two")
    first, second = sorted(await world.truth())
    await world.lose_end(takes_effect=takes_effect)
    with pytest.raises(CloudOutcomeUnknown):
        await world.terminate(first)
    await world.restart()
    await world.terminate(first)
    assert list(await world.truth()) == [second]
    if (await world.survey()).traits.named:
        await world.ask("one", "two")
    assert list(await world.truth()) == [second], "an order whose machine was ended is not served again"


# --- money -----------------------------------------------------------------------------------------------------------


async def test_a_changed_price_is_quoted(world: World) -> None:
    before = await world.provider.quote(world.pool)
    await world.set_price("7.5")
    after = await world.provider.quote(world.pool)
    assert before.price != after.price == Price.parse("7.5")
    assert after.source
    assert after.as_of >= before.as_of


async def test_a_preflight_finds_a_pool_that_is_fit_to_be_rented_in(world: World) -> None:
    found = await world.provider.preflight(world.pool)
    assert [finding.message for finding in found if not finding.well] == []
    assert list(await world.truth()) == []
