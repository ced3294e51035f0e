"""What does not plan starts without numpy, scipy and HiGHS, which take seconds to load."""

from __future__ import annotations

import subprocess
import sys

import pytest

_COMMANDS = (
    "bill",
    "plan",
    "explain",
    "doctor",
    "drain",
    "stop",
    "resume",
    "logs",
    "completion",
    "simulate",
    "run",
    "fakecloud",
)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["crds"], *([command, "--help"] for command in _COMMANDS), ["fakecloud", "--help"]]
)
def test_help_and_the_schemas_need_no_numerical_library(arguments: list[str]) -> None:
    code = f"""
import sys
from charterer.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"numpy", "scipy", "highspy"}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", ["charterer.fakecloud.main", "charterer.api.schema", "charterer.policy.planner"])
def test_modules_load_without_a_numerical_library(module: str) -> None:
    code = f"import sys, {module}; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
