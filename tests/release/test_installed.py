"""A stranger installs what was released, into a fresh environment and a fresh control plane, and runs a job.

Nothing is read but the released files, and what a package index has of others' packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from charterer import __version__ as VERSION
from release.build import ROOT
from tests.testbed.controlplane import ControlPlane

pytestmark = pytest.mark.timeout(900)


def ran(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a program prints that succeeds."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stranger")


@pytest.fixture(scope="module")
def environment(home: Path) -> Mapping[str, str]:
    """That of somebody who has no checkout: neither its folder nor its virtual environment is in it."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not folder.startswith(str(ROOT))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"HOME": str(home), "PATH": os.pathsep.join([str(home / "venv/bin"), *folders])}


@pytest.fixture(scope="module")
def installed(released: Path, home: Path, environment: Mapping[str, str]) -> Path:
    """The folder of programs of a fresh virtual environment with both wheels."""
    venv.create(home / "venv", with_pip=True)
    wheels = [str(wheel) for wheel in sorted((released / "packages").rglob("*.whl"))]
    ran([str(home / "venv/bin/python"), "-m", "pip", "install", "--quiet", *wheels], home, environment)
    return home / "venv/bin"


def test_the_commands_are_those_of_the_wheel_and_tell_its_version(
    installed: Path, home: Path, environment: Mapping[str, str]
) -> None:
    assert VERSION in ran([str(installed / "charterer"), "--version"], home, environment)
    assert VERSION in ran([str(installed / "kubectl-charterer"), "--version"], home, environment)
    script = "import charterer, charterer_trainer; print(charterer.__file__, charterer_trainer.__version__)"
    where, version = ran([str(installed / "python"), "-c", script], home, environment).split()
    assert (Path(where).is_relative_to(home), version) == (True, VERSION)


def test_the_first_page_of_the_site_leads_to_a_running_job_with_the_packaged_charts(
    released: Path, installed: Path, home: Path, environment: Mapping[str, str]
) -> None:
    """The ten commands of the released page on getting started, with the released charts."""
    with tarfile.open(released / f"charterer-site-{VERSION}.tar.gz") as tar:
        tar.extractall(home, filter="data")
    site = home / f"charterer-site-{VERSION}"
    (script,) = re.findall(r"```bash\n(.*?)```", (site / "getting-started.md").read_text(), re.DOTALL)
    for chart in ("charterer", "charterer-crds"):
        script, replaced = re.subn(rf" charts/{chart}\b(?!-)", f" {released}/charts/{chart}-{VERSION}.tgz", script)
        assert replaced == 1, script
    with ControlPlane.start(home / "plane") as plane:
        tools = [str(plane.binaries.kubectl.parent), str(plane.binaries.helm.parent)]
        path = os.pathsep.join([str(installed), *tools, environment["PATH"]])
        done = subprocess.run(
            ["bash", "-euc", f"trap 'kill $(jobs -p) && wait' EXIT\n{script}\nhelm list --all-namespaces"],
            cwd=site / "repository",
            env={**environment, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)},
            capture_output=True,
            text=True,
        )
        images = plane.kubectl("get", "deployments", "-A", "-o", "jsonpath={..image}").split()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TrainingJob research/first is Running on 4 GPUs on a100 (run 1)" in done.stdout
    assert "All is well: 1 job runs." in done.stdout
    assert "nothing is rented any more" in done.stdout
    assert f"charterer-{VERSION}" in done.stdout
    assert images == [f"charterer:{VERSION}"]
    assert sys.prefix not in done.stdout + done.stderr
