"""Azure in the contract suite: a scale set of each kind, beside another one in the subscription."""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal

from tests.clouds.azure.protocol import Fault, throttled
from tests.contract.azure_pools import GROUP, SIZE, AzureMarket
from tests.contract.every_world import World


class AzureWorld(World):
    """A pool of Azure."""

    stock_out = "AllocationFailed"
    tells_ends = False

    def __init__(self, reopen: Callable[[], AzureMarket]) -> None:
        market = reopen()
        super().__init__(market.provider, market.pool)
        self._reopen = reopen
        self._here = market
        self._sub = market.sub
        aks = bool(self._sub.clusters)
        self._grow = "agent_pools_create_or_update" if aks else "virtual_machine_scale_sets_update"
        self._end = "agent_pools_delete_machines" if aks else "virtual_machine_scale_sets_delete_instances"

    async def truth(self) -> Collection[str]:
        return self._here.truth()

    async def set_stock(self, machines: int) -> None:
        self._sub.stock[SIZE, self._sub.location, "Regular"] = machines

    async def set_quota(self, machines: int) -> None:
        self._sub.quotas["standardNDASv4_A100Family"] = machines * 96

    async def lose(self, *, takes_effect: bool) -> None:
        self._sub.faults.lose_answer(self._grow, takes_effect=takes_effect)

    async def lose_end(self, *, takes_effect: bool) -> None:
        self._sub.faults.lose_answer(self._end, takes_effect=takes_effect)

    async def restart(self) -> None:
        self.provider = self._reopen().provider

    async def fail_although_created(self) -> None:
        self._sub.faults.fail(self._grow, Fault(500, "InternalServerError"), takes_effect=True)

    async def throttle(self) -> None:
        self._sub.faults.fail_for("*", throttled(7), self._sub.clock.now, 600)

    async def expire_credentials(self) -> None:
        self._sub.expired = {"token"}

    async def recover(self) -> None:
        self._sub.expired = set()
        self._sub.clock.advance(601)

    async def let_lists_lag(self) -> None:
        self._sub.list_lag = 30

    async def let_starts_take_long(self) -> None:
        self._sub.start_seconds = 3600

    async def end_by_hand(self, instance: str) -> None:
        [vm] = [vm for vm in self._here.members() if vm.vm_id == instance]
        self._sub.end(vm.id)

    async def start_elsewhere(self) -> str:
        other = self._sub.add_scale_set("other", SIZE, GROUP, orchestration=self._here.scale_set.orchestration)
        return self._sub.start_by_hand(other).vm_id

    async def elsewhere(self) -> Collection[str]:
        return [vm.vm_id for vm in self._sub.members(self._sub.scale_set(GROUP, "other"))]

    async def set_price(self, dollars: str) -> None:
        self._here.feed.prices[SIZE, "Regular"] = Decimal(dollars)
        self._sub.clock.advance(6 * 3600)
