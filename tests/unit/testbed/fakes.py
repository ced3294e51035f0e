"""Programs that stand for go and uv where tests look at what is made, and not of what."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

GO = """#!/bin/sh
# Builds a program in no time, or fails as one without a network does. Waits while a file is there that says so.
case "$1 $2" in
"env GOVERSION") echo go99.1.0; exit;;
"env GOPROXY") echo http://proxy.invalid; exit;;
"list -m") echo "$FAKES/module"; exit;;
esac
[ ! -e "$FAKES/fails" ] || { cat "$FAKES/fails"; exit 1; }
echo "$*" >> "$FAKES/made"
while [ -e "$FAKES/wait" ]; do sleep 0.02; done
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexit 0\\n' > "$2"
chmod +x "$2"
"""

UV = """
import os, pathlib, sys, time
fakes = pathlib.Path(os.environ["FAKES"])
with (fakes / "made").open("a") as made:
    print(*sys.argv[1:], file=made)
while (fakes / "wait").exists():
    time.sleep(0.02)
if "venv" in sys.argv:
    (pathlib.Path(sys.argv[-1]) / "bin").mkdir(parents=True)
    (pathlib.Path(sys.argv[-1]) / "lib/python3/site-packages").mkdir(parents=True)
    (pathlib.Path(sys.argv[-1]) / "bin/python").touch()
"""

FOLDERS = (
    "kwok/charts/crds",
    "kwok/apis/crds",
    "config/components/crd/bases",
    "config/components/webhook",
    "manifests/base/crds",
    "manifests/base/webhook",
)
"""Of the modules, those that lie beside the programs."""


@dataclass
class Fakes:
    """``folder`` has what was asked for, in ``made``; ``cache`` is the cache of the machine."""

    folder: Path
    cache: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "bin/go").write_text(GO)
        (self.folder / "bin/go").chmod(0o755)
        (self.folder / "uv.py").write_text(UV)
        for name in FOLDERS:
            (self.folder / "module" / name).mkdir(parents=True)
            (self.folder / "module" / name / "an_object.yaml").write_text("{}")
            (self.folder / "module" / name).chmod(0o555)  # as in Go's module cache
        for name in ("sh", "cat", "sleep", "chmod", "env"):  # and no other program of this machine
            (self.folder / "bin" / name).symlink_to(shutil.which(name) or name)
        self.environment = {
            "CHARTERER_CACHE_DIR": str(self.cache),
            "CHARTERER_FROM_SOURCE": "1",
            "FAKES": str(self.folder),
            "PATH": str(self.folder / "bin"),
            "PYTHONPATH": f"{self.folder}:{ROOT}",
            "HOME": str(self.folder),
        }

    @property
    def made(self) -> list[str]:
        """What was asked of go and uv."""
        return (self.folder / "made").read_text().splitlines() if (self.folder / "made").exists() else []

    def wait(self, waits: bool) -> None:
        """Let go and uv wait, or go on."""
        (self.folder / "wait").touch() if waits else (self.folder / "wait").unlink()

    def make(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``python -m tests.testbed.make``."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.testbed.make", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """A machine with an empty cache, whose go and uv are ours."""
    made = Fakes(tmp_path / "fakes", tmp_path / "cache")
    for name, value in made.environment.items():
        if name != "PYTHONPATH":
            monkeypatch.setenv(name, value)
    for name in ("KUBEBUILDER_ASSETS", "CHARTERER_BUILDS", "PYENV_ROOT", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


def put(program: Path, says: str) -> None:
    """A program that tells a version."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
