"""The controllers of JobSets and TrainJobs from pinned Go modules, for tests of adoption: ``make job-controllers``.

Both are unchanged releases. Their CRDs and webhook manifests lie beside the programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.testbed.build import Copy, Target
from tests.testbed.cache import Say, Thing

_MODULE = "go-jobs"
_JOBSET = "sigs.k8s.io/jobset"
_TRAINER = "github.com/kubeflow/trainer/v2"


@dataclass(frozen=True, slots=True)
class JobController:
    """A controller: its program, its CRD files, and the folder from which kustomize makes its webhooks."""

    name: str
    program: Path
    crds: tuple[Path, ...]
    webhooks: Path


def _target(name: str, path: str, package: str, crds: str, webhooks: str) -> Target:
    copies = (Copy(path, crds, "crds"), Copy(path, webhooks, "webhooks"))
    return Target(name, _MODULE, package, (name,), (), 55, copies=copies)


def _targets() -> tuple[Target, ...]:
    components, manifests = "config/components", "manifests/base"
    return (
        _target("jobset", _JOBSET, _JOBSET, f"{components}/crd/bases", f"{components}/webhook"),
        _target(
            "trainer",
            _TRAINER,
            f"{_TRAINER}/cmd/trainer-controller-manager",
            f"{manifests}/crds",
            f"{manifests}/webhook",
        ),
    )


def find() -> tuple[JobController, ...] | None:
    """Return the controllers of JobSet and Kubeflow Trainer, None if they have not been made."""
    places = {target.name: target.place for target in _targets()}
    if not all(place.exists() for place in places.values()):
        return None
    return tuple(
        JobController(name, place / name, tuple(sorted((place / "crds").glob("*_*.yaml"))), place / "webhooks")
        for name, place in places.items()
    )


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made."""
    return [target.thing for target in _targets() if not target.place.exists()]
