"""The fake cloud's adapter against the real process: what the operator may rely on."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from charterer.domain.ids import InstanceId, NodeName
from charterer.domain.money import Price
from charterer.domain.node_demands import NodeTraits
from charterer.domain.order import RefusalKind
from charterer.domain.pool import InstanceState, Offering, Survey
from charterer.domain.time import parse_instant
from charterer.providers.accounts import Accounts
from charterer.providers.errors import (
    AtMinSize,
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InsufficientCapacity,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
    UnknownCode,
    WouldTerminate,
)
from charterer.providers.fake import FakeCloud
from charterer.providers.guarded import Guards
from tests.contract.conftest import GROUP, OpenMarket
from tests.contract.pools import EMPTY, Market, pool
from tests.factory import fake_group
from tests.testbed.fakecloud import FakeCloudProcess


async def bill_of(m: Market) -> dict[str, int]:
    """Micro-dollars by instance of the group."""
    lines, _ = await m.cloud.bill()
    return {line.instance: line.micros for line in lines if line.group == m.group.group}


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_a_survey_tells_target_instances_and_offering(market: OpenMarket) -> None:
    m = await market(startupSeconds=[3600], billingMinimumSeconds=60, listedSeconds=77)
    await m.raise_to(2)
    survey = await m.survey()
    assert survey.target == 2
    room = (("cpu", 32_000), ("memory", 256 * 2**30 * 1000), ("pods", 110_000))
    node = Offering("NVIDIA-A100-SXM4-40GB", 4, "fake.a100-4x", "fake-1a", group_size=8, traits=NodeTraits(room=room))
    assert replace(survey.offering, group_id="") == node
    assert survey.offering.group_id
    assert (survey.traits.lag_seconds, survey.traits.listed_seconds, survey.refusals, survey.notices) == (
        0.0,
        77.0,
        (),
        (),
    )
    for instance in survey.instances:
        assert (instance.state, instance.ended, instance.billing_minimum_seconds) == (InstanceState.PENDING, None, 60)
        assert instance.provider_id == f"fake:///fake-1a/{instance.id}"
        assert instance.node == NodeName(instance.id)
        assert instance.launched <= survey.asked
        assert [segment.price for segment in instance.segments] == [Price.parse("12.80")]
    assert len({instance.id for instance in survey.instances}) == 2


async def test_one_pools_error_hides_no_other_pool(market: OpenMarket) -> None:
    good, wrong = await market(), pool((await market()).group.endpoint, "no-such-group")
    surveys = await good.provider.survey([wrong, good.pool])
    error = surveys[wrong.id]
    assert isinstance(error, NotFoundInCloud)
    assert str(error).startswith("GPUPool pool-no-such-group: GET /v1/groups/no-such-group: GroupNotFound: ")
    assert isinstance(surveys[good.pool.id], Survey)


async def test_a_pool_that_takes_spot_for_on_demand_is_told(market: OpenMarket) -> None:
    m = await market(capacityType="Spot")
    mistaken = pool(m.group.endpoint, m.group.group)
    error = (await m.provider.survey([mistaken]))[mistaken.id]
    assert isinstance(error, InvalidRequest)
    assert "spec.capacityType is OnDemand" in str(error)


async def test_a_quote_bounds_what_a_spot_node_can_cost(market: OpenMarket) -> None:
    m = await market(capacityType="Spot", spotFactor="0.5", repriceRunning=True, billingMinimumSeconds=60)
    quote = await m.provider.quote(m.pool)
    assert (quote.price, quote.worst) == (Price.parse("6.40"), Price.parse("12.80"))
    assert quote.billing_minimum_seconds == 60
    assert m.group.endpoint in quote.source


async def test_a_stock_out_and_an_exhausted_quota_show_as_failures_of_the_survey(market: OpenMarket) -> None:
    out, limited = await market(stock=0), await market(gpuType="H100")
    await out.cloud.admin("PUT", "/quotas", {"H100": 3})
    await out.raise_to(1)
    await limited.raise_to(1)
    assert [failure.kind for failure in (await out.survey()).refusals] == [RefusalKind.STOCK_OUT]
    [failure] = (await limited.survey()).refusals
    assert failure.kind is RefusalKind.QUOTA_EXCEEDED
    assert failure.at <= (await limited.survey()).asked


async def test_a_notice_of_interruption_reaches_the_survey_and_then_the_end(market: OpenMarket) -> None:
    m = await market(capacityType="Spot")
    await m.raise_to(1)
    [instance] = (await m.survey()).instances
    answer = await m.cloud.admin("POST", f"/instances/{instance.id}/interrupt", {"seconds": 600})
    [notice] = (await m.survey()).notices
    assert (notice.instance, notice.at) == (instance.id, parse_instant(answer["interruption"]["at"]))
    await m.cloud.admin("POST", f"/instances/{instance.id}/kill")
    ended = next(i for i in (await m.survey()).instances if i.id == instance.id)
    assert ended.state is InstanceState.ENDED


async def test_a_running_nodes_price_segments_are_told_exactly(market: OpenMarket) -> None:
    m = await market(capacityType="Spot", spotFactor="0.5", repriceRunning=True)
    await m.raise_to(1)
    await m.change(spotFactor="0.333333")
    [instance] = (await m.survey()).instances
    assert [segment.price for segment in instance.segments] == [Price.parse("6.40"), Price.parse("4.266662")]


# --- raising and lowering --------------------------------------------------------------------------------------------


async def test_raising_never_lowers(market: OpenMarket) -> None:
    m = await market()
    await m.raise_to(3)
    await m.raise_to(1)
    assert ((await m.survey()).target, len(await m.truth())) == (3, 3)


async def test_raising_with_a_target_read_too_long_ago_neither_lowers_nor_overshoots(market: OpenMarket) -> None:
    m = await market(listLagSeconds=3600, stock=1)
    await m.raise_to(4)
    assert (await m.survey()).target == 0, "the list lags"
    await m.raise_to(2)
    await m.withdraw(keep=5)
    await m.change(listLagSeconds=0)
    assert (await m.survey()).target == 4


async def test_cancelling_keeps_what_exists_and_never_raises(market: OpenMarket) -> None:
    m = await market(stock=2)
    await m.raise_to(4)
    with pytest.raises(WouldTerminate):
        await m.withdraw(keep=1)
    await m.withdraw(keep=2)
    await m.withdraw(keep=3)
    assert ((await m.survey()).target, len(await m.truth())) == (2, 2)


async def test_a_group_that_may_not_grow_is_a_limit_that_is_named(market: OpenMarket) -> None:
    m = await market(maxSize=1)
    with pytest.raises(QuotaExceeded) as caught:
        await m.raise_to(2)
    assert caught.value.limit == f"maxSize of group {m.group.group}"


# --- ending ----------------------------------------------------------------------------------------------------------


async def test_terminating_ends_that_instance_and_lowers_the_target(market: OpenMarket) -> None:
    m = await market()
    await m.raise_to(2)
    first, second = (await m.survey()).instances
    await m.terminate(first.id)
    survey = await m.survey()
    assert survey.target == 1
    assert {i.id: i.state for i in survey.instances} == {
        first.id: InstanceState.ENDED,
        second.id: InstanceState.RUNNING,
    }


async def test_terminating_what_is_not_there_has_been_done(market: OpenMarket) -> None:
    m = await market()
    await m.terminate(InstanceId("i-0123456789abcdef0"))
    with pytest.raises(NotFoundInCloud):
        await m.provider.terminate(pool(m.group.endpoint, "no-such-group"), InstanceId("i-0"), EMPTY)


async def test_a_group_at_its_minimum_says_so(market: OpenMarket) -> None:
    m = await market(minSize=1, initialTarget=1)
    with pytest.raises(AtMinSize):
        await m.terminate((await m.survey()).instances[0].id)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "launched"), [("lost-answer", 1), ("lost-request", 0)])
async def test_a_mutation_without_an_answer_has_an_unknown_outcome_and_is_sent_once(
    market: OpenMarket, kind: str, launched: int
) -> None:
    m = await market()
    await m.fault(kind, "PUT", times=2)
    with pytest.raises(CloudOutcomeUnknown):
        await m.raise_to(1)
    assert len(await m.truth()) == launched
    assert await m.unused_faults() == 1, "sent once: the second fault is still waiting"
    await m.cloud.admin("DELETE", "/faults")
    await m.raise_to(1)
    assert len(await m.truth()) == 1


async def test_a_lost_answer_to_an_end_is_unknown_and_asking_again_ends_no_second_instance(market: OpenMarket) -> None:
    m = await market()
    await m.raise_to(2)
    victim = (await m.survey()).instances[0].id
    await m.fault("lost-answer", "DELETE")
    with pytest.raises(CloudOutcomeUnknown):
        await m.terminate(victim)
    await m.terminate(victim)
    assert ((await m.survey()).target, len(await m.truth())) == (1, 1)


async def test_a_mutation_that_is_not_answered_in_time_has_an_unknown_outcome(
    market: OpenMarket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charterer.providers.fake._MUTATION_SECONDS", 0.2)
    m = await market()
    await m.fault("slow", "PUT", seconds=1.0)
    with pytest.raises(CloudOutcomeUnknown, match="TimeOut"):
        await m.raise_to(1)
    assert len(await m.truth()) == 1


async def test_a_read_is_tried_again_and_a_mutation_is_not(market: OpenMarket) -> None:
    m = await market()
    await m.fault("error", "GET", code="ServiceUnavailable", status=503)
    await m.fault("lost-answer", "GET")
    assert (await m.survey()).target == 0
    assert await m.unused_faults() == 0
    await m.fault("error", "PUT", code="ServiceUnavailable", status=503)
    with pytest.raises(Transient):
        await m.raise_to(1)
    assert await m.truth() == []


async def test_reads_give_up_in_the_end(market: OpenMarket) -> None:
    m = await market()
    await m.fault("error", "GET", code="InternalError", times=None)
    with pytest.raises(Transient):
        await m.survey()


async def test_throttling_says_how_long_to_wait(market: OpenMarket) -> None:
    m = await market()
    await m.fault("throttle", "PUT", retryAfterSeconds=17)
    with pytest.raises(Throttled) as caught:
        await m.raise_to(1)
    assert caught.value.retry_after == 17
    await m.fault("throttle", "GET", retryAfterSeconds=17)
    with pytest.raises(Throttled):
        await m.survey()


CODES: list[tuple[str, int, type[ProviderError]]] = [
    ("InsufficientInstanceCapacity", 500, InsufficientCapacity),
    ("InstanceLimitExceeded", 400, QuotaExceeded),
    ("TargetChanged", 409, Busy),
    ("Unauthorized", 401, CloudUnauthorized),
    ("InternalError", 500, CloudOutcomeUnknown),
    ("SomethingNew", 500, UnknownCode),
]


@pytest.mark.parametrize(("code", "status", "kind"), CODES)
async def test_codes_have_one_meaning(market: OpenMarket, code: str, status: int, kind: type[ProviderError]) -> None:
    m = await market()
    await m.fault("error", "PUT", code=code, status=status)
    with pytest.raises(kind) as caught:
        await m.raise_to(1)
    assert (type(caught.value), caught.value.code, caught.value.pool) == (kind, code, m.pool.id)
    assert caught.value.call == f"PUT /v1/groups/{m.group.group}/target"


async def test_where_nobody_listens_nothing_was_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        lonely = pool(f"http://127.0.0.1:{unused.getsockname()[1]}", "a100")
        provider = FakeCloud(fake_group(lonely).endpoint)
        with pytest.raises(CloudUnreachable, match=f"{fake_group(lonely).endpoint}: Connection refused"):
            await provider.terminate(lonely, InstanceId("i-0"), EMPTY)
        await provider.close()


async def test_what_is_no_endpoint_is_the_users_to_change() -> None:
    wrong = pool("nonsense", "a100")
    provider = FakeCloud(fake_group(wrong).endpoint)
    error = (await provider.survey([wrong]))[wrong.id]
    assert isinstance(error, InvalidRequest)
    assert "'nonsense'" in str(error)
    await provider.close()


async def test_something_else_at_the_endpoint_is_never_taken_for_a_cloud() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        strange = pool(f"http://127.0.0.1:{port}", "a100")
        provider = FakeCloud(fake_group(strange).endpoint)
        with pytest.raises(UnknownCode, match="no JSON object"):
            await provider.quote(strange)
        await provider.close()


# --- the process -----------------------------------------------------------------------------------------------------


async def test_everything_survives_a_kill(market: OpenMarket) -> None:
    m = await market(startupSeconds=[3600])
    await m.raise_to(3)
    await m.terminate((await m.survey()).instances[0].id)
    before, bill = await m.survey(), await bill_of(m)
    await m.cloud.kill()
    with pytest.raises(CloudUnreachable):
        await m.survey()
    await m.cloud.restart()
    after = await m.survey()
    assert (after.target, after.instances) == (before.target, before.instances)
    assert (await bill_of(m)).keys() == bill.keys()


async def test_concurrent_calls_never_launch_twice(market: OpenMarket) -> None:
    m = await market()
    await asyncio.gather(*(m.raise_to(2) for _ in range(8)))
    assert len(await m.truth()) == 2


async def test_a_token_is_wanted_where_the_cloud_has_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    group = {"name": "a100", **GROUP}
    folder = tmp_path_factory.mktemp("secret")
    async with FakeCloudProcess.running({"token": "s3cret", "groups": [group]}, folder) as cloud:
        mine = pool(cloud.url, "a100")
        anonymous, known = Accounts({}), Accounts({"CHARTERER_FAKECLOUD_TOKEN": "s3cret"})
        assert isinstance((await anonymous.account_of(mine).survey([mine]))[mine.id], CloudUnauthorized)
        assert isinstance((await known.account_of(mine).survey([mine]))[mine.id], Survey)
        await anonymous.close()
        await known.close()


async def test_there_is_one_provider_an_endpoint_and_each_surveys_its_own_pools(market: OpenMarket) -> None:
    m, other = await market(), await market()
    calls: list[tuple[str, str, str]] = []
    accounts = Accounts({}, Guards(record=lambda vendor, call, outcome, seconds: calls.append((vendor, call, outcome))))
    elsewhere = pool("http://127.0.0.1:1", "x")
    near, far = accounts.by_account([m.pool, elsewhere, other.pool]).items()
    assert near == (accounts.account_of(m.pool), [m.pool, other.pool])
    assert far == (accounts.account_of(elsewhere), [elsewhere])
    surveys = {**await near[0].survey(near[1]), **await far[0].survey(far[1])}
    assert isinstance(surveys[elsewhere.id], CloudUnreachable)
    assert surveys.keys() == {m.pool.id, other.pool.id, elsewhere.id}
    assert calls == [("fake", "survey", "ok")] * 2 + [("fake", "survey", "Unreachable")]
    await accounts.close()


async def test_an_empty_list_is_an_answer_that_names_no_machine_once(market: OpenMarket) -> None:
    m = await market()
    await m.raise_to(1)
    assert len((await m.survey()).instances) == 1
    await m.fault("empty-list", "GET", match={"path": "*/instances"})
    empty, again = await m.survey(), await m.survey()
    assert (empty.instances, len(again.instances)) == ((), 1)
