"""Simulations in parallel processes end when they are to end."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import active_children

import pytest

from charterer.tools.commands.shared.processes import Interrupted, Tell, side_by_side


def _number(tell: Tell) -> int:
    tell(0.5)
    return 7


def _fails(tell: Tell) -> int:
    raise ValueError("of no use")


def _goes_on_for_ever(tell: Tell) -> int:
    while True:
        signal.pause()


def _living() -> list[int]:
    """The processes that are there. The pool's own thread may have waited for one, of which nobody else hears then."""
    pids = [child.pid for child in active_children() if child.pid is not None]
    return [pid for pid in pids if _is_there(pid)]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert side_by_side([_number, _number, _number], processes=2) == [7, 7, 7]


def test_when_one_fails_the_others_are_not_waited_for() -> None:
    """As when a person interrupts."""
    with pytest.raises(ValueError, match="of no use"):
        side_by_side([_goes_on_for_ever, _fails], processes=2)
    assert _living() == []


def _interrupts(tell: Tell) -> int:
    """Interrupt the process that waits, as Ctrl-C does, once the other task has had its time."""
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
    return 0


def test_an_interrupt_keeps_what_there_is() -> None:
    with pytest.raises(Interrupted) as interrupted:
        side_by_side([_number, _interrupts], processes=2)
    assert interrupted.value.results == {0: 7}
    assert _living() == []


def _interrupted(tell: Tell) -> int:
    raise KeyboardInterrupt


def test_an_interrupt_of_one_process_keeps_what_there_is() -> None:
    with pytest.raises(Interrupted) as interrupted:
        side_by_side([_number, _interrupted], processes=1)
    assert interrupted.value.results == {0: 7}


def test_without_a_terminal_a_line_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, *(60.0 * minute for minute in range(1, 9))])
    monkeypatch.setattr("charterer.tools.commands.shared.processes.time.monotonic", lambda: next(times))
    side_by_side([_number, _number], processes=1)
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "simulating: 25%, 0 of 2 done, about 3 min left"
