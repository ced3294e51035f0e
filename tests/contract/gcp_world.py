"""Google Cloud for the contract suite: a pool beside another cluster in the project."""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal

from charterer.clouds.gcp import GcpGroup
from charterer.providers.gcp.listing import CLUSTER_LABEL, labels_of
from tests.clouds.gcp.project import STOCK_OUT
from tests.clouds.gcp.protocol import THROTTLED, Fault
from tests.contract.every_world import World
from tests.contract.gcp_pools import POOL, TYPE, ZONE, GcpMarket


class GcpWorld(World):
    """A pool of Google Cloud. ``reopen``: another process, with a project's clock and prices of its own."""

    stock_out = STOCK_OUT

    def __init__(self, reopen: Callable[[], GcpMarket]) -> None:
        market = reopen()
        super().__init__(market.provider, market.pool)
        self._reopen = reopen
        self._project = market.project
        self._group = isinstance(market.pool.cloud, GcpGroup)

    @property
    def _launch(self) -> str:
        return "instanceGroupManagers.createInstances" if self._group else "instances.bulkInsert"

    async def truth(self) -> Collection[str]:
        return [str(vm.id) for vm in self._project.alive() if str(vm.id) not in await self.elsewhere()]

    async def set_stock(self, machines: int) -> None:
        self._project.stock[TYPE, ZONE, "STANDARD"] = machines

    async def set_quota(self, machines: int) -> None:
        self._project.quotas["us-central1", "NVIDIA_A100_GPUS"] = machines

    async def lose(self, *, takes_effect: bool) -> None:
        self._project.faults.lose_answer(self._launch, takes_effect=takes_effect)

    async def lose_end(self, *, takes_effect: bool) -> None:
        call = "instanceGroupManagers.deleteInstances" if self._group else "instances.delete"
        self._project.faults.lose_answer(call, takes_effect=takes_effect)

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = self._reopen().provider

    async def fail_although_created(self) -> None:
        self._project.faults.fail(self._launch, Fault(503, "backendError", "Backend Error"), takes_effect=True)

    async def throttle(self) -> None:
        self._project.faults.fail_for("*", THROTTLED, self._project.clock.now, 600)

    async def expire_credentials(self) -> None:
        self._project.tokens = set()

    async def recover(self) -> None:
        self._project.tokens = None
        self._project.clock.advance(601)

    async def let_lists_lag(self) -> None:
        self._project.list_lag = 30

    async def let_starts_take_long(self) -> None:
        self._project.pending_seconds = 3600

    async def end_by_hand(self, instance: str) -> None:
        self._project.end(self._project.instances[int(instance)])

    async def start_elsewhere(self) -> str:
        labels = labels_of("another", POOL)
        return str(self._project.start_by_hand("charterer-cothers", ZONE, TYPE, labels).id)

    async def elsewhere(self) -> Collection[str]:
        alive, now = self._project.alive(), self._project.clock.now
        return [str(vm.id) for vm in alive if vm.labels_at(now).get(CLUSTER_LABEL) == "another"]

    async def set_price(self, dollars: str) -> None:
        self._project.prices[TYPE, False] = Decimal(dollars)
        await self.restart()
