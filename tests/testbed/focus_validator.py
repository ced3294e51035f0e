"""The validator of the FOCUS specification, in an environment of its own: made once per machine, ``make focus``.

It needs Python 3.12 or newer, and packages that the project's own would clash with (requirements/focus.txt). It is
asked for version 1.2, with all criteria of applicability but those of what Charterer does not know: reservations,
commitments, and more currencies than one.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.testbed.build import ROOT, cache_directory

_REQUIREMENTS: Final = ROOT / "requirements/focus.txt"
_CRITERIA: Final = (
    "ACCOUNT_NAMING",
    "AVAILABILITY_ZONE",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES",
    "MULTIPLE_BILLING_ACCOUNT_TYPES",
    "MULTIPLE_PRICING_CATEGORIES",
    "MULTIPLE_SUB_ACCOUNT_TYPES",
    "NEGOTIATED_PRICING",
    "PUBLIC_PRICE_LIST",
    "REGION",
    "RESOURCE_TYPE_ASSIGNMENT",
    "SUB_ACCOUNT",
    "TAGGING",
    "UNIT_PRICING",
    "USAGE_MEASUREMENT",
)


@dataclass(frozen=True, slots=True)
class FocusVerdict:
    """How many rules passed, and the names of those that failed with what is said of each."""

    passed: int
    failed: dict[str, str]


def directory() -> Path:
    """Where its environment is, or will be."""
    return cache_directory() / "focus" / hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:32]


def installed() -> bool:
    """Whether it is there."""
    return (directory() / "bin/focus-validator").exists()


def validate(file: Path) -> FocusVerdict:
    """Its verdict on a CSV file."""
    (packages,) = directory().glob("lib/python*/site-packages")  # it finds its tables from there
    command = [str(directory() / "bin/focus-validator"), "--data-file", str(file), "--validate-version", "1.2"]
    criteria = ",".join(f"{name}_SUPPORTED" for name in _CRITERIA)
    options = ["--block-download", "--applicability-criteria", criteria]
    done = subprocess.run([*command, *options], cwd=packages, capture_output=True, text=True)
    counts = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", done.stdout)
    if counts is None:
        raise AssertionError(f"the validator of FOCUS gave no verdict: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    failed = dict(re.findall(r"❌ (\S+): FAIL\s+\((.*)\)", done.stdout))
    assert len(failed) == int(counts[3])
    return FocusVerdict(int(counts[2]), failed)


def install() -> None:
    """Make the environment. CalledProcessError where that fails, NoInterpreter without a Python for it."""
    target = directory()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if installed():
            return
        python = _interpreter()
        print("focus: installing the validator of FOCUS: 700 MB, about a minute (once per machine)")
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _uv("venv", "--relocatable", "--python", python, str(partial))
        _uv("pip", "install", "--python", str(partial / "bin/python"), "--require-hashes", "-r", str(_REQUIREMENTS))
        partial.rename(target)


class NoInterpreter(Exception):
    """There is no Python that the validator takes."""


def _interpreter() -> str:
    """A Python 3.12 or newer: our own, of the path, or of pyenv. NoInterpreter without one."""
    names = [f"python3.{minor}" for minor in range(14, 11, -1)]
    found = [sys.executable, *filter(None, map(shutil.which, names))]
    found += map(str, sorted(Path.home().glob(".pyenv/versions/3.1[2-4]*/bin/python")))
    for python in found:
        asked = [python, "-c", "import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 15))"]
        if subprocess.run(asked, capture_output=True).returncode == 0:
            return python
    raise NoInterpreter("there is no Python 3.12, 3.13 or 3.14 here")


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], check=True, capture_output=True, text=True)


if __name__ == "__main__":
    try:
        install()
    except (NoInterpreter, subprocess.CalledProcessError) as error:
        cause = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        print(f"focus: the test of FOCUS files will be skipped: {cause}", file=sys.stderr)
