"""The workflow that releases: it refuses an image without a pinned base, and charts say whose they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from charterer.api.models.kinds import KINDS
from charterer.api.names import VERSION

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


def test_packaged_charts_have_the_repositorys_address_and_their_icon_is_there(checkout: Path) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    steps = {step.get("name"): step for step in workflow["jobs"]["charts"]["steps"]}
    name = "Package both charts, with the image of this release as the default, and push them"
    shutil.copytree(ROOT / "charts", checkout / "charts")
    (checkout / "bin").mkdir()
    (checkout / "bin/helm").write_text("#!/bin/sh\n")
    (checkout / "bin/helm").chmod(0o755)
    given = {
        "IMAGE": "r.example/c",
        "DIGEST": "sha256:0123",
        "CHARTS": "oci://r.example",
        "TOKEN": "t",
        "GITHUB_ACTOR": "a",
    }
    given |= {"REPOSITORY": "https://git.example/o/c", "GITHUB_REF_NAME": "v1.2.3"}
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    script = ["bash", "-e", "-o", "pipefail", "-c", steps[name]["run"]]
    subprocess.run(script, cwd=checkout, env={**given, "PATH": path}, check=True, capture_output=True)
    for chart in ("charterer", "charterer-crds"):
        packaged = yaml.safe_load((checkout / "charts" / chart / "Chart.yaml").read_text())
        assert (packaged["home"], packaged["sources"]) == ("https://git.example/o/c", ["https://git.example/o/c"])
        address, file = packaged["icon"].split("/raw/v1.2.3/")
        assert (address, (ROOT / file).is_file()) == ("https://git.example/o/c", True)


def test_the_chart_of_the_definitions_tells_its_kinds() -> None:
    chart = yaml.safe_load((ROOT / "charts/charterer-crds/Chart.yaml").read_text())
    told = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    assert [(each["kind"], each["name"], each["version"]) for each in told] == [
        (kind.kind, kind.crd_name, VERSION) for kind in KINDS
    ]


def test_updates_are_looked_for_in_every_module_of_go_and_in_all_requirements() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    (of_go,) = [each["directories"] for each in updates if each["package-ecosystem"] == "gomod"]
    assert set(of_go) == {f"/{file.parent.relative_to(ROOT)}" for file in (ROOT / "tests/testbed").glob("*/go.mod")}
    assert "/requirements" in [each.get("directory") for each in updates]
