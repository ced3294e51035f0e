"""KubeRay's operator from a pinned Go module, for tests of RayJobs: ``make kuberay``.

The manifests lie beside the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import Copy, Target
from tests.testbed.cache import Say, Thing

_MODULE = "go-kuberay"
_PATH = "github.com/ray-project/kuberay/ray-operator"
_PARTS = ("crd", "default", "manager", "rbac")


@dataclass(frozen=True, slots=True)
class KubeRayFiles:
    """The program, and the folder from which kustomize makes its manifest."""

    program: Path
    manifest: Path


def _target() -> Target:
    copies = tuple(Copy(_PATH, f"config/{part}", f"config/{part}") for part in _PARTS)
    return Target("kuberay", _MODULE, _PATH, ("kuberay",), (), 100, copies=copies)


def version() -> str:
    """Return the version of KubeRay that is built, such as v1.6.2."""
    return build.pinned(_MODULE, _PATH)


def find() -> KubeRayFiles | None:
    """Return the program and its manifest, None if they have not been made."""
    place = _target().place
    return KubeRayFiles(place / "kuberay", place / "config/default") if place.exists() else None


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made."""
    return [] if find() else [_target().thing]
