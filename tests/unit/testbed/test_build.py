"""The test bed's programs are found by the pins that made them, and people are told when there are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.testbed import build
from tests.testbed.cache import BuildError
from tests.unit.testbed.fakes import Fakes, fakes

__all__ = ["fakes"]


def test_missing_programs_are_one_line_that_names_make_testbed(fakes: Fakes) -> None:
    with pytest.raises(build.MissingProgramsError) as raised:
        build.locate()
    assert "make testbed" in str(raised.value)
    assert "etcd" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_pins_of_a_target_decide_over_its_own_folder_only(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {target.name: target.place for target in build.targets()}
    assert before == {target.name: target.place for target in build.targets()}
    assert {place.parent for place in before.values()} == {fakes.cache / "testbed"}
    original = build.pinned
    monkeypatch.setattr(build, "pinned", lambda module, path: "v3.9.9" if "helm" in path else original(module, path))
    changed = {target.name for target in build.targets() if target.place != before[target.name]}
    assert changed == {"helm"}


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
    with pytest.raises(BuildError, match=rf"{variable}=1\.2: the test bed has .*\b(1\.36|3)\b"):
        build.targets()


def test_a_build_puts_every_program_into_place_and_is_not_repeated(fakes: Fakes) -> None:
    for _ in range(2):
        with fakes.make("testbed") as made:
            assert made.wait(60) == 0, made.stdout
        assert len(fakes.made) == len(build.targets())
    binaries = build.locate()
    for program in build.PROGRAMS:
        path: Path = getattr(binaries, program.replace("-", "_"))
        assert path.name == program
        assert subprocess.run([path]).returncode == 0


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("dial tcp: lookup proxy.invalid: no such host", "GOPROXY=http://proxy.invalid"),
        ("verifying module: checksum mismatch", "do not trust that module proxy"),
        ("write a.out: no space left on device", "disk is full"),
    ],
)
def test_a_failed_build_says_why_and_leaves_no_program(output: str, advice: str, fakes: Fakes) -> None:
    (fakes.folder / "fails").write_text(output)
    with fakes.make("testbed") as made:
        said = made.communicate(timeout=60)[0]
    assert made.returncode == 1
    assert output in said
    assert advice in said
    with pytest.raises(build.MissingProgramsError):
        build.locate()


def test_without_go_and_without_an_environment_people_are_told_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(BuildError, match=r"no Go 1\.\d+\.\d+ or newer on PATH.*make \.venv"):
        build.find_go(build.targets()[0], lambda line: None)
