"""A cluster in memory with NodeClaims, for tests of the adapter; the test plays Karpenter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import OrderToken, RentalId
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import Pool, Survey
from charterer.domain.time import Instant, after, format_instant
from charterer.providers.errors import ProviderError
from charterer.providers.karpenter.claims import CLAIMS
from charterer.providers.karpenter.provider import KarpenterCloud
from charterer.providers.objects import CallFailure, Json, Listed, ObjectsError
from tests import factory as make

EVENTS = "/apis/events.k8s.io/v1/events"
NODES = "/api/v1/nodes"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
KARPENTER_KEEPS = "karpenter.sh/termination"
CLOUD = NodeClaims("karpenter.k8s.aws", "EC2NodeClass", "gpu", "p5.48xlarge", "us-east-1a", "H100", 8)


class Cluster:
    """Objects by path. ``failures``: what the next calls of a kind (``create``, ``delete``, …) fail with.

    ``after_effect``: those failures come after the call took effect. ``before_delete`` happens before a deletion.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, list[CallFailure]] = {}
        self.after_effect = False
        self.before_delete: Callable[[], None] = lambda: None
        self.now = make.T0
        self.calls: list[str] = []
        self._versions = itertools.count(1)
        self.objects["/apis/karpenter.k8s.aws"] = {"versions": [{"groupVersion": "karpenter.k8s.aws/v1"}]}
        resources = [{"name": "ec2nodeclasses/status", "kind": "EC2NodeClass"}]
        resources.append({"name": "ec2nodeclasses", "kind": "EC2NodeClass"})
        self.objects["/apis/karpenter.k8s.aws/v1"] = {"resources": resources}
        self.objects[f"{CLASSES}/gpu"] = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    # --- Objects ------------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Json | None:
        self._fail("get")
        return self.objects.get(path)

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        self._fail("list")
        found = [raw for at, raw in sorted(self.objects.items()) if at.rpartition("/")[0] == path]
        if labels:
            key, equals, value = labels.partition("=")
            has = [raw for raw in found if key in (raw["metadata"].get("labels") or {})]
            found = [raw for raw in has if not equals or raw["metadata"]["labels"][key] == value]
        if fields:
            uid = fields.removeprefix("regarding.uid=").partition(",")[0]
            found = [raw for raw in found if raw["regarding"]["uid"] == uid]
        return Listed(found, self.now)

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        if not self.after_effect:
            self._fail("create")
        name = f"{path}/{body['metadata']['name']}"
        if name in self.objects:
            return False
        if not dry_run:
            version = str(next(self._versions))
            own = {"uid": f"uid-{version}", "resourceVersion": version, "creationTimestamp": format_instant(self.now)}
            self.objects[name] = {**body, "metadata": {**body["metadata"], **own}}
            self.calls.append(f"create {body['metadata']['name']}")
        if self.after_effect:
            self._fail("create")
        return True

    async def keep_by(self, path: str, resource_version: str, finalizers: Sequence[str]) -> str | None:
        self._fail("patch")
        raw = self.objects.get(path)
        if raw is None or raw["metadata"]["resourceVersion"] != resource_version:
            return None
        self.change(path, finalizers=list(finalizers))
        return str(raw["metadata"]["resourceVersion"])

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        self._fail("delete")
        self.before_delete()
        raw = self.objects.get(path)
        if raw is None or raw["metadata"]["uid"] != uid:
            return False
        if resource_version and raw["metadata"]["resourceVersion"] != resource_version:
            return False
        self.calls.append(f"delete {raw['metadata']['name']}")
        self.change(path, deletionTimestamp=format_instant(self.now))
        return True

    def _fail(self, call: str) -> None:
        if waiting := self.failures.get(call):
            raise ObjectsError(waiting.pop(0), f"{call} it", "as the test says")

    # --- levers -------------------------------------------------------------------------------------------------------

    def change(self, path: str, **metadata: object) -> None:
        """Change metadata; an object that is deleted and that nothing keeps goes."""
        raw = self.objects[path]
        raw["metadata"] |= {**metadata, "resourceVersion": str(next(self._versions))}
        if "deletionTimestamp" in raw["metadata"] and not raw["metadata"].get("finalizers"):
            del self.objects[path]

    def claim(self, order: str) -> dict[str, Any]:
        """The claim of an order."""
        return next(
            raw
            for path, raw in self.objects.items()
            if path.startswith(f"{CLAIMS}/") and raw["metadata"].get("labels", {}).get("charterer.dev/order") == order
        )

    def claims(self) -> Sequence[str]:
        """The orders that have claims."""
        found = [raw for path, raw in self.objects.items() if path.startswith(f"{CLAIMS}/")]
        return sorted(raw["metadata"]["labels"].get("charterer.dev/order", "") for raw in found)

    def path(self, order: str) -> str:
        """The path of an order's claim."""
        return f"{CLAIMS}/{self.claim(order)['metadata']['name']}"

    def seen(self, order: str) -> None:
        """Karpenter has begun to launch a machine for the claim."""
        metadata = self.claim(order)["metadata"]
        self.change(self.path(order), finalizers=[*metadata["finalizers"], KARPENTER_KEEPS])
        self.condition(order, "Launched", "Unknown", "AwaitingReconciliation")

    def condition(self, order: str, kind: str, status: str, reason: str, message: str = "") -> None:
        """Karpenter sets a condition."""
        held = self.claim(order).setdefault("status", {}).setdefault("conditions", [])
        held[:] = [condition for condition in held if condition["type"] != kind]
        at = format_instant(self.now)
        held.append({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at})

    def launched(self, order: str) -> None:
        """The claim has a machine and its Node."""
        if KARPENTER_KEEPS not in self.claim(order)["metadata"]["finalizers"]:
            self.seen(order)
        self.condition(order, "Launched", "True", "Launched")
        self.condition(order, "Registered", "True", "Registered")
        self.claim(order)["status"] |= {"providerID": f"aws:///{order}", "nodeName": f"node-{order}"}

    def dropped(self, order: str, note: str = "") -> None:
        """Karpenter deletes the claim without a machine; ``note``: the Event that says why."""
        raw = self.claim(order)
        if note:
            name = raw["metadata"]["name"]
            event = {"regarding": {"uid": raw["metadata"]["uid"]}, "note": f"NodeClaim {name} event: {note}"}
            self.objects[f"{EVENTS}/{name}"] = {"metadata": {"name": name}, **event}
        self.change(self.path(order), deletionTimestamp=format_instant(self.now), finalizers=["charterer.dev/bill"])

    def ended(self, order: str) -> None:
        """Karpenter has ended the machine of the claim."""
        self.condition(order, "InstanceTerminating", "True", "InstanceTerminating")
        self.change(self.path(order), deletionTimestamp=format_instant(self.now), finalizers=["charterer.dev/bill"])


class World:
    """The cluster, the adapter and a pool. ``pass_time`` moves both clocks."""

    def __init__(self, **fields: Any) -> None:
        self.cluster = Cluster()
        self.seconds = 0.0
        self.pool: Pool = make.pool(cloud=fields.pop("cloud", CLOUD), offering=None, quote=None, **fields)
        self.karpenter = KarpenterCloud(self.cluster, lambda: self.seconds)

    def pass_time(self, seconds: float) -> Instant:
        """The present time, ``seconds`` later."""
        self.seconds += seconds
        self.cluster.now = after(self.cluster.now, seconds)
        return self.cluster.now

    async def ask(self, *orders: str) -> Reply:
        """Ask for these orders, of rentals of the same name."""
        placed = [Order(OrderToken(order), RentalId(f"pool-{order}")) for order in orders]
        return await self.karpenter.ask(self.pool, Ask(tuple(placed), len(placed)))

    async def withdraw(self, *orders: str) -> None:
        """Give these orders up."""
        await self.karpenter.withdraw(self.pool, [OrderToken(order) for order in orders], 0)

    async def answer(self) -> Survey | ProviderError:
        """The survey of the pool, or its error."""
        return (await self.karpenter.survey([self.pool]))[self.pool.id]

    async def survey(self) -> Survey:
        """The survey of the pool."""
        answer = await self.answer()
        assert isinstance(answer, Survey), answer
        return answer
