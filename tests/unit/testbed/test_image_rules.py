"""What is deleted from the operator's image: all that a rule names and nothing else, or nothing and an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from charterer.providers.aws.permissions import Call as AwsCall
from charterer.providers.gcp.permissions import Call as GcpCall
from image.prune import PruneError, Rule, aws_services, delete, gcp_services


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two packages with tests, one of which has services."""
    for name in ("a/core.py", "a/tests/test_core.py", "a/data/used/x.json", "a/data/unused/x.json", "b/sub/tests/y.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1234")
    return tmp_path


def left(packages: Path) -> set[str]:
    return {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}


def test_all_that_the_rules_name_is_deleted_and_nothing_that_they_keep(packages: Path) -> None:
    freed = delete((Rule("tests", ("**/tests",)), Rule("not called", ("a/data/*/",), ("used",))), packages)
    assert (freed, left(packages)) == (12, {"a/core.py", "a/data/used/x.json"})


def test_a_rule_that_finds_nothing_is_an_error_that_names_it_and_deletes_nothing(packages: Path) -> None:
    before = left(packages)
    with pytest.raises(PruneError, match=r"'c/aio' \(a twin\): look again"):
        delete((Rule("tests", ("**/tests",)), Rule("a twin", ("c/aio",))), packages)
    assert left(packages) == before


def test_a_rule_all_of_whose_findings_are_kept_is_an_error(packages: Path) -> None:
    with pytest.raises(PruneError):
        delete((Rule("not called", ("a/data/*/",), ("used", "unused")),), packages)


def test_the_parts_of_sdks_that_stay_are_those_of_all_calls() -> None:
    assert {call.service for call in AwsCall} < set(aws_services())
    assert len(gcp_services()) > len({call.service for call in GcpCall})
    assert {"instance_group_managers", "zone_operations", "__init__.py"} < set(gcp_services())
