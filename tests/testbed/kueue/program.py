"""Kueue from a pinned Go module, for tests of queues: ``make kueue``. Its manifests lie beside the program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import Copy, Target
from tests.testbed.cache import Say, Thing

_MODULE = "go-kueue"
_PATH = "sigs.k8s.io/kueue"


@dataclass(frozen=True, slots=True)
class KueueFiles:
    """The program, and the folder from which kustomize makes its manifest."""

    program: Path
    manifest: Path


def _target() -> Target:
    return Target(
        "kueue", _MODULE, f"{_PATH}/cmd/kueue", ("kueue",), (), 150, copies=(Copy(_PATH, "config", "config"),)
    )


def version() -> str:
    """Return the version of Kueue that is built, such as v0.19.2."""
    return build.pinned(_MODULE, _PATH)


def find() -> KueueFiles | None:
    """Return the program and its manifest, None if they have not been made."""
    place = _target().place
    return KueueFiles(place / "kueue", place / "config/default") if place.exists() else None


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made."""
    return [] if find() else [_target().thing]
