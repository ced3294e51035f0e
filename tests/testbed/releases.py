"""Downloads programs that their authors released, instead of building them, if the authors' hosts can be reached.

``releases.json`` has each file with its digest and the digest's source. A wrong digest is an error, and no build
replaces the file. A host that cannot be reached, or sends nothing for 10 seconds, is reported in one line and not
contacted again. Its programs are built. A program is also built if its file is missing, truncated, or downloads more
slowly than a build. ``CHARTERER_FROM_SOURCE=1`` builds all programs.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import platform
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.testbed.cache import BuildError, Say

_PINS: Final = Path(__file__).resolve().parent / "releases.json"
_SILENCE: Final = 10.0
"""Seconds without data after which a host counts as unreachable."""
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_unreachable: set[str] = set()


class _NotFetchedError(Exception):
    """The file is not available now. The message gives the reason, or is empty if it was already reported."""


@dataclass(frozen=True, slots=True)
class Release:
    """A file of a release. ``digest`` is like sha256:…. ``source`` is where the digest was read.

    ``programs`` maps each program to its path in the archive, "" if the file itself is the program.
    """

    module: str
    target: str
    version: str
    platform: str
    url: str
    digest: str
    source: str
    programs: dict[str, str]


def pins() -> Sequence[Release]:
    """Return all pinned releases."""
    return [Release(**entry) for entry in json.loads(_PINS.read_text())]


def fetch(module: str, target: str, into: Path, seconds: int, say: Say) -> bool:
    """Put a target's programs into a folder. False if they must be built. Raises BuildError for a wrong digest."""
    if os.environ.get("CHARTERER_FROM_SOURCE"):
        return False
    here = f"{sys.platform}-{_MACHINES.get(platform.machine(), platform.machine())}"
    files = [pin for pin in pins() if (pin.module, pin.target, pin.platform) == (module, target, here)]
    if not files:
        return False
    unpacked = into / ".release"
    unpacked.mkdir()
    try:
        until = time.monotonic() + max(60, seconds)
        for file in files:
            _unpack(file, _download(file, unpacked, until), unpacked)
        for program in unpacked.iterdir():
            program.rename(into / program.name)
    except _NotFetchedError as error:
        if str(error):
            say(f"{target}: no release is taken: {error}")
        return False
    finally:
        shutil.rmtree(unpacked)
    say(f"{target}: taken from {' and '.join(file.url for file in files)}")
    return True


def _download(file: Release, into: Path, until: float) -> Path:
    host = urlsplit(file.url).netloc
    if host in _unreachable:
        raise _NotFetchedError
    there = into / ".file"
    algorithm, _, wanted = file.digest.partition(":")
    digest = hashlib.new(algorithm)
    got = 0
    try:
        with urllib.request.urlopen(file.url, timeout=_SILENCE) as answer, there.open("wb") as output:
            while part := answer.read1(1 << 20):
                output.write(part)
                digest.update(part)
                got += len(part)
                if time.monotonic() > until:
                    raise _NotFetchedError(f"{file.url} takes longer than a build")
            length = int(answer.headers.get("Content-Length", got))
    except urllib.error.HTTPError as error:
        raise _NotFetchedError(f"{file.url}: {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        _unreachable.add(host)
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise _NotFetchedError(f"{host} cannot be reached ({reason or type(error).__name__})") from error
    if got != length:
        raise _NotFetchedError(f"{file.url} ended after {got} of {length} bytes")
    if digest.hexdigest() != wanted:
        raise BuildError(
            f"{file.url} has the {algorithm} {digest.hexdigest()} and not {wanted}, which {_PINS.name} has from "
            f"{file.source}: do not trust this file; CHARTERER_FROM_SOURCE=1 builds the program"
        )
    return there


def _unpack(file: Release, there: Path, into: Path) -> None:
    for program, member in file.programs.items():
        if not member:
            there.rename(into / program)
        else:
            with tarfile.open(there) as archive, (into / program).open("wb") as output:
                found = archive.extractfile(member)
                if found is None:
                    raise BuildError(f"{file.url} has no file {member}")
                shutil.copyfileobj(found, output)
        (into / program).chmod(0o755)
    there.unlink(missing_ok=True)
