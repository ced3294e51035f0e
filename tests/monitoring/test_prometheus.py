"""A real Prometheus scrapes the operator's metrics: rules fire, and every query that we recommend has data.

Time is real here, so the pauses of alerts are taken out, and subqueries look at a minute in steps of a second;
``test_rules`` has the true times.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import aiohttp

from charterer.domain.budget import Cause
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Stop
from charterer.domain.time import Instant
from charterer.server.http import metrics_app, serve
from tests.monitoring.support import (
    RULES,
    PrometheusServer,
    alert_names,
    dashboard_queries,
    documented_queries,
    serving,
)
from tests.monitoring.worlds import BUSY, WELL, Scene, World
from tests.patience import OPERATORS_PATIENCE

_OTHER_EXPORTERS = b"""
# TYPE node_total_hourly_cost gauge
node_total_hourly_cost{node="n-i1"} 12
# TYPE kube_pod_info gauge
kube_pod_info{node="n-i1",exported_pod="train-0"} 1
"""


class _Replica:
    """A replica's metrics endpoint: every scrape is a look at its scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._world = World(lambda: Instant(time.time_ns() // 1_000), age=2 * 3600)
        self._scraped = asyncio.Event()

    def exposition(self) -> bytes:
        """What a scrape gets."""
        self._world.look(self.scene)
        self._scraped.set()
        return self._world.metrics.exposition() + _OTHER_EXPORTERS

    async def scrapes(self, number: int) -> None:
        """Wait for so many more."""
        for _ in range(number):
            self._scraped.clear()
            await self._scraped.wait()


@asynccontextmanager
async def _scraping(
    prometheus: Path, directory: Path, rules: str = "", **replicas: _Replica
) -> AsyncIterator[tuple[PrometheusServer, aiohttp.ClientSession]]:
    async with AsyncExitStack() as stack:
        ports = {}
        for pod, replica in replicas.items():
            server = await serve(metrics_app(replica.exposition), "127.0.0.1", 0)
            stack.push_async_callback(server.close)
            ports[pod] = server.port
        running = stack.enter_context(serving(prometheus, directory, ports, rules))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with asyncio.timeout(OPERATORS_PATIENCE):
            for replica in replicas.values():
                await replica.scrapes(2)
            yield running, session


def _in_seconds(query: str) -> str:
    """The query with subqueries over a minute in steps of a second."""
    return re.sub(r"\[\w+:\w+\]", "[1m:1s]", query)


async def _lacking(running: PrometheusServer, session: aiohttp.ClientSession, queries: list[str]) -> list[str]:
    return [query for query in queries if not await running.query(session, _in_seconds(query))]


async def test_every_query_of_the_dashboard_and_the_documentation_has_data(prometheus: Path, tmp_path: Path) -> None:
    replica = _Replica(BUSY)
    lacking = [*dashboard_queries(), *documented_queries()]
    assert len(lacking) > 40
    with suppress(TimeoutError):
        async with _scraping(prometheus, tmp_path, charterer_0=replica) as (running, session):
            while lacking := await _lacking(running, session, lacking):
                await replica.scrapes(1)
    assert lacking == []


async def test_labels_of_jobs_survive_the_scrape(prometheus: Path, tmp_path: Path) -> None:
    replica = _Replica(BUSY)
    async with _scraping(prometheus, tmp_path, charterer_0=replica) as (running, session):
        while not (found := await running.query(session, "charterer_jobs")):
            await replica.scrapes(1)
        assert {sample["metric"]["namespace"] for sample in found} == {"research"}
        (width,) = await running.query(session, 'charterer_job_width_gpus{training_job="running"}')
        assert width["metric"]["job"] == "charterer-metrics"


async def test_every_alert_fires_on_what_the_operator_really_exports(prometheus: Path, tmp_path: Path) -> None:
    broken = replace(
        WELL,
        event_age=300.0,
        turns_fail=True,
        failed_steps=2,
        refused_calls=4,
        spent="2000.01",
        gpu_hours=1_801.0,
        forecast_low="1001",
        feasible=False,
        dollars={Cause.JOB: "2", Cause.IDLE: "2"},
        price_age=7_200.0,
        cooling=True,
        waited=100_000.0,
        failed=1,
        interrupted=1,
        slow=(RentalPhase.STARTING, RentalPhase.DRAINING),
        stop=Stop.RENT,
    )
    slow = replace(WELL, plan_seconds=(8.0,) * 4, turns_fail=True, gone=True)
    first, second = _Replica(broken), _Replica(slow)
    text = _in_seconds(re.sub(r"^ +for: .*\n", "", RULES.read_text(), flags=re.M)).replace("> 3600\n", "> 1\n")
    waited_for, summaries = set(alert_names()) - {"ChartererNobodyLeads"}, list[str]()
    with suppress(TimeoutError):
        async with _scraping(prometheus, tmp_path, text, charterer_0=first, charterer_1=second) as (running, session):
            await _until_fired(waited_for, summaries, first, running, session)
            waited_for.add("ChartererNobodyLeads")
            first.scene, second.scene = replace(broken, leader=False), replace(slow, leader=False)
            await _until_fired(waited_for, summaries, first, running, session)
    assert not waited_for, "these never fired"
    assert not [text for text in summaries if "<" in text or "error" in text.lower()]


async def _until_fired(
    waited_for: set[str],
    summaries: list[str],
    replica: _Replica,
    running: PrometheusServer,
    session: aiohttp.ClientSession,
) -> None:
    """Take out of ``waited_for`` what has fired, until it is empty; ``summaries`` gets what they say."""
    while waited_for:
        await replica.scrapes(1)
        for rule in await running.rules(session):
            assert rule["health"] != "err", rule
            if rule["state"] == "firing" and rule["name"] in waited_for:
                waited_for.remove(rule["name"])
                summaries += [alert["annotations"]["summary"] for alert in rule["alerts"]]
