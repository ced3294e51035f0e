"""Every call of a cloud is counted, and none changes anything once another process may lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.order import Ask, Reply
from charterer.providers.accounts import Account, Accounts
from charterer.providers.errors import CloudOutcomeUnknown, NotLeading
from charterer.providers.provider import Drained, Provider
from tests import factory as make
from tests.unit.controller.test_surveys import Cloud
from tests.virtual_time import run_in_virtual_time


class Slow(Cloud):
    """A cloud that takes ``seconds`` for each mutation and counts those that were begun."""

    begun = 0

    async def ask(self, pool: object, ask: Ask) -> Reply:
        await self._change()
        return Reply()

    async def terminate(self, pool: object, instance: InstanceId, proof: Drained) -> None:
        await self._change()

    async def withdraw(self, pool: object, orders: Sequence[OrderToken], keep: int) -> None:
        await self._change()

    async def _change(self) -> None:
        self.begun += 1
        await asyncio.sleep(self.seconds)


def account(cloud: Provider, leads_for: float) -> Account:
    return Accounts({}, adapter=lambda pool, environ: cloud, fence=lambda: leads_for).account_of(make.pool())


MUTATIONS: list[Callable[[Account], Awaitable[object]]] = [
    lambda account: account.ask(make.pool(), Ask((), 1)),
    lambda account: account.withdraw(make.pool(), [], 0),
    lambda account: account.terminate(make.pool(), InstanceId("i1"), Drained(None, make.T0)),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutation_is_not_sent_when_the_lead_is_about_to_end(mutate: Callable[[Account], Awaitable[object]]) -> None:
    async def main() -> None:
        cloud = Slow()
        with pytest.raises(NotLeading, match=r"leads for 0\.5 s more"):
            await mutate(account(cloud, 0.5))
        assert cloud.begun == 0
        await mutate(account(cloud, 5.0))
        assert cloud.begun == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutation_is_not_waited_for_longer_than_the_lead_lasts(
    mutate: Callable[[Account], Awaitable[None]],
) -> None:
    async def main() -> None:
        cloud = Slow()
        cloud.seconds = 60.0
        with pytest.raises(CloudOutcomeUnknown):
            await mutate(account(cloud, 5.0))

    run_in_virtual_time(main())


def test_ways_of_writing_one_endpoint_are_one_account() -> None:
    accounts = Accounts({}, adapter=lambda pool, environ: Slow())
    first, second = make.pool(), make.pool(cloud=type(make.pool().cloud)("HTTP://Cloud:80/", "other"))
    assert accounts.account_of(first) is accounts.account_of(second)
