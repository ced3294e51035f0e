"""Where a run's seconds go: the slowest tests and the sum by folder, at the end of every run of many tests.

A test's seconds are those of its set-up, call and tear-down, on the clock of the worker that ran it. Its processor
seconds are those of the worker itself, without the programs that it started. Both are in the file of ``--junitxml``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Generator
from pathlib import PurePosixPath
from typing import Any, Final

import pytest

SLOWEST: Final = 25
FEWEST: Final = 50
"""A run of fewer tests prints nothing of this."""
_PROCESSOR: Final = "processor"


class Durations:
    """The seconds of the tests that the process has heard of: with pytest-xdist, the one that started the workers."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._processor: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Begin to count the processor seconds of a test."""
        item.stash[_BEGUN] = time.process_time()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the processor seconds of a test into the report of its end."""
        report = yield
        if report.when == "teardown":
            report.user_properties.append((_PROCESSOR, round(time.process_time() - item.stash[_BEGUN], 3)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a phase."""
        properties: dict[str, Any] = dict(report.user_properties)
        self._seconds[report.nodeid] += report.duration
        self._processor[report.nodeid] += properties.get(_PROCESSOR, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both tables."""
        if len(self._seconds) >= FEWEST:
            for title, lines in (("slowest tests", self.slowest()), ("seconds by folder", self.by_folder())):
                terminalreporter.section(title)
                for line in lines:
                    terminalreporter.write_line(line)

    def slowest(self) -> list[str]:
        """A line for each of the slowest tests, the slowest first: seconds, processor seconds, name."""
        return [
            f"{seconds:7.1f} s {self._processor[test]:7.1f} s of processor  {test}"
            for test, seconds in sorted(self._seconds.items(), key=lambda entry: -entry[1])[:SLOWEST]
        ]

    def by_folder(self) -> list[str]:
        """A line for each folder, two levels deep, the slowest first, and one for all."""
        tests: defaultdict[str, list[str]] = defaultdict(list)
        for test in self._seconds:
            tests["/".join(PurePosixPath(test.partition("::")[0]).parent.parts[:3])].append(test)
        rows = [(folder, len(those), *self._sums(those)) for folder, those in tests.items()]
        rows.sort(key=lambda row: -row[2])
        return [_folder_line(*row) for row in (*rows, ("all", len(self._seconds), *self._sums(self._seconds)))]

    def _sums(self, tests: Collection[str]) -> tuple[float, float]:
        return sum(self._seconds[test] for test in tests), sum(self._processor[test] for test in tests)


_BEGUN = pytest.StashKey[float]()


def _folder_line(folder: str, tests: int, seconds: float, processor: float) -> str:
    return f"{seconds:7.1f} s {processor:7.1f} s of processor  {tests:5d} tests  {folder}"
