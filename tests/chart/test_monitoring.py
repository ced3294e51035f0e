"""Alerts, dashboard and runbooks: rendered by the chart, and each alert has the page that it links to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.chart.support import CHART, EVERYTHING, ROOT, HelmRefused, Object, only, render

RUNBOOKS = ROOT / "docs" / "runbooks"


@pytest.fixture(scope="module")
def everything() -> list[Object]:
    return render(EVERYTHING)


def alerts(groups: list[Object]) -> list[Object]:
    return [rule for group in groups for rule in group["rules"]]


def test_the_rules_are_those_of_the_file_with_links_to_where_runbooks_are_published(everything: list[Object]) -> None:
    rule = only(everything, "PrometheusRule", "charterer")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    text = (CHART / "rules.yaml").read_text().replace("docs/runbooks/", "https://example.org/runbooks/")
    assert rule["spec"] == yaml.safe_load(text)
    here = only(render("prometheusRule: {enabled: true}"), "PrometheusRule", "charterer")
    assert here["spec"] == yaml.safe_load((CHART / "rules.yaml").read_text())


def test_the_dashboard_is_where_grafanas_sidecar_looks(everything: list[Object]) -> None:
    config = only(everything, "ConfigMap", "charterer-dashboard")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"grafana_folder": "Training"}
    assert json.loads(config["data"]["charterer.json"]) == json.loads((CHART / "dashboard.json").read_text())


def test_every_alert_has_a_page_that_is_named_after_it_and_every_page_an_alert() -> None:
    rules = alerts(yaml.safe_load((CHART / "rules.yaml").read_text())["groups"])
    titles = {page.name: page.read_text().splitlines()[0] for page in RUNBOOKS.glob("*.md")}
    linked = {rule["annotations"]["runbook_url"].removeprefix("docs/runbooks/"): f"# {rule['alert']}" for rule in rules}
    assert linked == titles


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_says_what_it_means_what_to_look_at_and_what_to_do(page: Path) -> None:
    text = page.read_text()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## What it means", "## What to look at", "## What to do"]
    assert len(text.splitlines()) <= 30


def panels() -> list[Object]:
    everything: list[Object] = json.loads((CHART / "dashboard.json").read_text())["panels"]
    return everything


def test_every_panel_of_the_dashboard_has_a_title_of_its_own_and_a_sentence_that_explains_it() -> None:
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    assert len({panel["id"] for panel in panels()}) == len(titles)
    assert [panel["title"] for panel in panels() if panel["type"] != "row" and panel["description"][-1:] != "."] == []


def unit_of(metric: str) -> str:
    """Grafana's word for the unit that a metric has in its name."""
    name = re.sub("_(bucket|count|total)$", "", metric)
    return "currencyUSD" if "_dollars" in name else "s" if name.endswith("_seconds") else "none"


def test_the_axis_of_every_panel_has_the_unit_of_all_its_metrics() -> None:
    for panel in panels():
        metrics = {name for target in panel.get("targets", []) for name in re.findall(r"charterer_\w+", target["expr"])}
        units = {unit_of(name) for name in metrics if name != "charterer_leader" or len(metrics) == 1}
        assert units == ({panel["fieldConfig"]["defaults"]["unit"]} if metrics else set()), panel["title"]


def test_no_two_panels_of_the_dashboard_lie_on_each_other() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for at in (panel["gridPos"],)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_labels_of_jobs_are_not_overwritten_by_those_of_the_operator(everything: list[Object]) -> None:
    monitor = only(everything, "ServiceMonitor", "charterer")
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


def test_a_runbooks_address_that_is_none_is_refused() -> None:
    with pytest.raises(HelmRefused, match="runbooksUrl"):
        render("prometheusRule: {enabled: true, runbooksUrl: runbooks}")
