"""Karpenter as the demo's cloud: what its NodeClaims cost."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from charterer.domain.money import Price
from demo import karpenter, scenario
from demo.scenario import an_hour
from tests.testbed.karpenter_process import CloudInstance

HOUR = an_hour(30, "karpenter")
A = karpenter.tariffs(HOUR)["fake-1a"]
NOON = 1_768_046_400.0
"""2026-01-10 12:00 UTC."""


def claim(ended: str | None = None, provider_id: str = "kwok://a") -> dict[str, Any]:
    over = [{"type": "InstanceTerminating", "status": "True", "lastTransitionTime": ended}] if ended else []
    return {
        "metadata": {"creationTimestamp": "2026-01-10T12:00:00Z"},
        "status": {"providerID": provider_id, "conditions": [{"type": "Ready", "status": "True"}, *over]},
    }


def test_a_machine_is_billed_from_its_claim_until_karpenter_ends_it_or_until_now() -> None:
    assert karpenter.claim_seconds(claim("2026-01-10T12:01:40Z"), NOON + 500.0) == (100, True)
    assert karpenter.claim_seconds(claim(), NOON + 30.0) == (30, False)
    assert karpenter.claim_seconds(claim(provider_id=""), NOON + 30.0) is None


@pytest.mark.parametrize("seconds", [0, 1, 2, 17, 100, 3601])
def test_the_demo_reckons_a_bill_as_the_ledger_does(seconds: int) -> None:
    """Both round half up to the micro-dollar, and bill the sped-up minimum."""
    price = Price.parse(scenario.sold(HOUR)["groups"][0]["hourlyPrice"])
    assert A.cost(seconds) == price.cost(max(seconds, 2)).micros


def test_the_machines_are_metered_from_launch_to_end_at_their_zones_price() -> None:
    offer = "g4dn.12xlarge/on-demand/fake-1a"
    machines = [
        CloudInstance("a", "t4-a-1", offer, NOON, NOON + 100.2),
        CloudInstance("b", "t4-a-2", offer, NOON, None),
    ]
    assert karpenter.metered(HOUR, machines, NOON + 40.0) == A.cost(100) + A.cost(40)


def test_karpenters_pools_mean_the_machines_that_are_sold() -> None:
    groups = scenario.sold(HOUR)["groups"]
    for spec, group in zip(scenario.pools(HOUR, "http://metrics"), groups, strict=True):
        assert decode.pool(applied(spec)).id == group["name"]
        cloud = spec["spec"]["karpenter"]
        assert (cloud["zone"], cloud["gpuType"], cloud["gpusPerNode"], cloud["billingMinimumSeconds"]) == (
            group["zone"],
            group["gpuType"],
            group["gpusPerInstance"],
            group["billingMinimumSeconds"],
        )
        assert cloud["priceMetrics"] == "http://metrics"


def applied(raw: dict[str, Any]) -> dict[str, Any]:
    """The manifest with what the API server adds."""
    added = {"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-10T12:00:00Z"}
    return raw | {"metadata": added | raw["metadata"]}
