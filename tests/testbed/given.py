"""Finds programs of an accepted version that the machine already has, in ``KUBEBUILDER_ASSETS`` or on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.testbed.cache import Say

Version = tuple[int, int]
"""Major and minor version."""
_ASK = {"kubectl": ("version", "--client"), "helm": ("version", "--short")}
"""Arguments that print the version, for programs without --version."""


def same_minor(wanted: str) -> Callable[[Version], str | None]:
    """Return a check that accepts the major and minor version of ``wanted``, such as v1.36.3."""
    major, minor, *_ = wanted.removeprefix("v").split(".")
    return lambda version: None if version == (int(major), int(minor)) else f"{major}.{minor} is wanted"


def find(program: str, accept: Callable[[Version], str | None], say: Say) -> Path | None:
    """Return the first program with an accepted version. ``accept`` returns the reason against a version.

    ``say`` prints it.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for place in (*([assets] if assets else []), os.environ.get("PATH", os.defpath)):
        found = shutil.which(program, path=place)
        if found is not None and (reason := refused(Path(found), accept)) is None:
            return Path(found).absolute()
        if found is not None:
            say(f"{found} is not used: {reason}")
    return None


def refused(program: Path, accept: Callable[[Version], str | None]) -> str | None:
    """Return why the program's version is not accepted, None if it is."""
    version = _version(str(program), os.stat(program).st_mtime_ns)
    if version is None:
        return "it tells no version"
    reason = accept(version)
    return reason and f"it is {version[0]}.{version[1]}, and {reason}"


@cache
def _version(program: str, modified: int) -> Version | None:
    """Return a program's version. ``modified`` (nanoseconds) is part of the cache key, as programs may be replaced."""
    arguments = _ASK.get(Path(program).name, ("--version",))
    try:
        asked = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv?(\d+)\.(\d+)(?:\.\d+|\b)", asked.stdout + asked.stderr)
    return (int(match[1]), int(match[2])) if match and asked.returncode == 0 else None
