"""Karpenter as the demo's cloud: its offers, and a bill computed from its NodeClaims.

Prices, stock and start-up times are in demo/manifests/karpenter-offers.yaml.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from demo import scenario
from demo.cloud import Bill
from demo.kube import Kube
from demo.money import micros
from demo.pace import Json
from demo.programs import DemoError
from demo.scenario import Scenario
from tests.testbed import karpenter
from tests.testbed.karpenter_process import CloudInstance, KarpenterProcess, Plane, instance_type

NAME = f"Karpenter {karpenter.version()} with its kwok provider"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_POOL = "charterer.dev/pool"


def start(of: Scenario, plane: Plane, directory: Path) -> KarpenterProcess:
    """Start a Karpenter with the demo's offers and start-up times at the demo's pace.

    DemoError if it has not been built.
    """
    files = karpenter.find()
    if files is None:
        raise DemoError("Karpenter has not been built: run `make karpenter`")
    groups = scenario.sold(of)["groups"]
    offers = [("on-demand", group["zone"], float(group["hourlyPrice"])) for group in groups]
    (cloud, *_) = (pool["spec"]["karpenter"] for pool in scenario.load("pools-karpenter"))
    started = KarpenterProcess.start(
        plane,
        files,
        directory,
        types=[instance_type(cloud["instanceType"], cloud["gpusPerNode"], *offers)],
        pace=of.pace.factor,
    )
    started.behave(
        *(
            {
                "zone": group["zone"],
                "stock": min(group["maxSize"], group.get("stock", group["maxSize"])),
                "startSeconds": group["startupSeconds"],
            }
            for group in groups
        )
    )
    return started


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of a pool's machines in micro-dollars per hour, billed by the second, at least ``least_seconds``."""

    pool: str
    hourly_micros: int
    least_seconds: int

    def cost(self, seconds: int) -> int:
        """Return the cost in micro-dollars, rounded half up."""
        return (self.hourly_micros * max(seconds, self.least_seconds) + 1800) // 3600


def tariffs(of: Scenario) -> Mapping[str, Tariff]:
    """Return the tariffs by zone."""
    return {
        group["zone"]: Tariff(group["name"], micros(group["hourlyPrice"]), group["billingMinimumSeconds"])
        for group in scenario.sold(of)["groups"]
    }


def metered(of: Scenario, machines: Iterable[CloudInstance], now: float) -> int:
    """Return the cost in micro-dollars of the machines from launch to end, or to ``now`` (seconds since 1970)."""
    by_zone = tariffs(of)
    return sum(
        by_zone[zone_of(machine)].cost(round((now if machine.ended is None else machine.ended) - machine.launched))
        for machine in machines
    )


def zone_of(machine: CloudInstance) -> str:
    """Return the zone in which the machine runs."""
    return machine.offer.rpartition("/")[2]


def claim_seconds(claim: Json, now: float) -> tuple[int, bool] | None:
    """Return the billed seconds of a claim's machine, and whether the machine has ended. None without a machine."""
    status = claim.get("status", {})
    if not status.get("providerID"):
        return None
    ends = [told for told in status.get("conditions", ()) if told["type"] == "InstanceTerminating"]
    final = bool(ends) and ends[0]["status"] == "True"
    end = _seconds(ends[0]["lastTransitionTime"]) if final else now
    return max(0, round(end - _seconds(claim["metadata"]["creationTimestamp"]))), final


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


@dataclass(slots=True)
class KarpenterCloud:
    """Karpenter and its machines. The bill is the sum over the NodeClaims that ``follow`` has seen."""

    kube: Kube
    of: Scenario
    process: KarpenterProcess
    name: str = NAME
    claims: dict[str, Json] = field(default_factory=dict)

    async def follow(self) -> None:
        """Store the last state of each claim, until cancelled."""
        async for objects in self.kube.watch(CLAIMS, labelSelector=_POOL):
            self.claims.update(objects)

    async def machines(self) -> list[dict[str, Any]]:
        """Return all machines ever launched, in their present state. Raises DemoError if Karpenter has ended."""
        if not self.process.running:
            raise DemoError(f"Karpenter has ended: {self.process.tail()}")
        by_zone = tariffs(self.of)
        return [
            {"group": by_zone[zone_of(machine)].pool, "state": "Running" if machine.ended is None else "Ended"}
            for machine in self.process.instances()
        ]

    async def bill(self) -> Bill:
        """Return the present bill."""
        now, machines = time.time(), self.process.instances()
        prices = {tariff.pool: tariff for tariff in tariffs(self.of).values()}
        total, still = 0, {machine.claim for machine in machines if machine.ended is None}
        for claim in self.claims.values():
            line = claim_seconds(claim, now)
            if line is not None:
                total += prices[claim["metadata"]["labels"][_POOL]].cost(line[0])
                still |= set() if line[1] else {claim["metadata"]["name"]}
        return Bill(
            total,
            len(machines),
            len(still),
            "the sum over Karpenter's NodeClaims",
            metered(self.of, machines, now),
        )
