"""What is shown while things are made: which, for how long, and how long it will still take."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from tests.testbed.cache import BuildError, Say, Thing
from tests.testbed.progress import Progress


class Clock:
    """time.monotonic(), which stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Terminal(io.StringIO):
    """An output that can move back to the begin of the line."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def things(folder: Path, clock: Clock, seen: list[str], **taken: tuple[int, int]) -> list[Thing]:
    """Of each name: what it usually takes, and what it takes; in the middle ``seen`` gets the line that is shown."""
    made: list[Thing] = []
    shown = Progress(made, io.StringIO())

    def thing(name: str, usual: int, takes: int) -> Thing:
        def make(say: Say) -> None:
            clock.now += takes / 2
            seen.append(shown.line(clock.now))
            clock.now += takes / 2

        return Thing(name, usual, folder / name, lambda: False, make)

    made += [thing(name, *times) for name, times in taken.items()]
    shown.run()
    return made


def test_what_is_left_is_what_each_usually_takes(tmp_path: Path, clock: Clock) -> None:
    seen: list[str] = []
    things(tmp_path, clock, seen, kube=(320, 320), kwok=(80, 80))
    assert seen == ["kube (1 of 2): 2:40, about 4 min left", "kwok (2 of 2): 0:40, about 40 s left"]


def test_a_machine_that_was_slow_with_the_first_is_slow_with_the_second(tmp_path: Path, clock: Clock) -> None:
    seen: list[str] = []
    things(tmp_path, clock, seen, kube=(300, 900), kwok=(100, 100))
    assert seen[0] == "kube (1 of 2): 7:30, longer than the usual 5 min; then about 2 min"
    assert seen[1] == "kwok (2 of 2): 0:50, about 4 min left"


def test_one_that_takes_longer_is_not_said_to_be_nearly_ready(tmp_path: Path, clock: Clock) -> None:
    seen: list[str] = []
    things(tmp_path, clock, seen, helm=(60, 300))
    assert seen == ["helm (1 of 1): 2:30, longer than the usual 60 s"]


@pytest.mark.parametrize("output", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_lines_that_stay_are_whole(output: io.StringIO, tmp_path: Path) -> None:
    def make(say: Say) -> None:
        say("helm: building from source")

    Progress([Thing("helm", 60, tmp_path / "lock", lambda: False, make)], output).run()
    lines = [line.rpartition("\r\x1b[K")[2] for line in output.getvalue().removesuffix("\r\x1b[K").split("\n")]
    assert lines == ["builds: helm: building from source", "builds: ready after 1 s: helm", ""]


def test_a_failure_is_not_said_to_be_ready(tmp_path: Path) -> None:
    def make(say: Say) -> None:
        raise BuildError("no")

    output = io.StringIO()
    with pytest.raises(BuildError):
        Progress([Thing("helm", 60, tmp_path / "lock", lambda: False, make)], output).run()
    assert output.getvalue() == ""
