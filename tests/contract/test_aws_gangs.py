"""Nodes of AWS that a job needs at once: launched together, all or none in one zone, and each named afterwards."""

from __future__ import annotations

import asyncio

import pytest

from charterer.domain.order import RefusalKind
from charterer.providers.aws import fleet
from charterer.providers.errors import CloudOutcomeUnknown
from tests.clouds.aws.protocol import Fault
from tests.clouds.faults import AnswerLost
from tests.contract.aws_pools import TYPE
from tests.contract.conftest import OpenAws


async def test_orders_that_are_needed_together_come_in_one_zone_or_not_at_all(aws: OpenAws) -> None:
    m = aws()
    m.account.stock = {(TYPE, "us-east-1a", "on-demand"): 2, (TYPE, "us-east-1b", "on-demand"): 3}
    reply = await m.ask("one", "two", "three", together=True)
    assert sorted(reply.launched) == ["cone", "cthree", "ctwo"]
    assert {machine.subnet.zone for machine in m.machines} == {"us-east-1b"}
    none = await m.ask("four", "five", "six", together=True)
    assert (none.launched, len(m.truth())) == ({}, 3)
    assert {refusal.kind for refusal in none.refused.values()} == {RefusalKind.STOCK_OUT}
    assert none.refused.keys() == {"cfour", "cfive", "csix"}


async def test_more_than_tags_can_name_come_one_by_one(aws: OpenAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MOST_TOGETHER", 2)
    m = aws()
    m.account.stock = {(TYPE, "us-east-1a", "on-demand"): 2, (TYPE, "us-east-1b", "on-demand"): 0}
    reply = await m.ask("one", "two", "three", together=True)
    assert (len(reply.launched), len(reply.refused)) == (2, 1)


async def test_after_a_lost_answer_the_same_orders_get_the_instances_that_were_launched(aws: OpenAws) -> None:
    m = aws()
    m.account.list_lag = 30
    m.account.faults.lose_answer("ec2:CreateFleet", takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one", "two", together=True)
    reply = await m.ask("one", "two", together=True)
    assert (sorted(reply.launched), len(m.truth())) == (["cone", "ctwo"], 2)
    m.account.clock.advance(40)
    assert await m.held() == {id: token for token, id in reply.launched.items()}


async def test_whose_instance_it_is_follows_from_the_tags_of_all_when_the_own_tag_could_not_be_set(
    aws: OpenAws,
) -> None:
    m = aws()
    m.account.faults.fail("ec2:CreateTags", Fault("InternalError", status=500), times=2)
    reply = await m.ask("one", "two", together=True)
    assert await m.held() == {id: token for token, id in reply.launched.items()}
    assert (await m.ask("one", "two", together=True)).launched == reply.launched
    assert len(m.truth()) == 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("named", [0, 1, 2])
async def test_a_process_that_dies_while_it_names_what_was_launched_together_leaves_nothing_to_be_launched_twice(
    aws: OpenAws, when: str, named: int
) -> None:
    """``named``: instances whose tags were being set, or were set, before the one around which it dies."""
    m, left = aws(), named
    dying = asyncio.create_task(m.ask("one", "two", "three", together=True))
    loop = asyncio.get_running_loop()

    def die(at: str, call: str) -> None:
        nonlocal left
        if (at, call) == (when, "ec2:CreateTags"):
            left -= 1
            if left < 0:
                loop.call_soon_threadsafe(dying.cancel)
                raise AnswerLost

    m.account.witness = die
    with pytest.raises(asyncio.CancelledError):
        await dying
    m.account.witness = lambda at, call: None
    again = aws()
    m.account.list_lag = 30
    blind = await again.ask("one", "two", "three", together=True)
    m.account.list_lag = 0
    reply = await again.ask("one", "two", "three", together=True)
    assert blind.launched == reply.launched
    assert (sorted(reply.launched), len(m.machines)) == (["cone", "cthree", "ctwo"], 3)
    assert await again.held() == {id: token for token, id in reply.launched.items()}


async def test_an_order_of_a_group_is_not_launched_again_when_the_others_already_have_their_nodes(aws: OpenAws) -> None:
    m = aws()
    first = await m.ask("one", "two", "three", together=True)
    reply = await m.ask("two", "three", together=True)
    assert reply.launched == {token: id for token, id in first.launched.items() if token != "cone"}
    assert len(m.truth()) == 3


async def test_a_list_that_shows_only_some_of_those_launched_together_names_no_wrong_order(aws: OpenAws) -> None:
    m = aws()
    m.account.faults.fail("ec2:CreateTags", Fault("InternalError", status=500), times=3)
    reply = await m.ask("one", "two", "three", together=True)
    hidden = m.account.machines.pop(min(reply.launched.values()))
    assert await m.held() == {}, "too early to tell which of the three are listed"
    m.account.machines[hidden.id] = hidden
    assert await m.held() == {id: token for token, id in reply.launched.items()}
