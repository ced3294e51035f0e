"""How many more virtual CPUs an account may run: its quota for a family of instance types, less what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.clouds.ec2_quotas import QUOTAS, VcpuQuota
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.hardware import AwsHardware
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG, Call
from charterer.providers.provider import PreflightFinding, vcpus_finding

_COUNTED_STATES: Final = ("pending", "running")


class Quotas:
    """Compares quotas with what runs in the account."""

    def __init__(self, calls: Calls, hardware: AwsHardware) -> None:
        self._calls = calls
        self._hardware = hardware

    async def finding(self, pool: Pool, types: Sequence[str], cluster: str) -> PreflightFinding:
        """Whether all nodes of the pool would be within the quota of their family, with the others that run."""
        counting = {quota for name in types for quota in QUOTAS if quota.counts(name, pool.capacity_type)}
        if len(counting) != 1:
            message = f"no quota is known for {', '.join(types)}, {pool.capacity_type.value}: look in Service Quotas"
            return PreflightFinding("quota", True, message)
        [quota] = counting
        answer = await self._calls(pool.id, Call.QUOTA, {"ServiceCode": "ec2", "QuotaCode": quota.code})
        allowed = int(answer["Quota"]["Value"])
        used, own = await self._used(pool, quota, cluster)
        each = max([await self._hardware.vcpus(pool, name) for name in types])
        return vcpus_finding(pool, quota.name, used, allowed, each, own, f"in Service Quotas ({quota.code})")

    async def _used(self, pool: Pool, quota: VcpuQuota, cluster: str) -> tuple[int, int]:
        """Virtual CPUs of all instances of the account that count, and how many of those are this pool's nodes."""
        filters = [
            {"Name": "instance-type", "Values": list(quota.families)},
            {"Name": "instance-state-name", "Values": list(_COUNTED_STATES)},
        ]
        params = {"Filters": filters, "MaxResults": 1000}
        reservations, _ = await self._calls.pages(pool.id, Call.DESCRIBE_INSTANCES, params, "Reservations")
        lifecycle = "spot" if quota.capacity is CapacityType.SPOT else ""
        rows = [row for reservation in reservations for row in reservation["Instances"]]
        rows = [row for row in rows if row.get("InstanceLifecycle", "") == lifecycle]
        own = 0
        for row in rows:
            tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", ())}
            own += (tags.get(CLUSTER_TAG), tags.get(POOL_TAG)) == (cluster, pool.id)
        return sum([await self._hardware.vcpus(pool, row["InstanceType"]) for row in rows]), own
