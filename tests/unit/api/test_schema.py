"""Generated files: what is checked in is what the models say, and a stale file is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from click.testing import CliRunner
from pydantic import Field

from charterer.api.models.base import ApiModel, ResourceKind, structural
from charterer.api.models.kinds import KINDS
from charterer.api.schema import crd, crd_files, main

ROOT = Path(__file__).resolve().parents[3]


def _generate(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_the_checked_in_files_are_not_stale() -> None:
    directories = [str(ROOT / "crds"), str(ROOT / "charts/charterer-crds/templates")]
    assert _generate("--check", "--reference", str(ROOT / "docs/reference.md"), *directories) == (0, "")


def test_nothing_else_lies_in_the_generated_folders() -> None:
    for directory in (ROOT / "crds", ROOT / "charts/charterer-crds/templates"):
        assert {path.name for path in directory.iterdir()} == {name for name, _ in crd_files()}


def test_a_changed_a_missing_and_a_fresh_file_are_told_apart(tmp_path: Path) -> None:
    assert _generate(str(tmp_path))[0] == 0
    (tmp_path / "gpupools.charterer.dev.yaml").write_text("changed")
    (tmp_path / "gpubudgets.charterer.dev.yaml").unlink()
    code, said = _generate("--check", str(tmp_path))
    assert code == 1
    assert [line.split(" is stale")[0] for line in said.splitlines()] == [
        str(tmp_path / "gpubudgets.charterer.dev.yaml"),
        str(tmp_path / "gpupools.charterer.dev.yaml"),
    ]
    assert (tmp_path / "gpupools.charterer.dev.yaml").read_text() == "changed"


def test_the_definitions_are_helm_templates_as_they_are() -> None:
    assert all("{{" not in text for _, text in crd_files())


class _Inner(ApiModel):
    """Said of the type."""

    width: Annotated[float, Field(gt=0)]
    """How wide."""


class _Outer(ApiModel):
    """An object."""

    inner: _Inner | None = None
    """Said of the field."""
    word: Literal["one"] = "one"
    """A word."""
    many: tuple[_Inner, ...] = ()
    """Several."""
    by_name: dict[str, int] = Field(default_factory=dict)
    """Numbers."""


def test_a_schema_is_structural() -> None:
    inner = {
        "type": "object",
        "required": ["width"],
        "properties": {"width": {"description": "How wide.", "minimum": 0, "exclusiveMinimum": True, "type": "number"}},
    }
    assert structural(_Outer, defaults=True) == {
        "description": "An object.",
        "type": "object",
        "properties": {
            "inner": {**inner, "description": "Said of the field."},
            "word": {"description": "A word.", "enum": ["one"], "type": "string", "default": "one"},
            "many": {
                "description": "Several.",
                "type": "array",
                "items": {**inner, "description": "Said of the type."},
            },
            "byName": {"description": "Numbers.", "type": "object", "additionalProperties": {"type": "integer"}},
        },
    }


def test_a_status_gets_no_defaults_that_nobody_wrote() -> None:
    assert "default" not in structural(_Outer, defaults=False)["properties"]["word"]


def _bounds(node: object) -> Iterator[float]:
    if isinstance(node, dict):
        yield from (node[name] for name in ("minimum", "maximum") if isinstance(node.get(name), int | float))
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _bounds(child)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_bound_is_one_that_the_api_server_can_compare_whole_numbers_with(kind: ResourceKind) -> None:
    """It compares them as 64-bit integers, in which a larger bound becomes a negative one: it would refuse all."""
    assert [bound for bound in _bounds(crd(kind)) if not -(2**63) <= bound < 2**63] == []
