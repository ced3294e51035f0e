"""Packages of this machine's release of Debian, installed, or unpacked into the cache without being installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.testbed.cache import BuildError, Say, Thing, UnsuitableError, cache_directory

_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive"}


def packages(name: str, wanted: Sequence[str], installed: Callable[[], bool], seconds: int) -> Thing:
    """Installed ones. Only one process at a time can install, as with apt-get itself."""

    def make(say: Say) -> None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise UnsuitableError(f"only root on Debian can install {', '.join(wanted)}: install them yourself")
        say(f"{name}: installing {', '.join(wanted)}")
        _run("apt-get", "update", "--quiet=2")
        # Another program's installation, such as the machine's own upgrade, is waited for.
        _run(
            "apt-get",
            "-o",
            "DPkg::Lock::Timeout=600",
            "install",
            "--quiet=2",
            "--yes",
            "--no-install-recommends",
            *wanted,
        )

    return Thing(name, seconds, cache_directory() / ".apt.lock", installed, make)


def available() -> bool:
    """Whether packages can be fetched here."""
    return all(map(shutil.which, ("apt-get", "dpkg-deb")))


def unpack(package: str, into: Path) -> None:
    """The files of a package below a folder; nothing is installed, and no service is started. BuildError."""
    with tempfile.TemporaryDirectory() as folder:
        _run("apt-get", "download", "--quiet=2", package, folder=Path(folder))
        (file,) = Path(folder).glob("*.deb")
        _run("dpkg-deb", "--extract", str(file), str(into))


def _run(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, **_ENVIRONMENT})
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
