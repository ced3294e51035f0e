"""The Provider of Azure: all pools of one subscription and identity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply, Traits
from charterer.domain.pool import CapacityType, Pool, Quote, Survey
from charterer.providers.azure.calls import Answer, Calls, Params, Sdk, uses_a_secret
from charterer.providers.azure.hardware import AzureHardware, VmSize
from charterer.providers.azure.listing import LAG_SECONDS, Group, GroupState
from charterer.providers.azure.node_pools import NodePools
from charterer.providers.azure.permissions import At, Call, For, actions, missing
from charterer.providers.azure.prices import Prices
from charterer.providers.azure.scale_sets import Autoscale, ScaleSets, Scaling
from charterer.providers.codes import understood
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    ProviderError,
    UnknownCode,
)
from charterer.providers.provider import (
    NONE_KNOWN,
    Check,
    Drained,
    KnownMachines,
    PreflightFinding,
    checked,
    size_finding,
    vcpus_finding,
)
from charterer.providers.threads import Sleep

# How many more VMs a subscription may have: its quota for a size's family, or for spot, minus the VMs that it has.


_SPOT = "lowPriorityCores"
_REGION = "cores"


async def quota_finding(calls: Calls, pool: Pool, location: str, size: VmSize, state: GroupState) -> PreflightFinding:
    """Whether all nodes of the pool fit into the subscription's quotas, in addition to everything that the subscription
    already has.
    """
    rows = (await calls(pool.id, Call.LIST_USAGE, {"location": location})).body
    spot = pool.capacity_type is CapacityType.SPOT
    wanted = {_SPOT} if spot else {size.family.lower(), _REGION}
    counting = [row for row in rows if row["name"]["value"].lower() in {name.lower() for name in wanted}]
    if len(counting) != len(wanted):
        message = f"no quota is known for {size.name}, {pool.capacity_type.value}: look at the portal's quotas"
        return PreflightFinding("quota", True, message)
    own = len(state.alive)
    row = min(counting, key=lambda row: int(row["limit"]) - int(row["currentValue"]))
    used, allowed = int(row["currentValue"]), int(row["limit"])
    name = row["name"].get("localizedValue") or row["name"]["value"]
    return vcpus_finding(pool, name, used, allowed, size.vcpus, own, "at https://aka.ms/quotaincrease,")


# Preflight: checks that find failures and surprising costs before any money is spent.


_VERSION: Final = "2022-04-01"
_FLEXIBLE: Final = "Flexible"


class Preflight:
    """Checks everything that a pool needs. It changes nothing."""

    def __init__(self, calls: Calls, hardware: AzureHardware, prices: Prices, autoscale: Autoscale) -> None:
        self._calls = calls
        self._hardware = hardware
        self._prices = prices
        self._autoscale = autoscale

    async def findings(self, pool: Pool, group: Group) -> Sequence[PreflightFinding]:
        """One finding for each thing that was checked.

        If the scale set cannot be read, the only finding is the reason.
        """
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
        """The finding on rights in the resource groups, as Azure lists them.

        Whether rights in the subscription are missing shows in other checks.
        """
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
        """The finding on whether the subscription may have the size in the zones of the set."""
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
        """The finding on how many VMs of the set's size the reservations still have room for. Further VMs are made on
        demand.
        """
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


TRAITS: Final = Traits(named=False, keeps_trying=True, together=False, lag_seconds=LAG_SECONDS, listed_seconds=0.0)
"""The traits of a scale set. A set that grows may bring VMs until its operation ends, so VMs that are no longer wanted
must be withdrawn.
"""


class AzureCloud:
    """The Provider of one subscription and identity.

    ``send``: sends a call. By default it is the SDK.
    ``clock``: seconds of a clock that never goes back.
    ``sleep``: waits between attempts.
    """

    def __init__(
        self,
        subscription: str,
        tenant: str,
        client: str,
        send: Callable[[Call, Params], Answer] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._calls = Calls(send or Sdk(subscription, tenant, client), sleep)
        self._clock = clock
        self._hardware = AzureHardware(self._calls, clock)
        self._prices = Prices(self._calls, clock)
        autoscale = Autoscale(self._calls, clock)
        self._sets = ScaleSets(self._calls)
        self._pools = NodePools(self._calls, clock)
        self._scaling = Scaling(self._calls, autoscale)
        self._preflight = Preflight(self._calls, self._hardware, self._prices, autoscale)
        self._sizes: dict[PoolId, str] = {}

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The surveys, from two reads for each pool. VMs are found by their scale set, and not by a tag, which could be
        lost.
        """
        answers = await asyncio.gather(*(self._survey_or_error(pool) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def _survey_or_error(self, pool: Pool) -> Survey | ProviderError:
        try:
            with understood(pool.id, "survey", UnknownCode):
                return await self._survey(pool)
        except ProviderError as error:
            return error

    async def _survey(self, pool: Pool) -> Survey:
        group, cloud = self._group_of(pool)
        state = await self._scaling.read(pool, group)
        self._sizes[pool.id] = state.size
        offering = await self._hardware.offering(pool, cloud.location, state, cloud.gpu_type)
        return Survey(
            pool=pool.id,
            target=state.wanted,
            ordered=frozenset(),
            instances=tuple([vm.to_domain(state.asked) for vm in state.vms if not (vm.hostless or vm.unnamed)]),
            refusals=tuple(await self._scaling.refusals(pool, state)),
            notices=(),
            asked=state.asked,
            traits=TRAITS,
            offering=offering,
        )

    async def quote(self, pool: Pool) -> Quote:
        """The retail price of the scale set's size."""
        with understood(pool.id, "quote", UnknownCode):
            group, cloud = self._group_of(pool)
            if pool.id not in self._sizes:
                self._sizes[pool.id] = (await self._scaling.read(pool, group)).size
            return await self._prices.quote(pool, self._sizes[pool.id], cloud.location)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Raise the capacity to the number of nodes wanted, if it is lower. If it is called again with the same orders,
        nothing changes.
        """
        with understood(pool.id, "ask", CloudOutcomeUnknown):
            return await self._scaling.ask(pool, self._group_of(pool)[0], ask)

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Delete VMs that found no host, or lower the capacity to ``keep``, but never below the number of existing
        VMs.
        """
        with understood(pool.id, "withdraw", CloudOutcomeUnknown):
            await self._scaling.withdraw(pool, self._group_of(pool)[0], keep)

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """Delete the VM if it is in the pool's scale set. The deletion also lowers the capacity."""
        with understood(pool.id, "terminate", CloudOutcomeUnknown):
            await self._scaling.terminate(pool, self._group_of(pool)[0], instance)

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Do nothing. VMs of Azure do not end themselves."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find failures and surprising costs before any money is spent."""
        with understood(pool.id, "preflight", UnknownCode):
            return await self._preflight.findings(pool, self._group_of(pool)[0])

    async def close(self) -> None:
        """End the threads."""
        self._calls.close()

    def _group_of(self, pool: Pool) -> tuple[Group, AzureScaleSet | AzureNodePool]:
        match pool.cloud:
            case AzureScaleSet() as cloud:
                return self._sets, cloud
            case AzureNodePool() as cloud:
                return self._pools, cloud
            case _:
                raise InvalidRequest(pool.id, "spec", "NotAzure", "this is no pool of Azure")
