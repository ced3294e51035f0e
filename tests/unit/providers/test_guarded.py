"""What every call of a cloud is held to: time, concurrency, the lease, a dry run and a stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest

from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.money import Price
from charterer.domain.snapshot import Stop
from charterer.providers.errors import (
    CloudCallWithheld,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    NotLeading,
    OperatorStopped,
    ProviderError,
    Throttled,
    Transient,
    UnknownCode,
    UnusablePrice,
)
from charterer.providers.guarded import Guarded
from charterer.providers.provider import Drained
from tests import factory as make
from tests.unit.providers.slow_cloud import LIMITS, POOL, SlowCloud, ask, guarded
from tests.virtual_time import clock, run_in_virtual_time

MUTATIONS: Mapping[str, Callable[[Guarded], Awaitable[object]]] = {
    "ask": lambda account: account.ask(POOL, ask("c1")),
    "withdraw": lambda account: account.withdraw(POOL, [], 0),
    "terminate": lambda account: account.terminate(POOL, InstanceId("i1"), Drained(None, make.T0)),
    "renew": lambda account: account.renew([POOL]),
}
READS: Mapping[str, Callable[[Guarded], Awaitable[object]]] = {
    "quote": lambda account: account.quote(POOL),
    "preflight": lambda account: account.preflight(POOL),
}


# --- the lease --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", MUTATIONS)
def test_a_mutation_is_not_sent_when_the_lead_is_about_to_end(call: str) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        with pytest.raises(NotLeading, match=r"leads for 0\.5 s more"):
            await MUTATIONS[call](guarded(cloud, fence=lambda: 0.5))
        assert cloud.sent == []
        await MUTATIONS[call](guarded(cloud, fence=lambda: 5.0))
        assert cloud.sent == [call]

    run_in_virtual_time(main())


@pytest.mark.parametrize("call", MUTATIONS)
def test_a_mutation_is_not_waited_for_longer_than_the_lead_lasts(call: str) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds, began = 60.0, clock()
        with pytest.raises(CloudOutcomeUnknown, match="while this process led"):
            await MUTATIONS[call](guarded(cloud, fence=lambda: 5.0))
        assert clock() - began == pytest.approx(5.0)

    run_in_virtual_time(main())


def test_the_lead_is_looked_at_when_a_call_gets_its_turn_not_when_it_begins_to_wait() -> None:
    async def main() -> None:
        cloud, ends = SlowCloud(), clock() + 8.0
        cloud.seconds = 6.5
        account = guarded(cloud, fence=lambda: ends - clock(), calls=replace(LIMITS, at_once=1))
        first, second = await asyncio.gather(
            account.withdraw(POOL, [], 0), account.withdraw(POOL, [], 0), return_exceptions=True
        )
        assert first is None
        assert isinstance(second, CloudOutcomeUnknown)
        late = await asyncio.gather(account.withdraw(POOL, [], 0), return_exceptions=True)
        assert isinstance(late[0], NotLeading)
        assert cloud.sent == ["withdraw"] * 2

    run_in_virtual_time(main())


# --- time and concurrency ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "seconds"), [("quote", 6.0), ("preflight", 10.0)])
def test_a_read_that_takes_too_long_may_be_repeated(call: str, seconds: float) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds, began = 60.0, clock()
        with pytest.raises(Transient, match=f"no answer within {seconds:.0f} s"):
            await READS[call](guarded(cloud))
        assert clock() - began == pytest.approx(seconds)

    run_in_virtual_time(main())


@pytest.mark.parametrize(("call", "seconds"), [("ask", 7.0), ("withdraw", 8.0), ("terminate", 9.0), ("renew", 11.0)])
def test_nobody_knows_what_a_mutation_did_that_takes_too_long(call: str, seconds: float) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds, began = 60.0, clock()
        with pytest.raises(CloudOutcomeUnknown, match=f"no answer within {seconds:.0f} s"):
            await MUTATIONS[call](guarded(cloud))
        assert clock() - began == pytest.approx(seconds)

    run_in_virtual_time(main())


def test_a_survey_that_takes_too_long_is_every_pools_own_error() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds = 60.0
        other = replace(POOL, id=PoolId("other"))
        answers = await guarded(cloud).survey([POOL, other])
        assert {name: type(answer) for name, answer in answers.items()} == {POOL.id: Transient, other.id: Transient}
        assert "GPUPool other: survey" in str(answers[other.id])

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    "error",
    [
        CloudUnauthorized(POOL.id, "ec2:DescribeInstances", "UnauthorizedOperation", "you may not"),
        Throttled(POOL.id, "ec2:DescribeInstances", "RequestLimitExceeded", "slow down", 5.0),
    ],
)
def test_what_keeps_an_account_from_being_surveyed_is_told_of_each_pool_by_its_own_name(error: ProviderError) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.error = error
        answers = await guarded(cloud).survey([replace(POOL, id=PoolId("other"))])
        told = answers[PoolId("other")]
        assert isinstance(told, ProviderError)
        assert (type(told), told.pool) == (type(error), "other")
        assert str(told) == str(error).replace(f"GPUPool {POOL.id}", "GPUPool other")

    run_in_virtual_time(main())


def test_calls_of_an_account_are_bounded_and_a_mutation_does_not_wait_for_reads() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds = 3.0
        account = guarded(cloud)
        reads = [asyncio.create_task(account.quote(POOL)) for _ in range(5)]
        await asyncio.sleep(0.1)
        began = clock()
        await account.withdraw(POOL, [], 0)
        assert clock() - began == pytest.approx(3.0)
        await asyncio.gather(*reads)
        assert cloud.most == 3  # two reads and the mutation

    run_in_virtual_time(main())


def test_an_error_that_an_adapter_does_not_know_stops_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.error = KeyError("Reservations")
        account = guarded(cloud)
        (answer,) = (await account.survey([POOL])).values()
        assert isinstance(answer, UnknownCode)
        for call, kind in (("quote", UnknownCode), ("ask", CloudOutcomeUnknown), ("terminate", CloudOutcomeUnknown)):
            with pytest.raises(kind, match="KeyError: an error that the adapter does not know"):
                await {**READS, **MUTATIONS}[call](account)

    run_in_virtual_time(main())
    assert "please report it" in caplog.text


def test_every_call_is_counted_with_its_outcome_also_one_that_was_not_sent() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.seconds = 2.0
        calls: list[tuple[str, str, str, float]] = []
        account = guarded(cloud, record=lambda *call: calls.append(call))
        await account.quote(POOL)
        await account.survey([POOL, replace(POOL, id=PoolId("b"))])
        cloud.error = Throttled(POOL.id, "ask", "Throttling", "too many", 1.0)
        with pytest.raises(Throttled):
            await account.ask(POOL, ask("c1"))
        with pytest.raises(NotLeading):
            await guarded(cloud, record=lambda *call: calls.append(call), fence=lambda: 0.0).ask(POOL, ask("c1"))
        assert [call[:3] for call in calls] == [
            ("fake", "quote", "ok"),
            ("fake", "survey", "ok"),
            ("fake", "survey", "ok"),
            ("fake", "ask", "Throttled"),
            ("fake", "ask", "NotLeading"),
        ]
        assert [call[3] for call in calls] == pytest.approx([2.0, 2.0, 2.0, 2.0, 0.0])

    run_in_virtual_time(main())


# --- what a person forbids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", MUTATIONS)
def test_a_dry_run_logs_each_mutation_once_and_sends_none(call: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        account = guarded(cloud, dry_run=True)
        for _ in range(3):
            with pytest.raises(CloudCallWithheld):
                await MUTATIONS[call](account)
        assert cloud.sent == []
        await account.quote(POOL)
        await account.survey([POOL])
        assert cloud.sent == ["quote", "survey"]

    caplog.set_level(logging.INFO)
    run_in_virtual_time(main())
    (line,) = [record.getMessage() for record in caplog.records if "dry run" in record.getMessage()]
    content = {"ask": "orders a100-c1 (c1); at least 1 nodes", "withdraw": "0 nodes stay"}
    content |= {"terminate": "instance i1", "renew": "what ends itself in a100"}
    assert f"GPUPool a100: fake {call}" in line
    assert content[call] in line


@pytest.mark.parametrize("stop", list(Stop))
def test_a_stopped_operator_asks_for_nothing_but_withdraws_and_ends(stop: Stop) -> None:
    async def main() -> None:
        cloud = SlowCloud()

        async def stopped() -> Stop | None:
            return stop

        account = guarded(cloud, stopped=stopped)
        with pytest.raises(OperatorStopped, match="charterer resume"):
            await MUTATIONS["ask"](account)
        await MUTATIONS["withdraw"](account)
        await MUTATIONS["terminate"](account)
        assert cloud.sent == ["withdraw", "terminate"]

    run_in_virtual_time(main())


def test_a_stop_counts_for_a_call_that_waits_for_its_turn() -> None:
    async def main() -> None:
        cloud, pressed = SlowCloud(), asyncio.Event()
        cloud.seconds = 5.0

        async def stopped() -> Stop | None:
            return Stop.RENT if pressed.is_set() else None

        account = guarded(cloud, stopped=stopped, calls=replace(LIMITS, at_once=1))
        first = asyncio.create_task(account.ask(POOL, ask("c1")))
        second = asyncio.create_task(account.ask(POOL, ask("c1", "c2")))
        await asyncio.sleep(1.0)
        pressed.set()
        await first
        with pytest.raises(OperatorStopped):
            await second
        assert cloud.sent == ["ask"]

    run_in_virtual_time(main())


def test_nothing_is_asked_for_while_nobody_can_tell_whether_the_operator_is_stopped() -> None:
    async def main() -> None:
        cloud = SlowCloud()

        async def unknown() -> Stop | None:
            raise ConnectionError("no answer")

        with pytest.raises(ConnectionError):
            await MUTATIONS["ask"](guarded(cloud, stopped=unknown))
        assert cloud.sent == []

    run_in_virtual_time(main())


@pytest.mark.parametrize("price", ["0", "-1", "-0.000001", "1000000", "999999999999"])
def test_a_price_of_zero_or_less_or_of_a_million_an_hour_is_no_price_and_loud(
    price: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.price = Price.parse(price)
        with pytest.raises(UnusablePrice, match=r"the list says that a node costs .*set spec\.price\.hourly"):
            await guarded(cloud).quote(POOL)
        assert (await guarded(cloud).quote(replace(POOL, price_override=make.PRICE))).price == cloud.price

    run_in_virtual_time(main())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
