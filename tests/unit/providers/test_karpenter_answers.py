"""What Karpenter says, classified: codes in Events, reasons in conditions, prices in metrics; and the preflight."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from aiohttp import web

from charterer.domain.money import Price
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.providers.errors import CloudUnreachable, InvalidRequest, UnknownCode
from charterer.providers.karpenter import provider
from charterer.providers.karpenter.provider import METRIC
from charterer.providers.objects import CallFailure
from tests import factory as make
from tests.unit.providers.claims_world import CLASSES, CLOUD, NODES, World

ABOUT = provider.About(make.pool(cloud=CLOUD), CLOUD, None, make.T0)


class TestRefusals:
    @pytest.mark.parametrize(
        ("message", "kind", "scope", "code"),
        [
            ("InsufficientInstanceCapacity: none", RefusalKind.STOCK_OUT, Scope.ZONE, "InsufficientInstanceCapacity"),
            ("Unsupported: not here", RefusalKind.STOCK_OUT, Scope.ZONE, "Unsupported"),
            ("VcpuLimitExceeded: no", RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY, "VcpuLimitExceeded"),
            (
                "InsufficientInstanceCapacity: none; MaxSpotInstanceCountExceeded: no",
                RefusalKind.QUOTA_EXCEEDED,
                Scope.FAMILY,
                "MaxSpotInstanceCountExceeded",
            ),
            (
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted: no",
                RefusalKind.UNAUTHORIZED,
                Scope.ACCOUNT,
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            ),
            ("ZonalAllocationFailed", RefusalKind.STOCK_OUT, Scope.ZONE, "ZonalAllocationFailed"),
            (
                "OverconstrainedZonalAllocationRequest",
                RefusalKind.STOCK_OUT,
                Scope.ZONE,
                "OverconstrainedZonalAllocationRequest",
            ),
            (
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: no",
                RefusalKind.STOCK_OUT,
                Scope.ZONE,
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            ),
            ("resolving nodeclass, not found", RefusalKind.INVALID_REQUEST, Scope.POOL, "resolving nodeclass"),
            ("something else altogether", RefusalKind.STOCK_OUT, Scope.ZONE, "InsufficientCapacityError"),
        ],
    )
    def test_a_code_in_an_event_has_its_class(self, message: str, kind: RefusalKind, scope: Scope, code: str) -> None:
        refusal = provider.of_event(f"NodeClaim x event: with fleet error(s), {message}", ABOUT)
        assert (refusal.kind, refusal.scope, refusal.code) == (kind, scope, code)
        assert refusal.message == f"with fleet error(s), {message}"

    def test_a_code_inside_another_word_is_not_found(self) -> None:
        refusal = provider.of_event("NodeClaim x event: NotInsufficientInstanceCapacityAtAll", ABOUT)
        assert refusal.code == "InsufficientCapacityError"

    def test_an_unknown_reason_is_loud(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR):
            refusal = provider.of_condition("SolarFlare", "no machine", ABOUT)
        assert (refusal.kind, refusal.code) == (RefusalKind.UNKNOWN_CODE, "SolarFlare")
        assert "SolarFlare: no machine" in caplog.text

    @pytest.mark.parametrize(
        ("reason", "kind"),
        [
            ("Unauthorized", RefusalKind.UNAUTHORIZED),
            ("VCPULimitExceeded", RefusalKind.QUOTA_EXCEEDED),
            ("InsufficientFreeAddressesInSubnet", RefusalKind.STOCK_OUT),
            ("AMINotFound", RefusalKind.INVALID_REQUEST),
            ("LaunchFailed", RefusalKind.LAUNCH_FAILED),
            ("InternalError", RefusalKind.LAUNCH_FAILED),
        ],
    )
    def test_a_reason_of_the_condition_has_its_class(self, reason: str, kind: RefusalKind) -> None:
        assert provider.of_condition(reason, "", ABOUT).kind is kind


def _line(capacity: str, kind: str, zone: str, price: str) -> str:
    return f'{METRIC}{{capacity_type="{capacity}",instance_type="{kind}",zone="{zone}"}} {price}'


METRICS = "\n".join(
    [
        f"# HELP {METRIC} Price",
        'karpenter_cloudprovider_instance_type_cpu_cores{instance_type="p5.48xlarge"} 192',
        _line("on-demand", "p5.48xlarge", "us-east-1a", "55.04"),
        _line("spot", "p5.48xlarge", "us-east-1a", "2.15e+01"),
        _line("on-demand", "p5.48xlarge", "us-east-1b", "1"),
        _line("on-demand", "free", "us-east-1a", "0"),
        _line("on-demand", "negative", "us-east-1a", "-1"),
        _line("on-demand", "endless", "us-east-1a", "+Inf"),
        _line("on-demand", "unknown", "us-east-1a", "NaN"),
        _line("on-demand", "spot-only", "us-east-1a", "+Inf"),
        _line("spot", "spot-only", "us-east-1a", "3"),
    ]
)


@pytest.fixture
async def metrics() -> AsyncIterator[str]:
    """The URL of Karpenter's metrics."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=METRICS)

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    await runner.cleanup()


class TestPrices:
    async def test_karpenters_estimate_of_the_offer_is_the_price(self, metrics: str) -> None:
        w = World(cloud=replace(CLOUD, price_metrics=metrics))
        quote = await w.karpenter.quote(w.pool)
        assert (quote.price, quote.worst, quote.source) == (
            Price.parse("55.04"),
            Price.parse("55.04"),
            "Karpenter's estimate",
        )
        await w.karpenter.close()

    async def test_a_spot_node_costs_at_most_what_it_costs_on_demand(self, metrics: str) -> None:
        w = World(cloud=replace(CLOUD, price_metrics=metrics), capacity_type=CapacityType.SPOT)
        quote = await w.karpenter.quote(w.pool)
        assert (quote.price, quote.worst) == (Price.parse("21.50"), Price.parse("55.04"))
        await w.karpenter.close()

    async def test_a_spot_node_whose_price_on_demand_is_infinite_costs_at_most_its_spot_price(
        self, metrics: str
    ) -> None:
        cloud = replace(CLOUD, price_metrics=metrics, instance_type="spot-only")
        w = World(cloud=cloud, capacity_type=CapacityType.SPOT)
        quote = await w.karpenter.quote(w.pool)
        assert (quote.price, quote.worst) == (Price.parse("3"), Price.parse("3"))
        await w.karpenter.close()

    @pytest.mark.parametrize(
        ("kind", "zone"),
        [
            ("free", "us-east-1a"),
            ("typo", "us-east-1a"),
            ("free", "mars-1a"),
            ("negative", "us-east-1a"),
            ("endless", "us-east-1a"),
            ("unknown", "us-east-1a"),
        ],
    )
    async def test_no_price_or_a_number_that_is_none_is_an_error(self, metrics: str, kind: str, zone: str) -> None:
        w = World(cloud=replace(CLOUD, price_metrics=metrics, instance_type=kind, zone=zone))
        with pytest.raises(InvalidRequest, match=r"has no price of instance type .*: correct spec\.karpenter"):
            await w.karpenter.quote(w.pool)
        await w.karpenter.close()

    @pytest.mark.parametrize(
        ("url", "kind"),
        [
            (lambda url: url.replace("/metrics", "/typo"), UnknownCode),
            (lambda url: "http://127.0.0.1:1/metrics", CloudUnreachable),
            (lambda url: "http://[", InvalidRequest),
        ],
    )
    async def test_metrics_that_cannot_be_read_name_the_field(
        self, metrics: str, url: Callable[[str], str], kind: type[Exception]
    ) -> None:
        w = World(cloud=replace(CLOUD, price_metrics=url(metrics)))
        with pytest.raises(kind, match=r"spec\.karpenter\.priceMetrics"):
            await w.karpenter.quote(w.pool)
        await w.karpenter.close()

    async def test_without_metrics_the_spec_has_the_price(self) -> None:
        w = World(price_override=Price.parse("40.00"))
        quote = await w.karpenter.quote(w.pool)
        assert (quote.price, quote.worst, quote.source) == (
            w.pool.price_override,
            w.pool.price_override,
            "spec.price.hourly",
        )

    async def test_where_nobody_says_the_price_the_fields_to_set_are_named(self) -> None:
        w = World()
        with pytest.raises(InvalidRequest, match=r"set spec\.price\.hourly, or spec\.karpenter\.priceMetrics"):
            await w.karpenter.quote(w.pool)


class TestPreflight:
    async def test_all_is_well(self) -> None:
        w = World(price_override=Price.parse("40.00"))
        findings = await w.karpenter.preflight(w.pool)
        assert [finding.well for finding in findings] == [True] * 4
        assert w.cluster.claims() == []

    async def test_each_thing_that_would_fail_is_named_with_what_to_do(self) -> None:
        w = World(cloud=replace(CLOUD, gpu_type="", gpus=0, instance_type="p9.48xlarge"))
        del w.cluster.objects[f"{CLASSES}/gpu"]
        w.cluster.failures["create"] = [CallFailure.FORBIDDEN]
        findings = await w.karpenter.preflight(w.pool)
        assert [finding.well for finding in findings] == [False] * 4
        told = " ".join(finding.message for finding in findings)
        for advice in ("gpuType and gpusPerNode", "create it", "karpenter.enabled", "spec.price.hourly"):
            assert advice in told

    async def test_a_spec_that_differs_from_the_nodes_is_told(self) -> None:
        w = World(price_override=Price.parse("40.00"))
        labels = {"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "H200"}
        node = {"metadata": {"name": "n", "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
        w.cluster.objects[f"{NODES}/n"] = node
        finding = (await w.karpenter.preflight(w.pool))[0]
        assert not finding.well
        assert finding.message == "Nodes have 8 × H200, and spec.karpenter says 8 × H100: correct it"
