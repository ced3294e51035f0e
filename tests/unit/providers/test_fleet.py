"""No ask passes the limits of the operator, counted by what the clouds say and what was asked for since."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.clouds.fake import FakeGroup
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.order import Refusal, Reply
from charterer.domain.pool import Instance, InstanceState, Quote
from charterer.domain.snapshot import OperatorLimits
from charterer.providers.accounts import Accounts
from charterer.providers.errors import (
    OperatorLimitReached,
)
from charterer.providers.guarded import CallLimits, Guards
from tests import factory as make
from tests import lanes
from tests.unit.providers.slow_cloud import COUNTED, NAMED, POOL, SlowCloud, ask, guarded
from tests.virtual_time import run_in_virtual_time


def machines(count: int, **changes: Any) -> tuple[Instance, ...]:
    return tuple(make.instance(f"i{number}", **changes) for number in range(count))


def test_an_ask_beyond_the_limit_of_nodes_is_refused_and_not_sent() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        cloud.surveys[POOL.id] = make.survey(*machines(2), traits=COUNTED)
        account = guarded(cloud, limits=OperatorLimits(nodes=3))
        await account.survey([POOL])
        with pytest.raises(OperatorLimitReached, match=r"it would make 4 nodes, and the operator may have 3"):
            await account.ask(POOL, ask("c1", "c2", at_least=4))
        assert cloud.sent == ["survey"]
        await account.ask(POOL, ask("c1", at_least=3))
        assert cloud.sent == ["survey", "ask"]

    run_in_virtual_time(main())


def test_a_machine_that_is_being_ended_counts_and_so_does_the_one_that_comes_beside_it() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        ending = make.instance("gone", state=InstanceState.STOPPING)
        cloud.surveys[POOL.id] = make.survey(*machines(2), ending, traits=COUNTED, target=2)
        account = guarded(cloud, limits=OperatorLimits(nodes=3))
        await account.survey([POOL])
        with pytest.raises(OperatorLimitReached, match=r"it would make 4 nodes, and the operator may have 3"):
            await account.ask(POOL, ask("c1", at_least=3))

    run_in_virtual_time(main())


def test_orders_under_way_in_other_pools_count_until_a_survey_must_show_them() -> None:
    async def main() -> None:
        cloud, other = SlowCloud(), replace(POOL, id=PoolId("other"), cloud=FakeGroup("http://cloud", "h"))
        for pool in (POOL, other):
            cloud.surveys[pool.id] = make.survey(pool=pool.id, traits=NAMED)
        cloud.surveys = {name: replace(survey, target=None) for name, survey in cloud.surveys.items()}
        account = guarded(cloud, limits=OperatorLimits(nodes=2))
        await account.survey([POOL, other])
        await account.ask(POOL, ask("c1", "c2"))
        await account.ask(POOL, ask("c1", "c2"))  # the same orders again are not more
        with pytest.raises(OperatorLimitReached):
            await account.ask(other, ask("d1"))
        await account.survey([POOL, other])  # its lists may be 20 s old
        with pytest.raises(OperatorLimitReached):
            await account.ask(other, ask("d1"))
        await asyncio.sleep(21.0)
        await account.survey([POOL, other])
        await account.ask(other, ask("d1"))

    run_in_virtual_time(main())


def test_two_asks_at_the_same_time_do_not_pass_the_limit_together() -> None:
    async def main() -> None:
        cloud, other = SlowCloud(), replace(POOL, id=PoolId("other"), cloud=FakeGroup("http://cloud", "h"))
        cloud.seconds = 1.0
        account = guarded(cloud, limits=OperatorLimits(nodes=1))
        both = await asyncio.gather(account.ask(POOL, ask("c1")), account.ask(other, ask("d1")), return_exceptions=True)
        assert sum(isinstance(answer, OperatorLimitReached) for answer in both) == 1

    run_in_virtual_time(main())


def test_an_order_that_was_refused_at_once_does_not_count() -> None:
    async def main() -> None:
        cloud, other = SlowCloud(), replace(POOL, id=PoolId("other"), cloud=FakeGroup("http://cloud", "h"))
        refusal: Refusal = make.refusal(600)
        cloud.reply = Reply(refused={OrderToken("c1"): refusal})
        account = guarded(cloud, limits=OperatorLimits(nodes=1))
        await account.ask(POOL, ask("c1"))
        await account.ask(other, ask("d1"))

    run_in_virtual_time(main())


def test_dollars_count_as_they_are_paid_and_at_worst() -> None:
    async def main() -> None:
        cloud = SlowCloud()
        dear = replace(POOL, quote=Quote(Price.parse("10"), Price.parse("30"), 60, "paid", make.T0))
        cloud.surveys[POOL.id] = make.survey(*machines(1), traits=COUNTED)
        account = guarded(cloud, limits=OperatorLimits(hourly=Price.parse("59.99")))
        await account.survey([dear])
        with pytest.raises(OperatorLimitReached, match=r"cost up to \$60\.00/h, and the operator's may cost \$59\.99"):
            await account.ask(dear, ask("c1", at_least=2))
        cheap = replace(dear, quote=Quote(Price.parse("1"), Price.parse("20"), 60, "paid", make.T0))
        await account.ask(cheap, ask("c1", at_least=2))
        with pytest.raises(OperatorLimitReached, match="the price of GPUPool a100 is not known"):
            await account.ask(replace(dear, quote=None), ask("c2", at_least=3))

    run_in_virtual_time(main())


def test_machines_that_two_pools_list_count_once_and_those_of_a_former_pool_not_at_all() -> None:
    async def main() -> None:
        cloud, twin = SlowCloud(), replace(POOL, id=PoolId("twin"))
        cloud.surveys = {pool.id: make.survey(*machines(2), pool=pool.id, traits=COUNTED) for pool in (POOL, twin)}
        accounts = Accounts({}, Guards(limits=OperatorLimits(nodes=3)), adapter=lambda pool, environ: cloud)
        account = accounts.account_of(POOL)
        await account.survey([POOL, twin])
        await account.ask(POOL, ask("c1", at_least=3))
        gone = replace(POOL, id=PoolId("gone"), cloud=FakeGroup("http://cloud", "h"))
        cloud.surveys[gone.id] = make.survey(*(make.instance("x"),), pool=gone.id, traits=COUNTED)
        await account.survey([gone])
        with pytest.raises(OperatorLimitReached):
            await account.ask(POOL, ask("c1", at_least=3))
        accounts.keep({POOL.id: POOL, twin.id: twin})
        await account.ask(POOL, ask("c1", at_least=3))

    run_in_virtual_time(main())


@settings(max_examples=lanes.examples(200))
@given(
    st.integers(0, 8),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["ask", "survey", "wait"]), st.integers(1, 5))),
    st.booleans(),
)
def test_whatever_is_asked_for_in_whatever_order_the_clouds_never_have_more_than_the_limit(
    limit: int, steps: list[tuple[str, str, int]], named: bool
) -> None:
    """The cloud launches all that it accepts, and its lists lag."""

    async def main() -> None:
        cloud = SlowCloud()
        traits = replace(NAMED if named else COUNTED, lag_seconds=20.0)
        pools = {name: replace(POOL, id=PoolId(name), cloud=FakeGroup("http://cloud", name)) for name in ("a", "b")}
        there: dict[str, list[Instance]] = {"a": [], "b": []}
        account = guarded(cloud, limits=OperatorLimits(nodes=limit), calls=CallLimits())
        for name, what, number in steps:
            pool, made = pools[name], there[name]
            if what == "wait":
                await asyncio.sleep(10.0 * number)
                for each, its in there.items():  # lists show all that is older than a moment
                    target = None if named else len(its)
                    cloud.surveys[PoolId(each)] = make.survey(*its, pool=PoolId(each), traits=traits, target=0)
                    cloud.surveys[PoolId(each)] = replace(cloud.surveys[PoolId(each)], target=target)
                await account.survey(list(pools.values()))
            elif what == "survey":
                await account.survey([pool])
            else:
                tokens = [f"{name}{len(made) + index}" for index in range(number)]
                try:
                    await account.ask(pool, ask(*tokens, at_least=len(made) + number))
                except OperatorLimitReached:
                    continue
                made += [make.instance(token, order=OrderToken(token) if named else None) for token in tokens]
            assert sum(map(len, there.values())) <= limit
        assert all(item.state is InstanceState.RUNNING for its in there.values() for item in its)

    run_in_virtual_time(main())
