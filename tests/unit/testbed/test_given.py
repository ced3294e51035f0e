"""Programs that are given are used where they are of a version that is taken, and the others are told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed import build, given
from tests.unit.testbed.fakes import Fakes, fakes, put

__all__ = ["fakes"]


def say(line: str) -> None:
    """To nobody."""


@pytest.mark.parametrize(
    ("program", "says", "version"),
    [
        ("etcd", "etcd Version: 3.6.8\nGit SHA: 12.3", (3, 6)),
        ("kube-apiserver", "Kubernetes v1.36.3", (1, 36)),
        ("kubectl", "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", (1, 32)),
        ("kwok", "kwok version 0.8.0 go1.26.6 (linux/amd64)", (0, 8)),
        ("helm", "v3.22.0+g144ca65", (3, 22)),
        ("prometheus", "prometheus, version 2.42.0+ds (branch: debian/sid)\n  go version: go1.19.8", (2, 42)),
    ],
)
def test_the_version_is_read_as_each_program_tells_it(
    program: str, says: str, version: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / program, says)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    seen: list[tuple[int, int]] = []
    given.find(program, lambda told: seen.append(told) or None, say)  # type: ignore[func-returns-value]
    assert seen == [version]


def test_a_program_of_another_version_is_not_used_and_that_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "assets/etcd", "etcd Version: 3.5.9")
    put(tmp_path / "path/etcd", "etcd Version: 3.6.1")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    said: list[str] = []
    assert given.find("etcd", given.same_minor("v3.6.8"), said.append) == tmp_path / "path/etcd"
    assert said == [f"{tmp_path}/assets/etcd is not used: it is 3.5, and 3.6 is wanted"]


def test_one_that_tells_no_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "etcd", "hello")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said: list[str] = []
    assert given.find("etcd", given.same_minor("v3.6.8"), said.append) is None
    assert said == [f"{tmp_path}/etcd is not used: it tells no version"]


def test_one_that_is_replaced_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    for version, used in (("v1.35.0", False), ("v1.36.1", True)):
        put(tmp_path / "kubectl", f"Client Version: {version}")
        assert (given.find("kubectl", given.same_minor("v1.36.3"), say) is not None) == used


def test_only_what_is_not_given_is_made(fakes: Fakes) -> None:
    assets = fakes.folder / "assets"
    kubernetes = build.pinned(build.kubernetes_module(), "k8s.io/kubernetes")
    put(assets / "etcd", "etcd Version: 3.6.1")
    for program in ("kube-apiserver", "kubectl"):
        put(assets / program, f"Kubernetes {kubernetes}")
    put(fakes.folder / "bin/helm", "v2.1.0")
    fakes.environment["KUBEBUILDER_ASSETS"] = str(assets)
    with fakes.make("testbed") as made:
        said = made.communicate(timeout=60)[0]
    assert made.returncode == 0, said
    assert f"{fakes.folder}/bin/helm is not used: it is 2.1, and 3.22 is wanted" in said
    names = {path.name.split("-")[0] for path in fakes.cache.glob("testbed/[a-z]*-*")}
    assert names == {"kube", "kwok", "helm"}
