"""The validator of the FOCUS specification, in a separate virtual environment in the cache: ``make focus``.

The validator needs Python 3.12 or newer, and packages that conflict with the project's (requirements/focus.txt). It
checks version 1.2 with all applicability criteria except those for data that Charterer does not have: reservations,
commitments, and several currencies. The validator supports no later version. For 1.4 the tests use the data model of
the package focus-data-toolkit: columns, types, nulls, allowed values and the rules within a row.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.testbed import interpreters
from tests.testbed.build import ROOT
from tests.testbed.cache import BuildError, Say, Thing, UnsuitableError, cache_directory, in_cache

_VERSIONS: Final = ("3.12", "3.13", "3.14")
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
    """The number of rules that passed, and the names of failed rules with the validator's messages."""

    passed: int
    failed: dict[str, str]


def directory() -> Path:
    """Return the folder of the environment, which may not exist yet."""
    return cache_directory() / "focus" / hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:32]


def missing() -> str | None:
    """Return one line that says why the environment is missing and what to do, None if it exists."""
    return None if directory().exists() else "the validator of FOCUS is not installed: run `make focus`"


def validate(file: Path) -> FocusVerdict:
    """Validate a CSV file by FOCUS 1.2."""
    (packages,) = directory().glob("lib/python*/site-packages")  # the validator finds its tables relative to it
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


def lint_1_4(file: Path) -> list[str]:
    """Return the faults of a CSV file by the data model of FOCUS 1.4."""
    supports = ("--supports", "SupportsMultiplePricingCategories", "--supports", "SupportsUnitPricing")
    command = [str(directory() / "bin/focus-toolkit"), "validate", "--dataset", "cost-and-usage", *supports, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def lacking(say: Say) -> list[Thing]:
    """Return the environment as a thing to make, if it is missing."""
    return [] if missing() is None else [in_cache("focus", directory(), 60, _fill)]


def _fill(into: Path, say: Say) -> None:
    python = interpreters.find(_VERSIONS)
    if python is None:
        raise UnsuitableError(f"no Python {', '.join(_VERSIONS)} here for the validator of FOCUS: install one of them")
    say(f"focus: installing the validator of FOCUS for Python {python.release}: 700 MB")
    _uv("venv", "--relocatable", "--python", str(python.program), str(into))
    _uv("pip", "install", "--python", str(into / "bin/python"), "--require-hashes", "-r", str(_REQUIREMENTS))


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"uv {' '.join(arguments)}: {done.stderr.strip()}")
