"""Builds the controllers of JobSets and TrainJobs from pinned Go modules, once per machine, for tests of adopted jobs.

Run ``make job-controllers``. Both are as their authors released them. Their CRDs and the manifests of their webhooks
are copied from the modules beside the programs.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import BuildError, Target

_MODULE = "go-jobs"


@dataclass(frozen=True, slots=True)
class _Released:
    """A controller's module, its program's package, and its folders of CRDs and of webhooks' manifests."""

    path: str
    package: str
    crds: str
    webhooks: str


_RELEASED = {
    "jobset": _Released(
        "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", "config/components/crd/bases", "config/components/webhook"
    ),
    "trainer": _Released(
        "github.com/kubeflow/trainer/v2",
        "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
        "manifests/base/crds",
        "manifests/base/webhook",
    ),
}


@dataclass(frozen=True, slots=True)
class JobController:
    """A controller: its program, the files of its CRDs, and the folder that kustomize makes its webhooks of."""

    name: str
    program: Path
    crds: tuple[Path, ...]
    webhooks: Path


def targets() -> tuple[Target, ...]:
    """What is built."""
    return tuple(Target(name, _MODULE, released.package, (name,), (), 210) for name, released in _RELEASED.items())


def find() -> tuple[JobController, ...] | None:
    """JobSet's controller and Kubeflow Trainer's; None where they have not been made."""
    into = build.directory(targets())
    found = []
    for name in _RELEASED:
        program, manifests = build.find(name, into), into / f"{name}-manifests"
        if program is None or not manifests.is_dir():
            return None
        crds = tuple(sorted((manifests / "crds").glob("*_*.yaml")))
        found.append(JobController(name, program, crds, manifests / "webhooks"))
    return tuple(found)


def make() -> None:
    """Builds and copies what is lacking; BuildError when that fails."""
    into = build.directory(targets())
    build.build_into(into, lambda: [target for target in targets() if build.find(target.name, into) is None])
    for name, released in _RELEASED.items():
        if not (into / f"{name}-manifests").is_dir():
            _copy_manifests(into, name, released)


def _copy_manifests(into: Path, name: str, released: _Released) -> None:
    module = build.fetched(targets(), released.path)
    partial = into / f".{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    # The module cache is read-only, and copies are to be deleted as other files are.
    for source, target in ((released.crds, "crds"), (released.webhooks, "webhooks")):
        shutil.copytree(module / source, partial / target, copy_function=shutil.copyfile)
    for folder in (partial, *partial.rglob("*/")):
        folder.chmod(0o755)
    partial.replace(into / f"{name}-manifests")


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
