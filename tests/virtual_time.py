"""An event loop whose clock stands still while something can run, and jumps to the next timer when nothing can."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """A selector that moves the clock on instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("every task waits for something that no timer brings")
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Seconds pass only in ``asyncio.sleep`` and the like, at once, and by ``advance``."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def advance(self, seconds: float) -> None:
        """Let time pass, as a computation would."""
        self._jumping.now += seconds


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run until it is done, without waiting."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def clock() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()


def advance(seconds: float) -> None:
    """Let the running loop's time pass."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.advance(seconds)


async def run_for(seconds: float, main: Coroutine[Any, Any, object]) -> None:
    """Run something that never ends for that long."""
    task = asyncio.create_task(main)
    await asyncio.sleep(seconds)
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
