"""Training images install only this: no dependency, and nothing that Python 3.9 does not have; notebooks have more."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.trainer.support import SOURCE

EXTRA = {"cloudpickle", "ipykernel"}
"""What the extra for notebooks installs."""
WITH_IT = {"IPython", "jupyter_client", "traitlets"}
"""What ipykernel cannot do without."""
FRAMEWORKS = {"jax", "numpy", "torch"}
"""Imported only where a value is of theirs."""
FILES = sorted((SOURCE / "charterer_trainer").rglob("*.py"))


def test_the_trainer_depends_on_nothing() -> None:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    assert project["requires-python"] == ">=3.9"
    assert {re.split(r"\W", each)[0] for each in project["optional-dependencies"]["jupyter"]} == EXTRA


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_trainer_imports_the_standard_library_only_and_parses_as_python_3_9(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    roots = {(module or "").split(".")[0] for module in modules}
    more = EXTRA | WITH_IT | FRAMEWORKS if file.parent.name == "jupyter" else set()
    assert roots <= sys.stdlib_module_names | {"charterer_trainer"} | more
