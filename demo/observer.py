"""Looks at everything twice a second, for the table and the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

import aiohttp

from demo.cloud import CloudAdmin
from demo.kube import RETRIABLE, Kube, KubeError
from demo.replay import JOBS, Replay
from demo.scenario import Scenario
from demo.view import EVENT_PATHS, Seen, View, view

LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Observer:
    """Looks until it is cancelled; ``views`` are kept for the picture. What cannot be reached is looked at again."""

    kube: Kube
    session: aiohttp.ClientSession
    scenario: Scenario
    replay: Replay
    cloud: CloudAdmin
    metrics_url: str
    show: Callable[[View], None]
    views: list[View] = field(default_factory=list)

    async def run(self) -> None:
        """Looks and shows, twice a second."""
        while True:
            try:
                seen = await self.look()
            except (*RETRIABLE, KubeError):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            self.views.append(view(self.scenario, self.replay.jobs, self.replay.now, seen))
            self.show(self.views[-1])
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> Seen:
        """One look; one of kube.RETRIABLE or KubeError when somebody does not answer."""
        charterer = "/apis/charterer.dev/v1alpha1"
        paths = (JOBS, f"{charterer}/gpurentals", f"{charterer}/gpupools", *EVENT_PATHS)
        jobs, rentals, pools, *events = await asyncio.gather(*(self.kube.items(path) for path in paths))
        metrics, machines, bill = await asyncio.gather(self._metrics(), self.cloud.machines(), self.cloud.bill())
        return Seen(jobs, rentals, pools, [*chain(*events)], metrics, machines, bill.micros / 1e6)

    async def _metrics(self) -> str:
        """The operator's metrics; nothing while it is down, which must not stop the table."""
        try:
            async with self.session.get(
                f"{self.metrics_url}/metrics", timeout=aiohttp.ClientTimeout(total=2)
            ) as answer:
                return await answer.text()
        except RETRIABLE:
            return ""
