"""Prometheus' programs: those on PATH, else in the cache, apart from what the demo needs."""

from __future__ import annotations

import subprocess

import pytest

from tests.testbed import build, prometheus
from tests.unit.testbed.fakes import ROOT, Fakes, fakes, put

__all__ = ["fakes"]


def test_a_program_on_path_is_used_and_not_made(fakes: Fakes) -> None:
    for name in ("prometheus", "promtool"):
        put(fakes.folder / "bin" / name, f"{name}, version 2.42.0+ds")
    with fakes.make("prometheus") as made:
        assert made.wait(60) == 0
    assert prometheus.find("promtool") == fakes.folder / "bin/promtool"
    assert fakes.made == []


def test_what_is_too_old_or_not_there_is_made_once(fakes: Fakes) -> None:
    put(fakes.folder / "bin/prometheus", "prometheus, version 2.24.1")
    assert prometheus.find("prometheus") is None
    for _ in range(2):
        with fakes.make("prometheus") as made:
            assert made.wait(60) == 0
        assert len(fakes.made) == 2
    for name in ("prometheus", "promtool"):
        found = prometheus.find(name)
        assert found is not None
        assert found.is_relative_to(fakes.cache)


def test_debians_package_is_unpacked_where_there_is_one(fakes: Fakes) -> None:
    put(fakes.folder / "bin/apt-get", "")
    (fakes.folder / "bin/apt-get").write_text('#!/bin/sh\necho "$*" > "$FAKES/apt"; echo > prometheus_2.deb\n')
    extract = """#!/bin/sh
for name in prometheus promtool; do
  /bin/mkdir -p "$3/usr/bin"
  printf '#!/bin/sh\\necho version 2.42.0\\n' > "$3/usr/bin/$name"
  chmod +x "$3/usr/bin/$name"
done
"""
    put(fakes.folder / "bin/dpkg-deb", "")
    (fakes.folder / "bin/dpkg-deb").write_text(extract)
    with fakes.make("prometheus") as made:
        said = made.communicate(timeout=60)[0]
    assert made.returncode == 0, said
    assert (fakes.folder / "apt").read_text() == "download --quiet=2 prometheus\n"
    assert fakes.made == []
    found = prometheus.find("promtool")
    assert found is not None
    assert sorted(path.name for path in found.parent.iterdir()) == ["prometheus", "promtool"]


def test_a_build_that_fails_is_one_message(fakes: Fakes) -> None:
    (fakes.folder / "fails").write_text("write a.out: no space left on device")
    with fakes.make("prometheus") as made:
        said = made.communicate(timeout=60)[0]
    assert made.returncode == 1
    assert "disk is full" in said


def test_the_pin_of_prometheus_decides_over_its_own_folder_only(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    control_plane, before = [target.place for target in build.targets()], prometheus.place()
    original = build.pinned
    monkeypatch.setattr(build, "pinned", lambda module, path: "v9" if "prometheus" in path else original(module, path))
    assert prometheus.place() != before
    assert [target.place for target in build.targets()] == control_plane


@pytest.mark.parametrize(("target", "made"), [("test", True), ("demo", False), ("bench", False)])
def test_only_the_tests_need_it(target: str, made: bool) -> None:
    told = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("prometheus" in told) == made
