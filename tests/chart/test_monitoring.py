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


@pytest.mark.programs
def test_the_rules_are_those_of_the_file_with_links_to_where_runbooks_are_published(everything: list[Object]) -> None:
    rule = only(everything, "PrometheusRule", "charterer")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    text = (
        (CHART / "rules.yaml")
        .read_text()
        .replace("runbook: docs/runbooks/", "runbook_url: https://example.org/runbooks/")
    )
    assert rule["spec"] == yaml.safe_load(text)
    here = only(render("prometheusRule: {enabled: true}"), "PrometheusRule", "charterer")
    assert here["spec"] == yaml.safe_load((CHART / "rules.yaml").read_text())
    assert not [alert for alert in alerts(here["spec"]["groups"]) if "runbook_url" in alert["annotations"]]


@pytest.mark.programs
def test_the_dashboard_is_where_grafanas_sidecar_looks(everything: list[Object]) -> None:
    config = only(everything, "ConfigMap", "charterer-dashboard")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"grafana_folder": "Training"}
    assert json.loads(config["data"]["charterer.json"]) == json.loads((CHART / "dashboard.json").read_text())


def test_every_alert_has_a_page_that_is_named_after_it_and_every_page_an_alert() -> None:
    rules = alerts(yaml.safe_load((CHART / "rules.yaml").read_text())["groups"])
    titles = {page.name: page.read_text().splitlines()[0] for page in RUNBOOKS.glob("*.md")}
    linked = {rule["annotations"]["runbook"].removeprefix("docs/runbooks/"): f"# {rule['alert']}" for rule in rules}
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


def unit_of_query(expression: str) -> str:
    """Grafana's word for the unit of a query; a ratio of metrics with one unit has none."""
    units = {unit_of(name) for name in re.findall(r"charterer_\w+", expression)} - {"none"} or {"none"}
    assert len(units) == 1, expression
    return "percentunit" if " / " in expression else units.pop()


def unit_shown(panel: Object, target: Object) -> str:
    """The unit with which the panel shows the query: of its own column or frame, else the panel's."""
    config: Object = panel["fieldConfig"]
    renamed = [step["options"]["renameByName"] for step in panel.get("transformations", []) if step["id"] == "organize"]
    names = {target["refId"], *(name.get(f"Value #{target['refId']}") for name in renamed)}
    for override in config["overrides"]:
        if override["matcher"]["options"] in names:
            units = [each["value"] for each in override["properties"] if each["id"] == "unit"]
            return str(units[0])
    return str(config["defaults"]["unit"])


def test_every_query_of_the_dashboard_is_shown_with_the_unit_of_its_metrics() -> None:
    for panel in panels():
        for target in panel.get("targets", []):
            assert unit_of_query(target["expr"]) == unit_shown(panel, target), panel["title"]


def test_budgets_of_other_sizes_share_no_axis_of_dollars() -> None:
    for panel in panels():
        by_budget = [target for target in panel.get("targets", []) if "{{budget}}" in target["legendFormat"]]
        if by_budget and panel["fieldConfig"]["defaults"]["unit"] == "currencyUSD":
            assert panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]["type"] == "log", panel["title"]


def test_the_dashboard_begins_with_what_was_spent_of_what_may_be_and_by_whom() -> None:
    row, spent, namespaces, budgets = panels()[:4]
    assert [row["type"], spent["type"], namespaces["type"], budgets["type"]] == ["row", "stat", "table", "table"]
    assert [target["legendFormat"] for target in spent["targets"]] == ["spent", "of", "part"]
    assert all("by (namespace)" in target["expr"] for target in namespaces["targets"])
    assert all("by (budget)" in target["expr"] for target in budgets["targets"])


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


@pytest.mark.programs
def test_labels_of_jobs_are_not_overwritten_by_those_of_the_operator(everything: list[Object]) -> None:
    monitor = only(everything, "ServiceMonitor", "charterer")
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


@pytest.mark.programs
def test_a_runbooks_address_that_is_none_is_refused() -> None:
    with pytest.raises(HelmRefused, match="runbooksUrl"):
        render("prometheusRule: {enabled: true, runbooksUrl: runbooks}")
