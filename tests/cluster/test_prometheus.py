"""A real Prometheus at a real operator."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp

from charterer.tools.commands.dashboard.documents import PrometheusHistory
from tests.monitoring.support import RULES, alert_names, serving
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed


async def test_prometheus_finds_dollars_by_cause_at_the_operator_and_no_alert_fires(
    bed: Bed, prometheus: Path, tmp_path: Path
) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=2)
    await bed.running("train")
    (port,) = re.findall(r"metrics on port (\d+)", operator.log.read_text())
    with serving(prometheus, tmp_path, {"charterer-0": int(port)}, RULES.read_text()) as running:
        async with aiohttp.ClientSession() as session, asyncio.timeout(OPERATORS_PATIENCE):
            await running.data(session, 'charterer_spent_dollars_total{pool="a100", cause="starting"} > 0')
            await running.data(session, "charterer_job_waiting_seconds_count == 1")
            rules = await running.rules(session)
            history = json.loads(json.dumps(await PrometheusHistory(running.url, session).latest()))
    assert (history["problem"], list(history["budgets"])) == (None, ["team"])
    assert history["budgets"]["team"]["spent"][-1][1] > 0.0
    assert {rule["name"] for rule in rules} == set(alert_names())
    assert not [rule["name"] for rule in rules if rule["state"] == "firing" or rule["health"] == "err"]
