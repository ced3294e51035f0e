"""The page of clouds tells the traits that the code has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest

from charterer.domain.order import Traits
from charterer.providers.aws.cloud import FLEET_TRAITS, ONE_BY_ONE
from charterer.providers.azure.cloud import TRAITS as AZURE
from charterer.providers.gcp.cloud import BULK_TRAITS, GROUP_TRAITS
from charterer.providers.karpenter.provider import TRAITS as KARPENTER
from tests.unit.docs.test_links import ROOT

PAGE = ROOT / "docs/clouds/README.md"
ROWS: Mapping[str, Callable[[Traits], str]] = {
    "a list says which rental a node is for": lambda traits: "yes" if traits.named else "no",
    "an order that finds no stock stays open": lambda traits: "yes" if traits.keeps_trying else "no",
    "launches all nodes of a job or none": lambda traits: "yes" if traits.together else "no",
    "seconds by which its lists may lag": lambda traits: f"{traits.lag_seconds:g}",
}
COLUMNS = {
    "`karpenter`": KARPENTER,
    "`aws`, launch template": FLEET_TRAITS,
    "`aws`, group": ONE_BY_ONE,
    "`azure`": AZURE,
    "`gcp`, group": GROUP_TRAITS,
    "`gcp`, template": BULK_TRAITS,
}


def cells(line: str) -> list[str]:
    """The cells of a table's row."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_page_says_what_each_cloud_can_do(column: str) -> None:
    table = {row[0]: row for line in PAGE.read_text().splitlines() if line.startswith("|") if (row := cells(line))}
    at, traits = table[""].index(column), COLUMNS[column]
    assert {row: table[row][at] for row in ROWS} == {row: told(traits) for row, told in ROWS.items()}


@pytest.mark.parametrize(
    "place",
    [
        "charts/charterer/templates/NOTES.txt",
        "operator/charterer/tools/commands/preflight.py",
        "operator/charterer/tools/commands/doctor/checks.py",
    ],
)
def test_whoever_has_no_pool_is_sent_to_the_page_that_leads_to_one_for_each_cloud(place: str) -> None:
    text = (ROOT / place).read_text()
    assert "docs/clouds/README.md" in text
    assert not re.search(r"GPUPool[^\n]*docs/concepts.md|apply one[^\n]*docs/concepts.md", text)
    pages = [(PAGE.parent / target).read_text() for target in ("karpenter.md", "aws.md", "azure.md", "google.md")]
    assert all("kind: GPUPool" in page for page in pages)
