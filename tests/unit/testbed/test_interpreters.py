"""An interpreter of another version is found wherever HOME is, and by all that look for one."""

from __future__ import annotations

import pwd
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.testbed import interpreters
from tests.testbed.interpreters import Interpreter


def install(root: Path, release: str) -> Path:
    """A Python in pyenv's folder."""
    version = release.rpartition(".")[0]
    program = root / "versions" / release / "bin" / f"python{version}"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho {root / 'versions' / release}; echo {version} {release}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, of a user who has none, with nothing on PATH."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path / "own")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "usr"))
    return tmp_path


PLACES = ["home/.pyenv", "own/.pyenv", "root", "beside"]


@pytest.mark.parametrize("place", PLACES)
def test_one_of_pyenv_is_found(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install(home / place, "3.99.4")
    if place == "root":
        monkeypatch.setenv("PYENV_ROOT", str(home / place))
    if place == "beside":
        monkeypatch.setenv("PATH", f"{home}/bin:{home / place}/shims")
    found = interpreters.find(["3.98", "3.99"])
    assert found == Interpreter(program, program.parent.parent, "3.99", "3.99.4")


def test_one_beside_ours_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install(home / "anywhere", "3.99.4")
    monkeypatch.setattr(sys, "base_prefix", str(home / "anywhere/versions/3.11.7"))
    found = interpreters.find(["3.99"])
    assert found is not None
    assert found.program == program


def test_one_on_path_that_does_not_run_is_passed_over(home: Path) -> None:
    (home / "bin").mkdir()
    (home / "bin/python3.99").write_text("#!/bin/sh\nexit 127\n")
    (home / "bin/python3.99").chmod(0o755)
    assert interpreters.find(["3.99"]) is None
    program = install(home / "own/.pyenv", "3.99.4")
    found = interpreters.find(["3.99"])
    assert found is not None
    assert found.program == program


def test_ours_is_one() -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = interpreters.find([version])
    assert found is not None
    assert found.program == Path(sys.executable)
