"""Targets of make beside each other: both verdicts at the end, and the output of what failed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[1] / "beside.py"
MAKEFILE = """
good:
\t@echo first of good; echo last of good
bad:
\t@echo first of bad; echo last of bad >&2; false
meet-%:
\t@mkfifo $@ 2> /dev/null || true
left: meet-left meet-right
\t@echo hello > meet-left; cat meet-right
right: meet-left meet-right
\t@cat meet-left; echo hello > meet-right
"""


def made(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    (folder / "Makefile").write_text(MAKEFILE)
    return subprocess.run([sys.executable, str(BESIDE), "make", *targets], cwd=folder, capture_output=True, text=True)


def test_all_verdicts_are_at_the_end_and_what_failed_is_shown_whole(tmp_path: Path) -> None:
    done = made(tmp_path, "good", "bad")
    assert done.returncode == 1
    assert [re.split(" +", line)[:2] for line in done.stdout.splitlines()[-2:]] == [
        ["passed", "good"],
        ["FAILED", "bad"],
    ]
    assert "== good\nlast of good\n" in done.stdout
    assert "== bad\nfirst of bad\nlast of bad\nmake" in done.stdout


@pytest.mark.parametrize("targets", [("good",), ("left", "right")])
def test_what_passes_beside_each_other_passes(tmp_path: Path, targets: tuple[str, ...]) -> None:
    assert made(tmp_path, *targets).returncode == 0
