"""What `make release` built, as a stranger has it: a copy of its files, in a folder that has nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from release.build import OUT, SUMS


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of out/release whose files have the digests that it says."""
    if not (OUT / SUMS).exists():
        pytest.fail(f"{OUT} is not built: run `make test-release`", pytrace=False)
    copy = tmp_path_factory.mktemp("downloads") / "release"
    shutil.copytree(OUT, copy)
    done = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy
