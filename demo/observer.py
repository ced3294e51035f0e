"""Observes cluster, operator and cloud twice a second, for the table and the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

import aiohttp

from demo.cloud import Cloud
from demo.kube import RETRIABLE, Kube, KubeError
from demo.replay import JOBS, Replay
from demo.scenario import Scenario
from demo.view import EVENT_PATHS, Observed, View, view

OBSERVE_SECONDS = 0.5


@dataclass(slots=True)
class Observer:
    """Observes until cancelled, and collects the ``views`` for the picture. Failed calls are repeated."""

    kube: Kube
    session: aiohttp.ClientSession
    scenario: Scenario
    replay: Replay
    cloud: Cloud
    metrics_url: str
    show: Callable[[View], None]
    views: list[View] = field(default_factory=list)

    async def run(self) -> None:
        """Observe and show, twice a second."""
        while True:
            try:
                observed = await self.observe()
            except (*RETRIABLE, KubeError):
                await asyncio.sleep(OBSERVE_SECONDS)
                continue
            self.views.append(view(self.scenario, self.replay.jobs, self.replay.now, observed))
            self.show(self.views[-1])
            await asyncio.sleep(OBSERVE_SECONDS)

    async def observe(self) -> Observed:
        """Observe once. Raises one of kube.RETRIABLE, or KubeError, if a call fails."""
        charterer = "/apis/charterer.dev/v1alpha1"
        paths = (JOBS, f"{charterer}/gpurentals", f"{charterer}/gpupools", *EVENT_PATHS)
        jobs, rentals, pools, *events = await asyncio.gather(*(self.kube.items(path) for path in paths))
        metrics, machines, bill = await asyncio.gather(self._metrics(), self.cloud.machines(), self.cloud.bill())
        return Observed(jobs, rentals, pools, [*chain(*events)], metrics, machines, bill.micros / 1e6)

    async def _metrics(self) -> str:
        """Read the operator's metrics, empty while the operator is down, so that the table continues."""
        try:
            async with self.session.get(
                f"{self.metrics_url}/metrics", timeout=aiohttp.ClientTimeout(total=2)
            ) as answer:
                return await answer.text()
        except RETRIABLE:
            return ""
