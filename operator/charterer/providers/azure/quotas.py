"""How many more VMs a subscription may have: its quota for the family of a size, or for spot, less what is used."""

from __future__ import annotations

from charterer.domain.pool import CapacityType, Pool
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.groups import GroupState
from charterer.providers.azure.hardware import VmSize
from charterer.providers.azure.permissions import Call
from charterer.providers.provider import PreflightFinding, vcpus_finding

_SPOT = "lowPriorityCores"
_REGION = "cores"


async def quota_finding(calls: Calls, pool: Pool, location: str, size: VmSize, state: GroupState) -> PreflightFinding:
    """Whether all nodes of the pool would be within the subscription's quotas, with whatever else it has there."""
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
