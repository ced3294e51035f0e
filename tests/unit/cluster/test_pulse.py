"""When a leader counts as one that cannot act."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from charterer.cluster.errors import Forbidden, Unreachable
from charterer.cluster.lease import Pulse


class _Over(Exception):
    """The course has ended."""


class Course:
    """What happens at each question, one second after the other."""

    def __init__(self, *answers: Exception | None) -> None:
        self.now = 100.0
        self.silences: list[float] = []
        self._answers: Iterator[Exception | None] = iter(answers)
        self.pulse = Pulse(clock=lambda: self.now)

    async def ask(self) -> None:
        self.silences.append(self.pulse.silence())
        self.now += 1.0
        answer = next(self._answers, _Over())
        if answer is not None:
            raise answer


@pytest.mark.parametrize(
    ("answers", "silences"),
    [
        ((None, None, None), [0, 0, 0, 0]),
        ((None, Unreachable("GET", "/", 0, "NotConnected", "no files"), None), [0, 0, 1, 0]),
        ((Unreachable("GET", "/", 0, "NoAnswer", "late"),) * 3, [0, 1, 2, 3]),
        ((Forbidden("GET", "/", 403, "Forbidden", "no"), Unreachable("GET", "/", 503, "", "busy")), [0, 0, 0]),
    ],
)
async def test_only_calls_without_any_answer_add_to_the_silence(
    answers: tuple[Exception | None, ...], silences: list[float]
) -> None:
    course = Course(*answers)
    assert course.pulse.silence() == 0
    with pytest.raises(_Over):
        await course.pulse.beat(course.ask, 0.0)
    assert course.silences == silences


async def test_a_loop_that_hangs_is_silent() -> None:
    course = Course(None)
    with pytest.raises(_Over):
        await course.pulse.beat(course.ask, 0.0)
    course.now += 40.0
    assert course.pulse.silence() >= 40.0
