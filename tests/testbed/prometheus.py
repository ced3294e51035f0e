"""Prometheus and promtool for tests of alerts: ``make prometheus``.

Programs on PATH take precedence. Otherwise they are put into the cache: from a release, from Debian's package
``prometheus`` (unpacked, not installed, so no service starts), or built from a pinned Go module without service
discovery and web pages. The demo does not need them.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.testbed import build, debian, given, releases
from tests.testbed.build import Target
from tests.testbed.cache import BuildError, Say, Thing, cache_directory, in_cache
from tests.testbed.given import Version

_MODULE = "go-prometheus"
_PATH = "github.com/prometheus/prometheus"
_PROGRAMS = ("prometheus", "promtool")
_OLDEST = (2, 42)
"""The version of Debian 12, with which the tests pass."""


def _targets() -> tuple[Target, ...]:
    """Return the build targets. Both share most packages, so the second takes only a minute."""
    version = (("github.com/prometheus/common/version.Version", build.pinned(_MODULE, _PATH).removeprefix("v")),)
    return tuple(
        Target(name, _MODULE, f"{_PATH}/cmd/{name}", (name,), version, seconds, "remove_all_sd")
        for name, seconds in zip(_PROGRAMS, (110, 50), strict=True)
    )


def _accept(version: Version) -> str | None:
    return None if version >= _OLDEST else f"{_OLDEST[0]}.{_OLDEST[1]} or newer is wanted"


def place() -> Path:
    """Return the folder of our programs, which may not exist yet."""
    of = "\0".join(target.place.name for target in _targets())
    return cache_directory() / "testbed" / f"prometheus-both-{hashlib.sha256(of.encode()).hexdigest()[:32]}"


def find(program: str, say: Say = lambda line: None) -> Path | None:
    """Return the program on PATH, or ours, or None."""
    if found := given.find(program, _accept, say):
        return found
    made = place() / program
    return made if made.exists() else None


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made."""
    if all(find(name, say) for name in _PROGRAMS):
        return []
    seconds = 5 if debian.available() else sum(target.seconds for target in _targets())
    return [in_cache("prometheus", place(), seconds, _fill)]


def _fill(into: Path, say: Say) -> None:
    into.mkdir(parents=True)
    if releases.fetch(_MODULE, "prometheus", into, 160, say) or _from_debian(into, say):
        return
    for target in _targets():
        build.compile_into(target, into, say)


def _from_debian(into: Path, say: Say) -> bool:
    if not debian.available():
        return False
    say("prometheus: unpacking Debian's package")
    try:
        debian.unpack("prometheus", into / "debian")
    except BuildError as error:
        say(f"prometheus: {error}")
        return False
    for name in _PROGRAMS:
        program = into / "debian/usr/bin" / name
        if reason := given.refused(program, _accept):
            say(f"Debian's {name} is not used: {reason}")
            return False
        shutil.copy2(program, into / name)
    shutil.rmtree(into / "debian")
    return True
