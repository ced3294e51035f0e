"""The page of what Charterer runs with names the versions that are tested: those that the test bed pins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.testbed import build

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/support-matrix.md"
FAMILIES = ("kubernetes", "helm")


@pytest.fixture(autouse=True)
def no_version_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` chooses none."""
    for family in FAMILIES:
        monkeypatch.delenv(f"CHARTERER_{family.upper()}", raising=False)


def others(family: str) -> list[str]:
    """The modules of the family that `make test` does not build, the newest first."""
    default = {"kubernetes": build.kubernetes_module, "helm": build.helm_module}[family]()
    modules = sorted((folder.name for folder in build.HERE.glob(f"go-{family}-*")), reverse=True)
    return [module for module in modules if module != default]


def workflow(name: str) -> Any:
    """A workflow of the repository."""
    return yaml.safe_load((ROOT / f".github/workflows/{name}").read_text())


def row(name: str, tested: list[str], late: list[str]) -> str:
    return f"| {name} | {', '.join(tested)} | {', '.join(late)} |".replace("|  |", "| |")


def rows() -> Iterator[str]:
    """The rows of the page's second table."""
    kubernetes, helm = build.kubernetes_module(), build.helm_module()
    for name, path in (("Kubernetes", "k8s.io/kubernetes"), ("etcd", "go.etcd.io/etcd/server/v3")):
        yield row(name, [pin(kubernetes, path)], [pin(module, path) for module in others("kubernetes")])
    yield row("Helm", [helm_pin(helm)], [helm_pin(module) for module in others("helm")])
    for name, module, path in (
        ("Karpenter, with its kwok provider", "go-karpenter", "sigs.k8s.io/karpenter"),
        ("kwok, which plays nodes", "go-kwok", "sigs.k8s.io/kwok"),
        ("JobSet", "go-jobs", "sigs.k8s.io/jobset"),
        ("Kubeflow Trainer", "go-jobs", "github.com/kubeflow/trainer/v2"),
        ("KubeRay", "go-kuberay", "github.com/ray-project/kuberay/ray-operator"),
        ("Kueue", "go-kueue", "sigs.k8s.io/kueue"),
    ):
        yield row(name, [pin(module, path)], [])
    matrix = workflow("test.yml")["jobs"]["test"]["strategy"]["matrix"]
    yield row("Python, in CI", matrix["python"], [])


def pin(module: str, path: str) -> str:
    return build.pinned(module, path).removeprefix("v")


def helm_pin(module: str) -> str:
    return pin(module, f"helm.sh/helm/v{module.removeprefix('go-helm-')}")


def test_the_page_names_the_versions_that_are_tested() -> None:
    table = PAGE.read_text().partition("## Tested versions")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.strip().splitlines() == list(rows())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_version_beside_that_of_make_test_has_a_target_that_tests_it(family: str) -> None:
    found = re.search(r"^test-versions:(.*?)(?: ##|$)", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None
    wanted = {module.replace("go-", "test-", 1) for module in others(family)}
    assert wanted
    assert wanted <= set(found[1].split())


def test_every_night_the_long_tests_run() -> None:
    nightly = workflow("nightly.yml")
    assert "schedule" in nightly[True]  # YAML reads the key `on` as true
    assert any(step.get("run") == "make test-long" for step in nightly["jobs"]["long"]["steps"])
