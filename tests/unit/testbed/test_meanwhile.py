"""What is made while tests run: they wait for what they need, and a failure reaches them in its own words."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import promises
from tests.unit.testbed.fakes import ROOT, Fakes, fakes

__all__ = ["fakes"]

WAITS = """
import sys
from tests.testbed import promises
print("begun", flush=True)
print("why:", promises.wait("karpenter"), flush=True)
"""
TESTS = """
import os, pathlib
import pytest
from tests import awaited
from tests.testbed import karpenter

@pytest.mark.needs("karpenter")
@pytest.mark.timeout(1)
def test_that_needs_it(request):
    files = awaited.have("karpenter", karpenter.find, "nobody makes it")
    assert files.program.exists()
    assert request.node.get_closest_marker("timeout").args[0] == 1801

def test_that_needs_nothing():
    (pathlib.Path(os.environ["FAKES"]) / "wait").unlink(missing_ok=True)
"""
"""The second lets the build go on: it must run first."""


def meanwhile(fakes: Fakes, *command: str) -> subprocess.Popen[str]:
    """Karpenter is made while the command runs."""
    return fakes.make("--meanwhile", "karpenter", "--", *command)


def pytest_of(fakes: Fakes, folder: Path) -> list[str]:
    """The command that runs TESTS below this project's conftest."""
    file = folder / "test_needs.py"
    file.write_text(TESTS)
    options = ("-q", "-n", "0", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    return [sys.executable, "-m", "pytest", *options, str(file)]


def test_who_needs_it_waits_until_it_is_made(fakes: Fakes) -> None:
    fakes.wait(True)
    with meanwhile(fakes, sys.executable, "-c", WAITS) as made:
        assert made.stdout is not None
        lines = iter(made.stdout.readline, "")
        next(line for line in lines if line == "begun\n")
        while not fakes.made:
            assert made.poll() is None
        fakes.wait(False)
        assert "why: None\n" in list(lines)
    assert made.returncode == 0


def test_a_failure_reaches_who_needs_it_and_the_end_of_the_run(fakes: Fakes) -> None:
    (fakes.folder / "fails").write_text("write a.out: no space left on device")
    with meanwhile(fakes, sys.executable, "-c", WAITS) as made:
        said = made.communicate(timeout=60)[0]
    assert "why: building karpenter failed" in said
    assert said.count("disk is full") == 2
    assert "builds: karpenter failed: building karpenter failed" in said
    assert made.returncode == 1


def test_the_exit_status_is_that_of_the_command(fakes: Fakes) -> None:
    with meanwhile(fakes, sys.executable, "-c", "raise SystemExit(5)") as made:
        assert made.wait(60) == 5
    with meanwhile(fakes, sys.executable, "-c", "") as made:
        said = made.communicate(timeout=60)[0]
    assert (made.returncode, said) == (0, "")  # there is nothing to make any more


def test_nobody_waits_for_one_that_was_killed(fakes: Fakes) -> None:
    fakes.wait(True)
    with meanwhile(fakes, sys.executable, "-c", WAITS) as made:
        assert made.stdout is not None
        lines = iter(made.stdout.readline, "")
        next(line for line in lines if line == "begun\n")
        made.send_signal(signal.SIGKILL)
        assert "why: karpenter was not made: what made it has ended\n" in list(lines)
    fakes.wait(False)


def test_what_this_machine_cannot_make_is_promised_to_nobody(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHARTERER_BUILDS", raising=False)
    assert promises.wait("karpenter") is None
    assert not promises.given("karpenter")


def test_a_test_that_needs_it_runs_last_and_has_time_to_wait(fakes: Fakes, tmp_path: Path) -> None:
    fakes.wait(True)
    with meanwhile(fakes, *pytest_of(fakes, tmp_path)) as made:
        said = made.communicate(timeout=120)[0]
    assert made.returncode == 0, said
    assert "2 passed" in said


def test_a_test_that_needs_it_fails_in_the_words_of_the_build(fakes: Fakes, tmp_path: Path) -> None:
    (fakes.folder / "fails").write_text("write a.out: no space left on device")
    with meanwhile(fakes, *pytest_of(fakes, tmp_path)) as made:
        said = made.communicate(timeout=120)[0]
    assert made.returncode == 1
    assert "1 failed, 1 passed" in said
    assert "karpenter could not be made: building karpenter failed" in said


def test_a_test_that_needs_what_nobody_makes_is_skipped_in_words(fakes: Fakes, tmp_path: Path) -> None:
    done = subprocess.run(pytest_of(fakes, tmp_path), cwd=ROOT, env=fakes.environment, capture_output=True, text=True)
    assert "1 passed, 1 skipped" in done.stdout
    assert "nobody makes it" in done.stdout
