"""Starts the demo's cloud."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import yaml

from demo import karpenter, scenario
from demo.cloud import Cloud, FakeCloud
from demo.cluster import Cluster
from demo.kube import Kube
from demo.pace import Json
from demo.programs import SYSTEM, Programs, charterer
from demo.scenario import Scenario

NAMES = {"fake": "the fake cloud (charterer fakecloud)", "karpenter": karpenter.NAME}
"""Names of the clouds in words."""
WITHOUT = {"fake": "", "karpenter": "; it gives no spot interruptions, because Karpenter's kwok provider has none"}
"""The limitation of each cloud in words."""
VALUES = {
    "fake": ("--set=fakeCloud.enabled=true",),
    "karpenter": ("--set=karpenter.enabled=true", "--set=karpenter.nodeClasses={kwoknodeclasses.karpenter.kwok.sh}"),
}
"""Helm values of the chart for each cloud."""
_ACCOUNT = "charterer-fakecloud"
_START_SECONDS = 300.0


async def start(
    of: Scenario,
    cluster: Cluster,
    kube: Kube,
    out: Path,
    programs: Programs,
    session: aiohttp.ClientSession,
    stack: AsyncExitStack,
) -> tuple[Cloud, list[Json]]:
    """Start the cloud and return it with its GPUPools. Closing the stack stops the cloud. Raises DemoError."""
    if of.cloud == "karpenter":
        process = stack.enter_context(karpenter.start(of, cluster, out / "karpenter"))
        claims = karpenter.KarpenterCloud(kube, of, process)
        stack.callback(asyncio.create_task(claims.follow()).cancel)
        return claims, scenario.pools(of, process.metrics_url)
    cluster.kubectl("scale", "deployment/charterer-fakecloud", "--replicas=0", f"--namespace={SYSTEM}")
    url = await _fake(of, cluster, out, programs)
    return FakeCloud(session, url), scenario.pools(of, url)


async def _fake(of: Scenario, cluster: Cluster, out: Path, programs: Programs) -> str:
    config, ready = out / "fakecloud.yaml", out / "fakecloud.url"
    config.write_text(yaml.safe_dump(scenario.sold(of), sort_keys=False))
    kubeconfig = cluster.service_account_kubeconfig(SYSTEM, _ACCOUNT)
    programs.start(
        "fakecloud",
        charterer(
            "fakecloud",
            f"--config={config}",
            f"--state={out / 'fakecloud.db'}",
            "--listen=127.0.0.1:0",
            f"--kubeconfig={kubeconfig}",
            f"--ready-file={ready}",
        ),
    )

    async def listening() -> bool:
        return ready.exists() and bool(ready.read_text().strip())

    await programs.until(listening, "the fake cloud listens", _START_SECONDS)
    return ready.read_text().strip()
