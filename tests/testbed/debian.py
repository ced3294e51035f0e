"""Packages of this machine's Debian release: installed, or unpacked into the cache without installation."""

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
    """Return packages to install as a Thing. Like apt-get itself, only one process at a time can install."""

    def make(say: Say) -> None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise UnsuitableError(f"only root on Debian can install {', '.join(wanted)}: install them yourself")
        say(f"{name}: installing {', '.join(wanted)}")
        _run("apt-get", "update", "--quiet=2")
        # Wait for another program's installation, such as the machine's own upgrade.
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
    """Return whether packages can be downloaded here."""
    return all(map(shutil.which, ("apt-get", "dpkg-deb")))


def unpack(package: str, into: Path) -> None:
    """Unpack a package's files into a folder. This installs nothing and starts no service. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder:
        _run("apt-get", "download", "--quiet=2", package, folder=Path(folder))
        (file,) = Path(folder).glob("*.deb")
        _run("dpkg-deb", "--extract", str(file), str(into))


def _run(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, **_ENVIRONMENT})
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
