"""What is made once per machine is made once, whole, and for all that ask at a time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.testbed import cache
from tests.testbed.cache import BuildError, Say, in_cache
from tests.unit.testbed.fakes import Fakes, fakes

__all__ = ["fakes"]

AT_ONCE = [("testbed", 4), ("karpenter", 1), ("job-controllers", 2), ("training", 4), ("prometheus", 2)]
"""Names, and how often go or uv is asked to make something."""


def say(line: str) -> None:
    """To nobody."""


@pytest.mark.parametrize(("name", "times"), AT_ONCE, ids=[name for name, _ in AT_ONCE])
def test_two_processes_that_make_the_same_at_a_time_both_end_well_and_it_is_made_once(
    name: str, times: int, fakes: Fakes
) -> None:
    fakes.wait(True)
    with fakes.make(name) as first:
        assert first.stdout is not None
        while not fakes.made:
            assert first.poll() is None, first.stdout.read()
        with fakes.make(name) as second:
            assert second.stdout is not None
            next(line for line in second.stdout if "another process is making it" in line)
            fakes.wait(False)
            assert second.wait(60) == 0, second.stdout.read()
        assert first.wait(60) == 0, first.stdout.read()
    assert len(fakes.made) == times
    with fakes.make(name) as third:
        assert third.wait(60) == 0
    assert len(fakes.made) == times


def test_what_a_killed_process_left_half_made_is_made_again(fakes: Fakes) -> None:
    fakes.wait(True)
    with fakes.make("karpenter") as first:
        while not fakes.made:
            assert first.poll() is None
        first.send_signal(signal.SIGKILL)
    fakes.wait(False)
    with fakes.make("karpenter") as second:
        assert second.wait(60) == 0
    (program,) = fakes.cache.glob("testbed/karpenter-*/karpenter")
    assert [path.name for path in (program.parent / "crds").iterdir()] == ["an_object.yaml"]


def test_what_fails_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    tries: list[Path] = []

    def fill(into: Path, say: Say) -> None:
        tries.append(into)
        into.mkdir()
        (into / f"file-{len(tries)}").touch()
        if len(tries) == 1:
            raise BuildError("no")

    thing = in_cache("it", tmp_path / "it", 1, fill)
    with pytest.raises(BuildError, match="no"):
        cache.ensure(thing, say)
    assert not thing.ready()
    cache.ensure(thing, say)
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["file-2"]
    cache.ensure(thing, say)
    assert len(tries) == 2
