"""How many more GPUs a project may have: its quotas of the region and of all regions, less what is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.clouds.gce_gpus import quota_metric
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.permissions import Call
from charterer.providers.provider import PreflightFinding

_EVERYWHERE: Final = "GPUS_ALL_REGIONS"


class Quotas:
    """Compares quotas with what is used."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def finding(
        self, pool: Pool, region: str, gpus: Mapping[str, int], own: int, *, flex: bool
    ) -> PreflightFinding:
        """Whether all nodes of the pool would be within the quotas of their GPUs. ``own``: the nodes it has already."""
        [(accelerator, each)] = gpus.items()
        preemptible = flex or pool.capacity_type is CapacityType.SPOT
        metric = quota_metric(accelerator, spot=preemptible)
        here = await self._calls(pool.id, Call.GET_REGION, region=region)
        everywhere = await self._calls(pool.id, Call.GET_PROJECT)
        places = (region, here.body), ("all regions", everywhere.body)
        rows = {row["metric"]: (row, place) for place, body in places for row in body.get("quotas", ())}
        found = [rows[name] for name in (metric, _EVERYWHERE) if name in rows]
        told = [f"{row['metric']} of {place}: {_used(row)} of {_limit(row)} are used" for row, place in found]
        if metric not in rows:
            told.append(f"the API tells no quota of {accelerator} in {region}: look in IAM & Admin, Quotas")
        fit = own + min((_free(row) // each for row, _ in found), default=pool.max_nodes)
        said = f"{'; '.join(told)}; a node has {each}"
        if fit >= pool.max_nodes:
            return PreflightFinding("quota", True, f"{said}, spec.maxNodes {pool.max_nodes} fits" if found else said)
        short = [row for row, _ in found if own + _free(row) // each < pool.max_nodes]
        wanted = "; ".join(f"{row['metric']} {_used(row) + (pool.max_nodes - own) * each}" for row in short)
        advice = f"ask for {wanted} in IAM & Admin, Quotas, or lower spec.maxNodes {pool.max_nodes}"
        return PreflightFinding("quota", False, f"{said}, so that {fit} fit: {advice}")


def _limit(row: Json) -> int:
    return int(row.get("limit", 0))


def _used(row: Json) -> int:
    return int(row.get("usage", 0))


def _free(row: Json) -> int:
    return max(_limit(row) - _used(row), 0)
