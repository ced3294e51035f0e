"""Groups of the fake cloud that take orders: by name, or with a reply."""

from __future__ import annotations

import asyncio

import pytest

from charterer.domain.ids import OrderToken
from charterer.domain.order import Reply
from charterer.providers.errors import CloudOutcomeUnknown, QuotaExceeded
from tests.contract.conftest import OpenMarket

EITHER = pytest.mark.parametrize("orders", ["named", "replying"])


async def test_a_group_says_what_it_can_do(market: OpenMarket) -> None:
    counted, named, replying = [await market(orders=orders) for orders in ("counted", "named", "replying")]
    traits = [(await m.survey()).traits for m in (counted, named, replying)]
    assert [(t.named, t.keeps_trying, t.together) for t in traits] == [
        (False, True, False),
        (True, True, True),
        (True, False, True),
    ]
    assert [(await m.survey()).target for m in (counted, named, replying)] == [0, None, None]


@EITHER
async def test_each_instance_says_for_which_order_it_is_and_the_same_order_again_launches_nothing(
    market: OpenMarket, orders: str
) -> None:
    m = await market(orders=orders)
    first = await m.ask("c1", "c2")
    assert await m.ask("c1", "c2") == first
    survey = await m.survey()
    assert {instance.order for instance in survey.instances} == {"c1", "c2"}
    assert (first.launched, first.refused) == ({i.order: i.id for i in survey.instances}, {})
    await asyncio.gather(*(m.ask("c1", "c2", "c3") for _ in range(8)))
    assert len(await m.truth()) == 3


@EITHER
async def test_an_answer_that_is_lost_after_the_effect_is_found_out_by_the_same_order(
    market: OpenMarket, orders: str
) -> None:
    m = await market(orders=orders)
    await m.fault("lost-answer", "POST")
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("c1")
    [instance] = (await m.survey()).instances
    assert instance.order == "c1"
    assert (await m.ask("c1")).launched == {"c1": instance.id}
    assert await m.truth() == [instance.id]


async def test_a_named_order_that_waits_is_on_record_with_its_refusal_until_it_is_withdrawn(market: OpenMarket) -> None:
    m = await market(orders="named", stock=0, retrySeconds=3600)
    assert await m.ask("c1") == Reply()
    survey = await m.survey()
    assert survey.ordered == {"c1"}
    [refusal] = survey.refusals
    assert (refusal.order, refusal.code) == ("c1", "InsufficientInstanceCapacity")
    await m.withdraw("c1")
    await m.withdraw("c1")
    await m.change(stock=9, retrySeconds=0.01)
    assert (await m.survey()).ordered == frozenset()
    assert await m.truth() == []


async def test_an_order_launched_while_it_is_withdrawn_is_left_to_the_next_survey(market: OpenMarket) -> None:
    m = await market(orders="named")
    await m.ask("c1")
    await m.withdraw("c1")
    [instance] = (await m.survey()).instances
    assert instance.order == "c1"


async def test_a_reply_says_of_each_order_what_became_of_it(market: OpenMarket) -> None:
    m = await market(orders="replying", stock=1)
    reply = await m.ask("c1", "c2")
    assert list(reply.launched) == ["c1"]
    refusal = reply.refused[OrderToken("c2")]
    assert (refusal.order, refusal.where, refusal.code) == ("c2", m.group.group, "InsufficientInstanceCapacity")
    survey = await m.survey()
    assert (survey.ordered, survey.refusals) == (frozenset(), ())


@EITHER
async def test_together_is_all_or_nothing(market: OpenMarket, orders: str) -> None:
    m = await market(orders=orders, stock=2, retrySeconds=3600)
    reply = await m.ask("c1", "c2", "c3", together=True)
    assert (reply.launched, await m.truth()) == ({}, [])
    await m.change(stock=3)
    await m.ask("c1", "c2", "c3", together=True)
    await m.ask("c4", "c5", "c6", together=True)
    assert len(await m.truth()) in (0, 3), "what waits is tried again after its pause"


@EITHER
async def test_more_than_the_group_takes_is_a_limit(market: OpenMarket, orders: str) -> None:
    m = await market(orders=orders, maxSize=1)
    with pytest.raises(QuotaExceeded):
        await m.ask("c1", "c2")
    assert await m.truth() == []


@EITHER
async def test_an_instance_is_ended_without_a_target_to_lower(market: OpenMarket, orders: str) -> None:
    m = await market(orders=orders)
    await m.ask("c1", "c2")
    first, second = (await m.survey()).instances
    await m.terminate(first.id)
    await m.terminate(first.id)
    assert await m.truth() == [second.id]
    assert (await m.ask("c1")).launched == {"c1": first.id}, "a token is never used again"


async def test_a_preflight_says_what_the_group_sells_and_what_does_not_fit(market: OpenMarket) -> None:
    m = await market(maxSize=3)
    sells, size = await m.provider.preflight(m.pool)
    assert (sells.well, size.well) == (True, False)
    assert "fake.a100-4x in fake-1a at $12.80" in sells.message
    assert f"spec.maxNodes is {m.pool.max_nodes}, and the group takes 3" in size.message
