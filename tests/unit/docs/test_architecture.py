"""The page on the architecture has the layers and packages that import-linter checks."""

from __future__ import annotations

import re
import tomllib

import pytest

from charterer.api.models.kinds import KINDS
from tests.unit.docs.test_links import ROOT

PAGE = (ROOT / "docs/development/architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = {contract["containers"][0]: contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below the heading, without its head."""
    table = re.search(r"^\|.*?(?=\n\n|\Z)", PAGE.split(f"\n{heading}\n", 1)[1], re.MULTILINE | re.DOTALL)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group().splitlines()[2:]]


def named(cell: str) -> set[str]:
    """The names between backticks."""
    return set(re.findall(r"`(\w+)`", cell))


def siblings(layer: str) -> set[str]:
    """The packages of one of import-linter's layers."""
    return set(layer.split(" | "))


def test_the_picture_of_objects_has_every_kind() -> None:
    picture = PAGE.split("```mermaid")[1].split("```")[0]
    assert {kind.kind for kind in KINDS} <= set(re.findall(r"\w+", picture))


def test_the_table_of_layers_is_that_of_the_linter() -> None:
    assert [named(cells[1]) for cells in rows("## Layers")] == [siblings(layer) for layer in LAYERS["charterer"]]


def test_the_packages_of_the_controller_stand_in_their_layers() -> None:
    table = rows("### `controller`: carries it out")
    layers = sorted({cells[0] for cells in table}, reverse=True)
    found = [set().union(*(named(cells[1]) for cells in table if cells[0] == layer)) for layer in layers]
    assert found == [siblings(layer) for layer in LAYERS["charterer.controller"]]


@pytest.mark.parametrize(
    ("heading", "package"),
    [
        ("### `policy`: a Snapshot in, a Plan out", "charterer.policy"),
        ("### `tools.simulator`: the planner in a virtual world", "charterer.tools.simulator"),
    ],
)
def test_the_packages_of_a_table_are_those_of_the_linter_none_above_one_that_imports_it(
    heading: str, package: str
) -> None:
    order = {name: at for at, layer in enumerate(LAYERS[package]) for name in siblings(layer)}
    table = [named(cells[0]) for cells in rows(heading)]
    assert set().union(*table) == order.keys()
    ranks = [max(order[name] for name in names) for names in table]
    assert ranks == sorted(ranks)
