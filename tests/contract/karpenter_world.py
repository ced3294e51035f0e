"""Karpenter for the contract suite: its adapter on a cluster in memory, in which the world plays Karpenter.

tests/cluster/test_karpenter.py has the real Karpenter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from aiohttp import web

from charterer.providers.karpenter.claims import CLAIMS
from charterer.providers.karpenter.provider import METRIC, KarpenterCloud
from charterer.providers.objects import CallFailure, Json, Listed, ObjectsError
from tests import factory as make
from tests.contract.every_world import World
from tests.unit.providers.claims_world import CLOUD, KARPENTER_KEEPS, Cluster


class PlayedCluster(Cluster):
    """Karpenter acts on a claim as soon as it is created or deleted.

    ``stock`` and ``quota``: how many machines there may be. ``late``: Karpenter does not write down what it launches.
    ``silent``: machines do not register. ``refuses``: what every call fails with. ``lost``: the next call of a kind
    fails, after it took effect or before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stock: int | None = None
        self.quota: int | None = None
        self.late = False
        self.silent = False
        self.refuses: CallFailure | None = None
        self.lost: dict[str, bool] = {}

    def running(self) -> Collection[str]:
        """Names of the claims whose machines are billed."""
        return [raw["metadata"]["name"] for raw in self._claims() if KARPENTER_KEEPS in raw["metadata"]["finalizers"]]

    def act(self) -> None:
        """Karpenter looks at all claims."""
        for raw in self._claims():
            metadata, order = raw["metadata"], raw["metadata"]["labels"]["charterer.dev/order"]
            if "deletionTimestamp" not in metadata and "providerID" not in raw.get("status", {}):
                self._launch(order)
            elif "deletionTimestamp" in metadata and KARPENTER_KEEPS in metadata["finalizers"]:
                self.ended(order)

    def _claims(self) -> list[dict[str, Any]]:
        found = [raw for path, raw in sorted(self.objects.items()) if path.startswith(f"{CLAIMS}/")]
        return [raw for raw in found if "charterer.dev/order" in raw["metadata"].get("labels", {})]

    def _launch(self, order: str) -> None:
        if self.late:
            if KARPENTER_KEEPS not in self.claim(order)["metadata"]["finalizers"]:
                self.seen(order)
        elif self.stock is not None and len(self.running()) >= self.stock:
            self.dropped(order, "with fleet error(s), InsufficientInstanceCapacity: none left")
        elif self.quota is not None and len(self.running()) >= self.quota:
            self.dropped(order, "with fleet error(s), VcpuLimitExceeded: too many")
        else:
            self.launched(order)
            if self.silent:
                self.condition(order, "Registered", "Unknown", "NodeNotFound")

    # --- Objects ------------------------------------------------------------------------------------------------------

    def _fail(self, call: str) -> None:
        if self.refuses is not None:
            raise ObjectsError(self.refuses, f"{call} it", "as the test says", 7.0)
        super()._fail(call)

    def _lost(self, call: str, *, takes_effect: bool) -> None:
        if self.lost.get(call) is takes_effect:
            del self.lost[call]
            raise ObjectsError(CallFailure.UNKNOWN, f"{call} it", "no answer")

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        """As a list is, once Karpenter has looked."""
        self.act()
        return await super().list(path, labels=labels, fields=fields)

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        """Create, and let Karpenter act."""
        self._lost("create", takes_effect=False)
        created = await super().create(path, body, dry_run=dry_run)
        self.act()
        self._lost("create", takes_effect=True)
        return created

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        """Delete, and let Karpenter act."""
        self._lost("delete", takes_effect=False)
        deleted = await super().delete(path, uid=uid, resource_version=resource_version)
        self.act()
        self._lost("delete", takes_effect=True)
        return deleted


class KarpenterWorld(World):
    """A pool of claims. ``prices`` serves Karpenter's metrics."""

    def __init__(self, prices: KarpenterPrices) -> None:
        self._cluster = PlayedCluster()
        self._prices = prices
        cloud = replace(CLOUD, price_metrics=prices.url)
        super().__init__(KarpenterCloud(self._cluster), make.pool(cloud=cloud, offering=None, quote=None))

    async def truth(self) -> Collection[str]:
        return self._cluster.running()

    async def set_stock(self, machines: int) -> None:
        self._cluster.stock = machines

    async def set_quota(self, machines: int) -> None:
        self._cluster.quota = machines

    async def lose(self, *, takes_effect: bool) -> None:
        self._cluster.lost["create"] = takes_effect

    async def lose_end(self, *, takes_effect: bool) -> None:
        self._cluster.lost["delete"] = takes_effect

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = KarpenterCloud(self._cluster)

    async def fail_although_created(self) -> None:
        await self.lose(takes_effect=True)

    async def throttle(self) -> None:
        self._cluster.refuses = CallFailure.THROTTLED

    async def expire_credentials(self) -> None:
        self._cluster.refuses = CallFailure.FORBIDDEN

    async def recover(self) -> None:
        self._cluster.refuses = None
        self._cluster.late = False
        self._cluster.act()

    async def let_lists_lag(self) -> None:
        self._cluster.late = True

    async def let_starts_take_long(self) -> None:
        self._cluster.silent = True

    async def end_by_hand(self, instance: str) -> None:
        path = f"{CLAIMS}/{instance}"
        await self._cluster.delete(path, uid=self._cluster.objects[path]["metadata"]["uid"])

    async def start_elsewhere(self) -> str:
        metadata = {"name": "others", "finalizers": [KARPENTER_KEEPS]}
        await self._cluster.create(CLAIMS, {"metadata": metadata, "spec": {}})
        return "others"

    async def elsewhere(self) -> Collection[str]:
        return ["others"] if f"{CLAIMS}/others" in self._cluster.objects else []

    async def set_price(self, dollars: str) -> None:
        self._prices.dollars = dollars


class KarpenterPrices:
    """Karpenter's metrics on a port of this machine."""

    def __init__(self) -> None:
        self.dollars = "55.04"
        self.url = ""
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app)

    async def start(self) -> None:
        """Serve until ``stop``."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/metrics"

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()

    async def _answer(self, _: web.Request) -> web.Response:
        labels = f'capacity_type="on-demand",instance_type="{CLOUD.instance_type}",zone="{CLOUD.zone}"'
        return web.Response(text=f"{METRIC}{{{labels}}} {self.dollars}\n")
