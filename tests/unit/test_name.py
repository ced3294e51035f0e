"""The project's name is Charterer; the name it had before belongs to others."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORMER = "pur" + "ser"


def _files() -> list[Path]:
    """The checkout's own files: what git tracks, or all but what tools made where there is no git."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        made = {".venv", ".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "out"}
        return [path for path in ROOT.rglob("*") if path.is_file() and not made & set(path.parts)]
    return [ROOT / name for name in listed.decode().split("\0") if name]


def test_the_former_name_is_nowhere() -> None:
    files = [path for path in _files() if path.is_file()]
    assert len(files) > 100
    named = [path for path in files if FORMER in str(path.relative_to(ROOT)).lower()]
    naming = [path for path in files if FORMER.encode() in path.read_bytes().lower()]
    assert not named + naming
