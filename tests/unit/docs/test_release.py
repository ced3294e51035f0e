"""The workflow that releases refuses an image whose base is not pinned by digest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ("Dockerfile", "examples/getting-started/Dockerfile")
PINNED = "FROM python:3.12-slim@sha256:0123"


def refused(folder: Path) -> bool:
    """Whether the step fails in a folder with both Dockerfiles."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    steps = {step.get("name"): step for step in workflow["jobs"]["test"]["steps"]}
    script = steps["Base images are pinned by digest"]["run"]
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 1


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for image in IMAGES:
        (tmp_path / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / image, tmp_path / image)
    return tmp_path


def pin(file: Path) -> None:
    file.write_text(file.read_text().replace("FROM python:3.12-slim", PINNED))


@pytest.mark.parametrize("forgotten", IMAGES)
def test_a_base_without_digest_is_refused(checkout: Path, forgotten: str) -> None:
    for image in IMAGES:
        if image != forgotten:
            pin(checkout / image)
    assert refused(checkout)


def test_pinned_bases_and_an_empty_one_are_accepted(checkout: Path) -> None:
    assert "FROM scratch" in (checkout / "Dockerfile").read_text()
    for image in IMAGES:
        pin(checkout / image)
    assert not refused(checkout)
