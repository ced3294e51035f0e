"""The test bed's programs are found by the pins that made them, and people are told when there are none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import build

FAKE_GO = """#!/bin/sh
# Stands for a go command: builds a program in no time, or fails as one without a network does.
case "$1 $2" in
"env GOVERSION") echo go99.1.0; exit;;
"env GOPROXY") echo http://proxy.invalid; exit;;
esac
[ -z "$FAKE_GO_FAILS" ] || { echo "$FAKE_GO_FAILS"; exit 1; }
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexit 0\\n' > "$2"
chmod +x "$2"
echo built >> "$FAKE_GO_BUILDS"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHARTERER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A go command first on PATH; gives the file with a line for each build it was asked for."""
    program = tmp_path / "bin/go"
    program.parent.mkdir()
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GO_BUILDS", str(tmp_path / "builds"))
    return tmp_path / "builds"


def test_missing_programs_are_one_line_that_names_make_testbed(cache: Path) -> None:
    with pytest.raises(build.MissingProgramsError) as raised:
        build.locate()
    assert "make testbed" in str(raised.value)
    assert "etcd" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_pins_decide_the_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.directory()
    assert before == build.directory()
    assert before.parent == cache / "testbed"
    monkeypatch.setattr(build, "pinned", lambda module, path: "v9.9.9")
    assert build.directory() != before


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("kubernetes", "helm"), [("1.36", "3"), ("1.37", "4")])
def test_a_version_is_chosen_by_the_environment(kubernetes: str, helm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARTERER_KUBERNETES", kubernetes)
    monkeypatch.setenv("CHARTERER_HELM", helm)
    modules = {target.module for target in build.targets()}
    assert modules == {f"go-kubernetes-{kubernetes}", "go-kwok", f"go-helm-{helm}"}


@pytest.mark.parametrize("variable", ["CHARTERER_KUBERNETES", "CHARTERER_HELM"])
def test_a_version_that_is_not_there_is_an_error_that_names_those_that_are(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1.2")
    with pytest.raises(build.BuildError, match=rf"{variable}=1\.2: the test bed has .*\b(1\.36|3)\b"):
        build.targets()


@pytest.mark.usefixtures("cache")
def test_a_build_puts_every_program_into_place_and_is_not_repeated(go: Path) -> None:
    binaries = build.build()
    assert go.read_text().count("built") == len(build.targets())
    for program in build.PROGRAMS:
        path: Path = getattr(binaries, program.replace("-", "_"))
        assert path.name == program
        assert subprocess.run([path]).returncode == 0
    build.build()
    assert go.read_text().count("built") == len(build.targets())


def test_two_builds_at_once_build_once(cache: Path, go: Path) -> None:
    builds = [subprocess.Popen([sys.executable, build.__file__]) for _ in range(2)]
    assert [process.wait(30) for process in builds] == [0, 0]
    assert go.read_text().count("built") == len(build.targets())


@pytest.mark.usefixtures("go")
def test_given_programs_are_used_and_only_the_others_built(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for program in ("etcd", "kube-apiserver", "kubectl"):
        (assets / program).write_text("#!/bin/sh\n")
        (assets / program).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    binaries = build.build()
    assert binaries.etcd == assets / "etcd"
    assert binaries.kubectl == assets / "kubectl"
    assert binaries.kube_scheduler == build.directory() / "kube-scheduler"
    assert not (build.directory() / "kubectl").exists()


@pytest.mark.usefixtures("cache", "go")
@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("dial tcp: lookup proxy.invalid: no such host", "GOPROXY=http://proxy.invalid"),
        ("verifying module: checksum mismatch", "do not trust that module proxy"),
        ("write a.out: no space left on device", "disk is full"),
    ],
)
def test_a_failed_build_says_why_and_leaves_no_program(
    output: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", output)
    with pytest.raises(build.BuildError) as raised:
        build.build()
    assert output in str(raised.value)
    assert advice in str(raised.value)
    with pytest.raises(build.MissingProgramsError):
        build.locate()


@pytest.mark.usefixtures("cache")
def test_without_go_and_without_an_environment_people_are_told_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(build.BuildError, match=r"no Go 1\.\d+\.\d+ or newer on PATH.*make \.venv"):
        build.find_go(build.targets())
