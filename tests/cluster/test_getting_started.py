"""docs/getting-started.md works word for word on the test bed, and its training script really trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.controlplane import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/getting-started.md"


def commands() -> str:
    """The page's block of commands for the test bed."""
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


@pytest.mark.programs
def test_the_ten_commands_end_in_a_running_job_its_explanation_and_no_machine(tmp_path: Path) -> None:
    script = commands()
    assert len(script.splitlines()) == 10
    work = tmp_path / "checkout"
    work.mkdir()
    for folder in ("charts", "examples"):
        (work / folder).symlink_to(ROOT / folder)
    with ControlPlane.start(tmp_path / "plane") as plane:
        path = [str(plane.binaries.kubectl.parent), str(plane.binaries.helm.parent), str(Path(sys.executable).parent)]
        environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": os.pathsep.join([*path, os.environ["PATH"]]),
        }
        done = subprocess.run(
            ["bash", "-euc", f"trap 'kill $(jobs -p) && wait' EXIT\n{script}"],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TrainingJob research/first is Running on 4 GPUs on a100 (run 1)" in done.stdout
    assert "All is well: 1 job runs." in done.stdout
    assert "nothing is rented any more" in done.stdout
    assert (work / "out/start/gpupools.yaml").exists()
    assert sorted(path.name for path in work.iterdir()) == ["charts", "examples", "out"]
    assert "out/" in (ROOT / ".gitignore").read_text().splitlines()
