"""What the code has is named on the page that says what there is: a page that denies a part of it is found."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from charterer.api.models.clouds import CloudChoice
from charterer.api.models.kinds import KINDS
from charterer.api.names import ConditionType
from charterer.cli.main import main
from charterer.domain.pool import CapacityType
from charterer.workloads import ADOPTED
from tests.unit.docs.test_links import ROOT

MATRIX = (ROOT / "docs/support-matrix.md").read_text()
SECURITY = (ROOT / "docs/security.md").read_text()
COMMANDS = (ROOT / "docs/cli.md").read_text()
TEMPLATES = {path.name: path.read_text() for path in (ROOT / "charts/charterer/templates").glob("*.yaml")}


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z0-9]+", text))


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_matrix_names_every_kind_of_charterer() -> None:
    assert {kind.kind for kind in KINDS} <= words(section(MATRIX, "Workloads"))


def test_the_matrix_has_a_row_for_every_cloud_with_its_kinds_of_capacity() -> None:
    rows = [line for line in section(MATRIX, "Clouds").splitlines() if line.startswith("| [`spec.")]
    assert {re.findall(r"spec\.(\w+)", row)[0] for row in rows} == set(CloudChoice.model_fields)
    assert all({kind.value for kind in CapacityType} <= words(row) for row in rows)


def test_the_matrix_names_every_kind_that_is_adopted() -> None:
    queued = "Workload"
    assert {kind.name for kind in ADOPTED} - {queued} <= words(section(MATRIX, "Workloads"))


@pytest.mark.parametrize("cloud", CloudChoice.model_fields)
def test_the_page_of_clouds_names_every_cloud(cloud: str) -> None:
    assert f"`spec.{cloud}`" in (ROOT / "docs/clouds/README.md").read_text().partition("\n| ")[0]


def test_the_first_table_of_the_commands_has_all_of_them() -> None:
    table = COMMANDS.partition("\n\n| command |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines()]
    assert {name for cell in first for name in re.findall(r"`([a-z]+)`", cell)} == set(main.list_commands(None))  # type: ignore[arg-type]


def policies() -> Iterator[str]:
    """The names of the admission policies of the chart; of those that a template makes several of, what all share."""
    for text in TEMPLATES.values():
        for found in re.finditer(
            r"^kind: (?:Validating|Mutating)AdmissionPolicy\n.*?^  name: (\S+)", text, re.M | re.S
        ):
            yield found[1].partition("{{")[0].rstrip("-")


def test_every_admission_policy_is_named_on_the_page_of_security() -> None:
    table = section(SECURITY, "Rights of the operator").partition("| policy |")[2]
    assert len(set(policies())) > 12
    assert {name for name in policies() if f"`{name}" not in table} == set()


def test_every_resource_that_the_operator_may_touch_is_named_on_the_page_of_security() -> None:
    named = re.findall(r"`([a-z/]+)`", section(SECURITY, "Rights of the operator"))
    lists = re.findall(r"resources:\s*(\[[^\]{]*\]|(?:\n\s+- \S+)+)", TEMPLATES["rbac.yaml"])
    resources = {name for each in lists for name in re.findall(r"[a-z]+(?:/[a-z]+)?", each)}
    assert len(resources) > 25
    assert {name for name in resources if not name.endswith("/status") and name not in named} == set()


def test_every_value_that_changes_rights_or_policies_is_named_on_the_page_of_security() -> None:
    of_rights = (
        "rbac.yaml",
        "admission.yaml",
        "adoption.yaml",
        "kueue.yaml",
        "keep-off.yaml",
        "uninstall.yaml",
        "cost-record.yaml",
    )
    used = {value for name in of_rights for value in re.findall(r"\.Values\.(\w+)", TEMPLATES[name])}
    assert {value for value in used if f"`{value}" not in SECURITY} == set()


def test_the_reference_names_the_conditions_of_budgets_and_jobs_that_the_words_have() -> None:
    reference = (ROOT / "docs/reference.md").read_text()
    described = re.findall(r"^\| `status\.conditions` \| .*$", reference, re.M)
    assert {kind.value for kind in ConditionType if not any(kind.value in words(each) for each in described)} == set()


def test_the_figures_of_the_page_on_scale_are_those_of_the_benches() -> None:
    """The row of the same command has them."""
    of_command: dict[str, str] = {}
    for line in (ROOT / "tests/bench/README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[2].startswith("`"):
            of_command[cells[2]] = of_command.get(cells[2], "") + " ".join(cells[:2])
    rows = section((ROOT / "docs/limits.md").read_text(), "What was measured").splitlines()
    measured = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.endswith("` |")][1:]
    assert len(measured) > 5
    for _, figures, command in measured:
        assert set(re.findall(r"[\d.,]*\d", figures)) <= set(re.findall(r"[\d.,]*\d", of_command[command])), command
