"""Prometheus' own programs: checking rules in simulated time, and a server that scrapes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.testbed import ports

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "charts" / "charterer" / "rules.yaml"
DASHBOARD = ROOT / "charts" / "charterer" / "dashboard.json"
METRICS_PAGE = ROOT / "docs" / "metrics.md"
_POLL_SECONDS = 0.1


def alert_names() -> list[str]:
    """The names of all alerts, in the order of the file."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def dashboard_queries() -> list[str]:
    """Every query of the dashboard, for all budgets."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [query.replace("$budget", ".*") for query in found]


def documented_queries() -> list[str]:
    """Every query of docs/metrics.md: indented, or in the second column of a table whose first is a question."""
    text = METRICS_PAGE.read_text()
    indented = re.findall(r"^    (\S.*)$", text, re.M)
    return [*indented, *re.findall(r"^\| [^|]*\?[^|]* \| `(.+)` \|$", text, re.M)]


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A running Prometheus, and the file with what it says."""

    url: str
    log: Path

    async def query(self, session: aiohttp.ClientSession, expression: str) -> list[Mapping[str, Any]]:
        """The result of an instant query, without samples that are no number; nothing while the server starts."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        async with session.get(address) as answer:
            if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
                return []
            told = await answer.json()
        assert told["status"] == "success", f"{expression}: {told}"
        return [sample for sample in told["data"]["result"] if sample["value"][1] != "NaN"]

    async def data(self, session: aiohttp.ClientSession, expression: str) -> list[Mapping[str, Any]]:
        """The result of an instant query, once the server is up and the query has one."""
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                if found := await self.query(session, expression):
                    return found
            await asyncio.sleep(_POLL_SECONDS)

    async def rules(self, session: aiohttp.ClientSession) -> list[Mapping[str, Any]]:
        """Every rule with its state, its health and its alerts."""
        async with session.get(f"{self.url}/api/v1/rules") as answer:
            told = await answer.json()
        return [rule for group in told["data"]["groups"] for rule in group["rules"]]


@contextlib.contextmanager
def serving(program: Path, directory: Path, targets: Mapping[str, int], rules: str = "") -> Iterator[PrometheusServer]:
    """A Prometheus that scrapes the local ports five times a second, as the chart's ServiceMonitor has it done.

    ``targets``: port by name of the pod. ``rules``: a rule file's text.
    """
    (directory / "rules.yaml").write_text(rules)
    labelled = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"namespace": "charterer-system", "service": "charterer-metrics", "pod": pod},
        }
        for pod, port in targets.items()
    ]
    scrape = {"job_name": "charterer-metrics", "honor_labels": True, "static_configs": labelled}
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "500ms"},
        "rule_files": [str(directory / "rules.yaml")] if rules else [],
        "scrape_configs": [scrape],
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{ports.reserve()}"
    log = directory / "prometheus.log"
    command: Sequence[str] = [
        str(program),
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield PrometheusServer(f"http://{address}", log)
    finally:
        process.kill()
        process.wait()
