"""Pools of Google Cloud whose nodes are asked for by resize requests: queued, all or none, and for a time."""

from __future__ import annotations

import pytest

from charterer.domain.order import RefusalKind
from charterer.domain.pool import InstanceState
from charterer.domain.time import after, instant
from charterer.providers.errors import CloudOutcomeUnknown
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import FLEX_GROUP, TYPE, ZONE, calls_of

INSERT = "instanceGroupManagerResizeRequests.insert"
OUT = (TYPE, ZONE, "FLEX_START")


async def test_the_orders_of_a_job_are_one_request_that_waits_for_room(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    m.project.stock[OUT] = 1
    assert (await m.ask("one", "two", together=True)).refused == {}
    survey = await m.survey()
    assert survey.ordered == {"cone", "ctwo"}
    assert (survey.instances, survey.refusals) == ((), ())
    assert (survey.traits.together, survey.traits.keeps_trying) == (True, True)
    m.project.stock[OUT] = 2
    after_a_while = await m.survey()
    assert after_a_while.ordered == frozenset()
    assert {i.order for i in after_a_while.instances} == {"cone", "ctwo"}
    assert len(calls_of(m, INSERT)) == 1


async def test_the_end_of_a_node_is_known_and_comes(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    await m.ask("one")
    [instance] = (await m.survey()).instances
    [machine] = m.machines
    assert instance.ends == after(instant(machine.runs), 3600)
    m.project.clock.advance(3700)
    [ended] = (await m.survey()).instances
    assert (ended.state, ended.ended) == (InstanceState.ENDED, instance.ends)


async def test_a_request_is_repeated_by_its_name_and_asks_once(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    m.project.stock[OUT] = 0
    m.project.faults.lose_answer(INSERT, takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one", "two", together=True)
    other = gcp(FLEX_GROUP)
    await other.ask("one", "two", together=True)
    assert len(m.project.groups[ZONE, "flex"].requests) == 1
    m.project.stock[OUT] = 9
    await other.survey()
    assert len(m.truth()) == 2


async def test_a_withdrawn_request_launches_nothing_and_the_same_orders_can_be_asked_for_again(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    m.project.stock[OUT] = 0
    await m.ask("one", "two", together=True)
    await m.withdraw("two")
    m.project.stock[OUT] = 9
    assert (await m.survey()).ordered == frozenset()
    assert m.truth() == []
    await m.ask("one", "two", together=True)
    assert len(m.truth()) == 2


async def test_a_request_that_is_being_served_is_not_cancelled(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    await m.ask("one")
    await m.withdraw("one")
    assert len(m.truth()) == 1


async def test_a_quota_that_a_request_meets_is_a_refusal(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    m.project.quotas["us-central1", "PREEMPTIBLE_NVIDIA_A100_GPUS"] = 0
    await m.ask("one")
    [told] = (await m.survey()).refusals
    assert (told.kind, told.order) == (RefusalKind.QUOTA_EXCEEDED, "cone")


async def test_a_node_that_has_run_its_time_is_not_made_again(gcp: OpenGcp) -> None:
    m = gcp(FLEX_GROUP)
    await m.ask("one")
    await m.survey()
    m.project.clock.advance(3700)
    await m.survey()
    await m.ask("one")
    assert m.truth() == []
