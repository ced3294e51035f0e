"""What releases: the workflow refuses an image without a pinned base, and packaged charts say whose they are."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

import charterer
from charterer.api.models.kinds import KINDS
from charterer.api.names import VERSION
from release import build

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


def test_packaged_charts_name_the_published_image_the_repository_and_an_icon_that_is_there(tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    shutil.copytree(ROOT / "charts", charts)
    build.address(charts, build.Release("1.2.3", 0, "r.example/c", "sha256:0123", "https://git.example/o/c"))
    image = yaml.safe_load((charts / "charterer/values.yaml").read_text())["image"]
    assert (image["repository"], image["digest"]) == ("r.example/c", "sha256:0123")
    for chart in build.CHARTS:
        packaged = yaml.safe_load((charts / chart / "Chart.yaml").read_text())
        assert (packaged["home"], packaged["sources"]) == ("https://git.example/o/c", ["https://git.example/o/c"])
        address, file = packaged["icon"].split("/raw/v1.2.3/")
        assert (address, (ROOT / file).is_file()) == ("https://git.example/o/c", True)


def test_without_an_address_the_charts_are_packaged_as_they_are(tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    shutil.copytree(ROOT / "charts", charts)
    build.address(charts, build.Release("1.2.3", 0))
    for file in ("charterer/values.yaml", "charterer/Chart.yaml", "charterer-crds/Chart.yaml"):
        assert (charts / file).read_text() == (ROOT / "charts" / file).read_text()


README = (
    "[![a\nb](docs/a.png)](docs/demo.md#x), [c](../docs/c.md), ![d](https://x.example/d.png), [e](https://x.example/e)"
)


def test_relative_links_of_a_packages_page_lead_to_the_tag_of_its_version() -> None:
    at = "https://git.example/o/c"
    assert build.read_alone(README, "trainer/README.md", build.Release("1.2.3", 0, repository=at)) == (
        f"[![a\nb]({at}/raw/v1.2.3/trainer/docs/a.png)]({at}/blob/v1.2.3/trainer/docs/demo.md#x), "
        f"[c]({at}/blob/v1.2.3/docs/c.md), ![d](https://x.example/d.png), [e](https://x.example/e)"
    )


def test_without_an_address_relative_links_of_a_packages_page_are_their_text() -> None:
    told = build.read_alone(README, "README.md", build.Release("1.2.3", 0))
    assert told == ", c, ![d](https://x.example/d.png), [e](https://x.example/e)"


def test_both_packages_have_the_same_licence() -> None:
    assert (ROOT / "trainer/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_both_packages_and_both_charts_have_one_version_or_nothing_is_built(tmp_path: Path) -> None:
    for file in build._VERSIONED:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    assert build.version_of(tmp_path) == charterer.__version__
    chart = tmp_path / "charts/charterer/Chart.yaml"
    chart.write_text(chart.read_text().replace("appVersion: ", "appVersion: 9."))
    with pytest.raises(build.CannotBuild, match="give them the same"):
        build.version_of(tmp_path)


def test_an_archive_depends_on_its_files_and_the_time_of_the_commit_alone() -> None:
    first = build.packed({"a": b"1", "b": b"2"}, 1_700_000_000)
    assert build.packed({"b": b"2", "a": b"1"}, 1_700_000_000) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert [(each.name, each.mtime, each.uid, each.uname) for each in tar] == [
            (name, 1_700_000_000, 0, "") for name in ("a", "b")
        ]


def test_the_digests_are_those_of_all_files_but_their_own(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/c.tgz").write_bytes(b"")
    (tmp_path / build.SUMS).write_text("of before")
    assert build.sums(tmp_path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  charts/c.tgz\n"


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
