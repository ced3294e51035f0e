"""Which lane has a test, and what a run tells of where its seconds went."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import lanes
from tests.durations import SLOWEST, Durations
from tests.lanes import Lane, belongs, in_no_lane, may_hold


def item(*marks: str, fixtures: tuple[str, ...] = (), path: Path = Path()) -> pytest.Item:
    """A test with these marks and fixtures."""
    made = SimpleNamespace(get_closest_marker=lambda name: name in marks, fixturenames=fixtures, path=path)
    return cast(pytest.Item, made)


def lanes_of(test: pytest.Item) -> set[str]:
    return {lane.value for lane in Lane if belongs(test, lane)}


@pytest.mark.parametrize(
    ("test", "lanes"),
    [
        pytest.param(item(), {"check", "test", "long"}, id="plain"),
        pytest.param(item("long"), {"rest", "test", "long"}, id="long"),
        pytest.param(item("slow"), {"rest", "test", "long"}, id="slow"),
        pytest.param(item("programs"), {"rest", "test", "long"}, id="with a program"),
        pytest.param(item(fixtures=("tmp_path", "control_plane")), {"rest", "test", "long"}, id="with a control plane"),
        pytest.param(item("repeats"), {"long"}, id="a repetition"),
        pytest.param(item("repeats", "programs"), {"long"}, id="a repetition with a program"),
    ],
)
def test_make_test_has_what_check_and_rest_have_and_only_the_long_lane_repetitions(
    test: pytest.Item, lanes: set[str]
) -> None:
    assert lanes_of(test) == lanes


@pytest.mark.parametrize(
    ("folder", "text", "seen"),
    [
        ("unit", "def test_it() -> None: ...", False),
        ("scenarios/policy", "# a long cluster of words", False),
        ("unit", "@pytest.mark.slow\ndef test_it() -> None: ...", True),
        ("property", "pytestmark = pytest.mark.long", True),
        ("unit", "async def test_it(browser: Browser) -> None: ...", True),
        ("unit", '@pytest.mark.usefixtures("promtool")', True),
        ("contract", "async def test_it(kube: Client) -> None: ...", True),
    ],
)
def test_after_check_a_quick_folders_file_is_only_read_unless_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, text: str, seen: bool
) -> None:
    monkeypatch.setattr(lanes, "_TESTS", tmp_path)
    path = tmp_path / folder / "test_a.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert may_hold(path, Lane.REST) is seen
    assert all(may_hold(path, lane) for lane in Lane if lane is not Lane.REST)
    assert in_no_lane(item("slow", path=path)) is not seen
    assert not in_no_lane(item(path=path))


def report(test: str, when: str, seconds: float, **properties: float) -> pytest.TestReport:
    """What a worker reports of a phase."""
    words: Any = ("", 0, "")
    return pytest.TestReport(
        test, words, {}, "passed", None, cast(Any, when), duration=seconds, user_properties=[*properties.items()]
    )


def test_a_tests_seconds_are_those_of_its_phases_and_folders_add_them_up() -> None:
    durations = Durations()
    for test, seconds in (("tests/unit/a/test_a.py::one", 2.0), ("tests/unit/a/test_b.py::two", 1.0)):
        durations.pytest_runtest_logreport(report(test, "setup", 0.25))
        durations.pytest_runtest_logreport(report(test, "call", seconds))
        durations.pytest_runtest_logreport(report(test, "teardown", 0.25, processor=seconds / 2))
    durations.pytest_runtest_logreport(report("tests/cluster/test_c.py::three", "call", 9.0))
    assert [" ".join(line.split()) for line in durations.slowest()] == [
        "9.0 s 0.0 s of processor tests/cluster/test_c.py::three",
        "2.5 s 1.0 s of processor tests/unit/a/test_a.py::one",
        "1.5 s 0.5 s of processor tests/unit/a/test_b.py::two",
    ]
    assert [" ".join(line.split()) for line in durations.by_folder()] == [
        "9.0 s 0.0 s of processor 1 tests tests/cluster",
        "4.0 s 1.5 s of processor 2 tests tests/unit/a",
        "13.0 s 1.5 s of processor 3 tests all",
    ]


def test_only_the_slowest_are_told() -> None:
    durations = Durations()
    for number in range(SLOWEST + 5):
        durations.pytest_runtest_logreport(report(f"tests/unit/test_a.py::{number:03}", "call", number))
    assert len(durations.slowest()) == SLOWEST
    assert durations.slowest()[0].endswith(f"{SLOWEST + 4:03}")
