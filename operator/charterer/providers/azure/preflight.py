"""Preflight: what would fail, or cost money by surprise, is found before the first dollar is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.azure.autoscale import Autoscale
from charterer.providers.azure.calls import Calls, uses_a_secret
from charterer.providers.azure.groups import Group, GroupState
from charterer.providers.azure.hardware import AzureHardware
from charterer.providers.azure.node_pools import NodePools
from charterer.providers.azure.permissions import At, Call, For, actions, missing
from charterer.providers.azure.prices import Prices
from charterer.providers.azure.quotas import quota_finding
from charterer.providers.errors import CloudUnauthorized, ProviderError
from charterer.providers.provider import Check, PreflightFinding, checked, size_finding

_VERSION: Final = "2022-04-01"
_FLEXIBLE: Final = "Flexible"


class Preflight:
    """Looks at everything that a pool needs, and changes nothing."""

    def __init__(self, calls: Calls, hardware: AzureHardware, prices: Prices, autoscale: Autoscale) -> None:
        self._calls = calls
        self._hardware = hardware
        self._prices = prices
        self._autoscale = autoscale

    async def findings(self, pool: Pool, group: Group) -> Sequence[PreflightFinding]:
        """One finding for each thing that was looked at; without the scale set, only why it cannot be read."""
        cloud, subject = _cloud_of(pool), "scale set" if isinstance(pool.cloud, AzureScaleSet) else "node pool"
        found = list(_secret())
        try:
            state = await group.read(pool)
        except CloudUnauthorized as error:
            return [*found, PreflightFinding("credentials", False, error.said)]
        except ProviderError as error:
            return [*found, PreflightFinding(subject, False, error.said)]
        fit = [PreflightFinding(subject, True, f"{state.id} is fit")]
        found += [PreflightFinding(subject, False, each) for each in state.wrong] or fit
        checks: list[tuple[str, Check]] = [
            ("rights", lambda: self._rights(pool, group, state)),
            ("autoscale settings", lambda: self._autoscalers(pool, state)),
            ("GPUs", lambda: self._gpus(pool, cloud, state)),
            ("zones", lambda: self._zones(pool, cloud, state)),
            ("price", lambda: self._price(pool, cloud, state)),
        ]
        if state.reservation:
            checks.append(("capacity reservation", lambda: self._reservation(pool, state)))
        else:
            checks.append(("quota", lambda: self._quota(pool, cloud, state)))
        found += [await checked(name, check) for name, check in checks]
        return found if state.most is None else [*found, size_finding(pool, state.most)]

    async def _rights(self, pool: Pool, group: Group, state: GroupState) -> PreflightFinding:
        """Those in the groups, as Azure lists them. Those in the subscription show in the other checks."""
        cloud = _cloud_of(pool)
        kinds = {For.ALL}
        if isinstance(cloud, AzureNodePool):
            kinds.add(For.AKS)
        else:
            flexible = state.body["properties"].get("orchestrationMode") == _FLEXIBLE
            kinds |= {For.SET, For.FLEXIBLE} if flexible else {For.SET}
        places = {At.GROUP: cloud.resource_group}
        if isinstance(group, NodePools):
            places[At.NODES] = (await group.behind(pool)).resource_group
        lacking: list[str] = []
        for at, name in places.items():
            path = f"/subscriptions/{cloud.subscription}/resourceGroups/{name}"
            url = f"{path}/providers/Microsoft.Authorization/permissions"
            params = {"url": url, "query": {"api-version": _VERSION}}
            rows = (await self._calls(pool.id, Call.LIST_PERMISSIONS, params)).body
            lacking += [f"{action} in {name}" for action in missing(actions(kinds, at), rows)]
        if lacking:
            advice = "give the identity the roles of docs/clouds/azure.md"
            return PreflightFinding("rights", False, f"the identity may not {', '.join(lacking)}: {advice}")
        return PreflightFinding(
            "rights", True, f"the identity has all rights that it needs in {', '.join(places.values())}"
        )

    async def _autoscalers(self, pool: Pool, state: GroupState) -> PreflightFinding:
        wrong = await self._autoscale.problems(pool, state)
        return PreflightFinding("autoscale settings", not wrong, "; ".join(wrong) or "none changes its capacity")

    async def _gpus(self, pool: Pool, cloud: AzureScaleSet | AzureNodePool, state: GroupState) -> PreflightFinding:
        offering = await self._hardware.offering(pool, cloud.location, state, cloud.gpu_type)
        size = await self._hardware.size(pool, cloud.location, state.size)
        said = size.told_otherwise or f"{offering.gpus_per_node} × {offering.gpu_type} a node"
        return PreflightFinding("GPUs", not size.told_otherwise, said)

    async def _zones(self, pool: Pool, cloud: AzureScaleSet | AzureNodePool, state: GroupState) -> PreflightFinding:
        """Whether the subscription may have the size where the set would make it."""
        size = await self._hardware.size(pool, cloud.location, state.size)
        places = list(state.zones) or [cloud.location]
        closed = [place for place in places if {place, cloud.location} & size.closed]
        if not closed:
            return PreflightFinding("zones", True, f"{size.name} in {', '.join(places)}")
        advice = "ask Microsoft to open it for the subscription, or take another size or place"
        told = f"the subscription may not have {size.name} in {', '.join(closed)}: {advice}"
        return PreflightFinding("zones", len(closed) < len(places), told)

    async def _price(self, pool: Pool, cloud: AzureScaleSet | AzureNodePool, state: GroupState) -> PreflightFinding:
        quote = await self._prices.quote(pool, state.size, cloud.location)
        return PreflightFinding("price", True, f"{quote.price}, at most {quote.worst}: {quote.source}")

    async def _quota(self, pool: Pool, cloud: AzureScaleSet | AzureNodePool, state: GroupState) -> PreflightFinding:
        size = await self._hardware.size(pool, cloud.location, state.size)
        return await quota_finding(self._calls, pool, cloud.location, size, state)

    async def _reservation(self, pool: Pool, state: GroupState) -> PreflightFinding:
        """How much of the reservations for the set's size is free. What is beyond them is made on demand."""
        subject = "capacity reservation"
        if pool.capacity_type is CapacityType.SPOT:
            message = "spot VMs use no reservation: take capacityReservation out of the scale set"
            return PreflightFinding(subject, False, message)
        parts = state.reservation.split("/")
        names = {"resource_group_name": parts[4], "capacity_reservation_group_name": parts[-1]}
        rows = (await self._calls(pool.id, Call.LIST_RESERVATIONS, names)).body
        total = used = 0
        for row in (row for row in rows if row["sku"]["name"] == state.size):
            params = {**names, "capacity_reservation_name": row["name"], "expand": "instanceView"}
            body = (await self._calls(pool.id, Call.GET_RESERVATION, params)).body
            view = (body["properties"].get("instanceView") or {}).get("utilizationInfo") or {}
            total += int(body["sku"]["capacity"])
            used += len(view.get("virtualMachinesAllocated") or ())
        told = f"{parts[-1]}: {used} of {total} reserved {state.size} are used"
        if not total:
            return PreflightFinding(subject, False, f"{told}: reserve some there, or name another group")
        beyond = "" if total >= pool.max_nodes else f"; spec.maxNodes {pool.max_nodes} is more, the rest is on demand"
        return PreflightFinding(subject, True, f"{told}{beyond}")


def _cloud_of(pool: Pool) -> AzureScaleSet | AzureNodePool:
    if not isinstance(pool.cloud, AzureScaleSet | AzureNodePool):
        raise TypeError(f"GPUPool {pool.id} is not of Azure: {pool.cloud}")
    return pool.cloud


def _secret() -> Sequence[PreflightFinding]:
    if not uses_a_secret():
        return ()
    message = "the environment has a client secret: take it out, and give the ServiceAccount an identity instead"
    return [PreflightFinding("client secret", False, f"{message} (Workload Identity, see docs/clouds/azure.md)")]
