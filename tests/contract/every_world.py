"""The clouds of the contract suite, each with the same few things that a test can make happen in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import InstanceId, OrderToken, RentalId
from charterer.domain.order import Ask, Order, Refusal, Reply
from charterer.domain.pool import Pool, Survey
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG
from charterer.providers.fake import FakeCloud
from charterer.providers.provider import Provider
from tests.clouds.aws.protocol import THROTTLED, Fault
from tests.contract.aws_pools import TYPE, AwsMarket
from tests.contract.pools import Market
from tests.contract.wire import EMPTY, surveyed


class World(ABC):
    """One pool, reached by its provider alone; the rest happens behind the provider's back.

    ``stock_out``: the cloud's code for it. ``tells_ends``: whether machines that have ended are listed for a while.
    """

    stock_out = "InsufficientInstanceCapacity"
    tells_ends = True

    def __init__(self, provider: Provider, pool: Pool) -> None:
        self.provider = provider
        self.pool = pool
        self._wanted: set[str] = set()

    async def survey(self) -> Survey:
        """The pool's survey; its error is raised."""
        return await surveyed(self.provider, self.pool)

    async def ask(self, *names: str) -> Reply:
        """Ask for those orders. Clouds that count want all that were ever asked for here."""
        self._wanted |= set(names)
        orders = tuple([Order(OrderToken(f"c{name}"), RentalId(f"r-{name}")) for name in names])
        return await self.provider.ask(self.pool, Ask(orders, len(self._wanted)))

    async def terminate(self, instance: str) -> None:
        """End one instance."""
        await self.provider.terminate(self.pool, InstanceId(instance), EMPTY)

    async def refusals(self, reply: Reply) -> Sequence[Refusal]:
        """The refusals, wherever this cloud tells them."""
        return [*reply.refused.values(), *(await self.survey()).refusals]

    @abstractmethod
    async def truth(self) -> Collection[str]:
        """The pool's instances that are billed now."""

    @abstractmethod
    async def set_stock(self, machines: int) -> None:
        """So many machines are left."""

    @abstractmethod
    async def set_quota(self, machines: int) -> None:
        """The account may have so many machines."""

    async def limit_group(self, machines: int) -> int | None:
        """The pool's group takes so many machines from now on; None where the pool has no group."""
        return None

    @abstractmethod
    async def lose(self, *, takes_effect: bool) -> None:
        """The next ask gets no answer."""

    @abstractmethod
    async def lose_end(self, *, takes_effect: bool) -> None:
        """The next end of an instance gets no answer."""

    @abstractmethod
    async def restart(self) -> None:
        """Another process goes on, with nothing but what the cloud knows."""

    @abstractmethod
    async def fail_although_created(self) -> None:
        """The next ask takes effect and is answered with an error, as near as this cloud comes to that."""

    @abstractmethod
    async def throttle(self) -> None:
        """All calls are refused as too many, until ``recover``."""

    @abstractmethod
    async def expire_credentials(self) -> None:
        """No call is allowed any more, until ``recover``."""

    @abstractmethod
    async def recover(self) -> None:
        """Ten minutes later all is well again."""

    @abstractmethod
    async def let_lists_lag(self) -> None:
        """Lists show nothing new, until ``recover``."""

    @abstractmethod
    async def let_starts_take_long(self) -> None:
        """Instances that are launched from now on stay pending."""

    @abstractmethod
    async def end_by_hand(self, instance: str) -> None:
        """Somebody ends an instance."""

    @abstractmethod
    async def start_elsewhere(self) -> str:
        """Somebody else in the same account has an instance; its id."""

    @abstractmethod
    async def elsewhere(self) -> Collection[str]:
        """The instances of somebody else that are billed now."""

    @abstractmethod
    async def set_price(self, dollars: str) -> None:
        """The list price, once it has been read again."""


class FakeWorld(World):
    """A group of the fake cloud, beside another one."""

    def __init__(self, market: Market, other: Market) -> None:
        super().__init__(market.provider, market.pool)
        self._here = market
        self._other = other

    async def truth(self) -> Collection[str]:
        return await self._here.truth()

    async def set_stock(self, machines: int) -> None:
        await self._here.change(stock=machines, retrySeconds=3600)

    async def set_quota(self, machines: int) -> None:
        own_type = f"GPU-of-{self._here.group.group}"  # quotas are the account's, which all tests share
        await self._here.change(retrySeconds=3600, gpuType=own_type)
        await self._here.cloud.admin("PUT", "/quotas", {own_type: machines * 4})

    async def limit_group(self, machines: int) -> int | None:
        await self._here.change(maxSize=machines)
        return machines

    async def lose(self, *, takes_effect: bool) -> None:
        for method in ("PUT", "POST"):
            await self._here.fault("lost-answer" if takes_effect else "lost-request", method)

    async def lose_end(self, *, takes_effect: bool) -> None:
        await self._here.fault("lost-answer" if takes_effect else "lost-request", "DELETE")

    async def restart(self) -> None:
        self.provider = FakeCloud(self._here.cloud.url)

    async def fail_although_created(self) -> None:
        await self.lose(takes_effect=True)

    async def throttle(self) -> None:
        for method in ("GET", "PUT", "POST"):
            await self._here.fault("throttle", method, times=None, retryAfterSeconds=7)

    async def expire_credentials(self) -> None:
        for method in ("GET", "PUT", "POST", "DELETE"):
            await self._here.fault("error", method, times=None, code="Unauthorized", status=401)

    async def recover(self) -> None:
        await self._here.cloud.admin("DELETE", "/faults")
        await self._here.change(listLagSeconds=0)

    async def let_lists_lag(self) -> None:
        await self._here.change(listLagSeconds=3600)

    async def let_starts_take_long(self) -> None:
        await self._here.change(startupSeconds=[3600])

    async def end_by_hand(self, instance: str) -> None:
        await self._here.cloud.admin("POST", f"/instances/{instance}/kill")

    async def start_elsewhere(self) -> str:
        await self._other.raise_to(1)
        return (await self._other.truth())[0]

    async def elsewhere(self) -> Collection[str]:
        return await self._other.truth()

    async def set_price(self, dollars: str) -> None:
        await self._here.change(hourlyPrice=dollars)


class AwsWorld(World):
    """A pool of AWS, beside another cluster in the account."""

    def __init__(self, reopen: Callable[[], AwsMarket]) -> None:
        market = reopen()
        super().__init__(market.provider, market.pool)
        self._reopen = reopen
        self._account = market.account
        self._group = isinstance(market.pool.cloud, AwsGroup)
        assert isinstance(market.pool.cloud, AwsFleet | AwsGroup)

    @property
    def _launch(self) -> str:
        return "autoscaling:LaunchInstances" if self._group else "ec2:CreateFleet"

    async def truth(self) -> Collection[str]:
        return [m.id for m in self._account.alive() if m.id not in await self.elsewhere()]

    async def set_stock(self, machines: int) -> None:
        left = {"us-east-1a": machines, "us-east-1b": 0}
        self._account.stock = {(TYPE, zone, "on-demand"): stock for zone, stock in left.items()}

    async def set_quota(self, machines: int) -> None:
        self._account.quota["on-demand"] = machines * 96

    async def limit_group(self, machines: int) -> int | None:
        if not self._group:
            return None
        for group in self._account.groups.values():
            group.most = machines
        return machines

    async def lose(self, *, takes_effect: bool) -> None:
        self._account.faults.lose_answer(self._launch, takes_effect=takes_effect)

    async def lose_end(self, *, takes_effect: bool) -> None:
        call = "autoscaling:TerminateInstanceInAutoScalingGroup" if self._group else "ec2:TerminateInstances"
        self._account.faults.lose_answer(call, takes_effect=takes_effect)

    async def restart(self) -> None:
        self.provider = self._reopen().provider

    async def fail_although_created(self) -> None:
        self._account.faults.fail(self._launch, Fault("InternalError", "An internal error", 500), takes_effect=True)

    async def throttle(self) -> None:
        self._account.faults.fail_for("*", THROTTLED, self._account.clock.now, 600)

    async def expire_credentials(self) -> None:
        self._account.expired = {"AKIATESTTESTTESTTEST"}

    async def recover(self) -> None:
        self._account.expired = set()
        self._account.clock.advance(601)

    async def let_lists_lag(self) -> None:
        self._account.list_lag = 30

    async def let_starts_take_long(self) -> None:
        self._account.pending_seconds = 3600

    async def end_by_hand(self, instance: str) -> None:
        self._account.end(instance)

    async def start_elsewhere(self) -> str:
        tags = {CLUSTER_TAG: "another", POOL_TAG: self.pool.id, ORDER_TAG: "cone"}
        return self._account.start_by_hand(TYPE, "subnet-a", tags).id

    async def elsewhere(self) -> Collection[str]:
        alive = self._account.alive()
        return [m.id for m in alive if m.tags_at(self._account.clock.now).get(CLUSTER_TAG) == "another"]

    async def set_price(self, dollars: str) -> None:
        self._account.prices[TYPE] = Decimal(dollars)
        self._account.clock.advance(6 * 3600)
