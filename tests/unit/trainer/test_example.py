"""The example's training script runs outside Kubernetes, ends, and goes on from its checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "examples/getting-started/train.py"


def trained(checkpoints: Path, steps: int) -> list[str]:
    """The lines that the script prints."""
    command = [sys.executable, str(SCRIPT), "--steps", str(steps), "--step-seconds", "0"]
    done = subprocess.run([*command, "--checkpoints", str(checkpoints)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_script_trains_and_resumes(tmp_path: Path) -> None:
    assert trained(tmp_path, 200)[-1] == "step 200: y = 3.000 x + -1.000"
    assert trained(tmp_path, 250)[0].startswith("begins at step 200 ")
