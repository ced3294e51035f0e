"""Karpenter with its kwok provider from a pinned Go module, for tests that rent through it: ``make karpenter``.

Karpenter is an unchanged release. The cloud behind it is ours (go-karpenter/cloud.go). Its CRDs lie beside the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import Copy, Target
from tests.testbed.cache import Say, Thing

_MODULE = "go-karpenter"
_PATH = "sigs.k8s.io/karpenter"


@dataclass(frozen=True, slots=True)
class KarpenterFiles:
    """The program and the folder of its CRDs."""

    program: Path
    crds: Path


def _target() -> Target:
    crds = (Copy(_PATH, "kwok/charts/crds", "crds"), Copy(_PATH, "kwok/apis/crds", "crds"))
    return Target("karpenter", _MODULE, ".", ("karpenter",), (), 115, copies=crds)


def version() -> str:
    """Return the version of Karpenter that is built, such as v1.14.0."""
    return build.pinned(_MODULE, _PATH)


def find() -> KarpenterFiles | None:
    """Return the program and its CRDs, None if they have not been made."""
    place = _target().place
    return KarpenterFiles(place / "karpenter", place / "crds") if place.exists() else None


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made."""
    return [] if find() else [_target().thing]
