"""Builds Karpenter with its kwok provider from a pinned Go module, once per machine, for tests that rent through it.

Run ``make karpenter``. Karpenter is as its authors released it; the cloud behind it is ours (go-karpenter/cloud.go).
Its CRDs are copied beside the program.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import BuildError, Target

_MODULE = "go-karpenter"
_PATH = "sigs.k8s.io/karpenter"
_CRDS = ("kwok/charts/crds", "kwok/apis/crds")


@dataclass(frozen=True, slots=True)
class KarpenterFiles:
    """The program and the folder of its CRDs."""

    program: Path
    crds: Path


def targets() -> tuple[Target, ...]:
    """What is built."""
    return (Target("karpenter", _MODULE, ".", ("karpenter",), (), 240),)


def version() -> str:
    """The version of Karpenter that is built, like v1.14.0."""
    required = (build.HERE / _MODULE / "go.mod").read_text().split()
    return required[required.index(_PATH) + 1]


def find() -> KarpenterFiles | None:
    """The program and its CRDs; None where they have not been made."""
    into = build.directory(targets())
    program, crds = build.find("karpenter", into), into / "crds"
    return KarpenterFiles(program, crds) if program is not None and crds.is_dir() else None


def make() -> None:
    """Builds and copies what is lacking; BuildError when that fails."""
    into = build.directory(targets())
    build.build_into(into, lambda: targets() if build.find("karpenter", into) is None else ())
    if find() is None:
        _copy_crds(into)


def _copy_crds(into: Path) -> None:
    """The CRDs of the module's own folder in Go's module cache, where the build has put it."""
    module = build.fetched(targets(), _PATH)
    partial = into / ".crds.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for folder in _CRDS:
        for file in sorted((module / folder).glob("*.yaml")):
            (partial / file.name).write_bytes(file.read_bytes())
    partial.replace(into / "crds")


def main() -> int:
    """Makes what is not there, or prints why not."""
    try:
        make()
    except BuildError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
