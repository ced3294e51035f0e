"""Prometheus' programs: those on PATH, else built, apart from what the demo needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.testbed import build, prometheus
from tests.unit.testbed.test_build import cache, go

__all__ = ["cache", "go"]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def nothing_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.mark.usefixtures("cache")
def test_a_program_on_path_is_used_and_not_built(go: Path) -> None:
    for name in ("prometheus", "promtool"):
        program = go.parent / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert prometheus.main() == 0
    assert prometheus.find("promtool") == go.parent / "bin/promtool"
    assert not go.exists()


@pytest.mark.usefixtures("nothing_on_path")
def test_what_is_not_on_path_is_built_once(cache: Path, go: Path) -> None:
    assert prometheus.find("prometheus") is None
    assert [prometheus.main(), prometheus.main()] == [0, 0]
    assert go.read_text().count("built") == 2
    for name in ("prometheus", "promtool"):
        found = prometheus.find(name)
        assert found is not None
        assert found.is_relative_to(cache)


@pytest.mark.usefixtures("nothing_on_path", "cache", "go")
def test_a_build_that_fails_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "write a.out: no space left on device")
    assert prometheus.main() == 1
    assert "disk is full" in capsys.readouterr().err


@pytest.mark.usefixtures("cache")
def test_the_pin_of_prometheus_decides_over_its_own_folder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    control_plane, before = build.directory(), build.directory(prometheus.targets())
    assert before != control_plane
    original = build.pinned
    monkeypatch.setattr(build, "pinned", lambda module, path: "v9" if "prometheus" in path else original(module, path))
    assert build.directory(prometheus.targets()) != before
    assert build.directory() == control_plane


@pytest.mark.parametrize(("target", "built"), [("test", True), ("demo", False), ("bench", False)])
def test_only_the_tests_need_it(target: str, built: bool) -> None:
    told = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("tests.testbed.prometheus" in told) == built
