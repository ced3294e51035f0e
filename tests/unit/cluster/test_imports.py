"""What must start quickly does not load the Kubernetes package, which takes a second."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [["--help"], ["operator", "--help"], ["fakecloud", "--help"]])
def test_help_does_not_load_the_kubernetes_package(arguments: list[str]) -> None:
    code = f"""
import sys
from charterer.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(sorted(name for name in sys.modules if name.partition(".")[0] == "kubernetes"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_nor_does_the_fake_cloud() -> None:
    code = "import sys, charterer.tools.fakecloud.main; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
