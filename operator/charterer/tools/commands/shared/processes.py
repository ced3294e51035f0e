"""Runs simulations in parallel processes, and reports progress and remaining time on stderr."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import Array, active_children
from typing import Any, Final, TypeAlias, TypeVar

import click

T = TypeVar("T")
Tell: TypeAlias = Callable[[float], None]
"""A callback that gets the fraction of a task that is done."""

_LOOK_SECONDS: Final = 0.5
_SAY_SECONDS: Final = 30.0
"""Seconds between lines of progress if stderr is no terminal."""
_STEPS: Final = 1000

_done: Any = None
"""In a worker process, the shared memory with the fraction done of each task."""


class Interrupted(KeyboardInterrupt):
    """A person interrupted. ``results`` maps the number of each finished task to its result."""

    def __init__(self, results: Mapping[int, object]) -> None:
        super().__init__()
        self.results = results


def side_by_side(tasks: Sequence[Callable[[Tell], T]], processes: int | None = None) -> list[T]:
    """Run picklable tasks and return their results in order. ``processes`` None means one per core.

    Raises Interrupted.
    """
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    results: dict[int, T] = {}
    with _Progress(len(tasks)) as progress:
        try:
            if workers <= 1:
                for at, task in enumerate(tasks):
                    results[at] = task(lambda part, at=at: progress.show((at + part) / len(tasks), at))  # type: ignore[misc]
                    progress.show((at + 1) / len(tasks), at + 1)
            else:
                shared = Array("d", len(tasks), lock=False)
                begun = ProcessPoolExecutor(workers, initializer=_begin, initargs=(shared,))
                with _interrupts_noted() as interrupts, begun as pool, _ended_at_once(pool):
                    waiting: dict[Future[T], int] = {pool.submit(_run, task, at): at for at, task in enumerate(tasks)}
                    while len(results) < len(tasks):
                        ended, _ = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                        if interrupts:
                            raise KeyboardInterrupt
                        for future in ended:
                            results[at := waiting.pop(future)] = future.result()
                            shared[at] = 1.0
                        progress.show(sum(shared) / len(tasks), len(results))
        except KeyboardInterrupt:
            raise Interrupted(results) from None
    return [results[at] for at in range(len(tasks))]


def _begin(shared: Any) -> None:
    """Prepare a worker process. The worker ignores SIGINT, because the parent process handles it."""
    global _done
    _done = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(task: Callable[[Tell], T], at: int) -> T:
    def tell(part: float) -> None:
        _done[at] = part

    return task(tell)


class _Progress:
    """A progress bar on a terminal, otherwise a line every half minute."""

    def __init__(self, tasks: int) -> None:
        self._tasks, self._begun, self._shown = tasks, time.monotonic(), 0
        self._said = self._begun
        self._terminal = sys.stderr.isatty()
        self._bar = click.progressbar(length=_STEPS, label="simulating", file=sys.stderr, hidden=not self._terminal)

    def __enter__(self) -> _Progress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)

    def show(self, part: float, done: int) -> None:
        """Show progress. ``part`` is the fraction of all tasks, ``done`` the number of finished tasks."""
        steps = int(part * _STEPS)
        if steps > self._shown:
            self._bar.update(steps - self._shown)
            self._shown = steps
        now = time.monotonic()
        if not self._terminal and now - self._said >= _SAY_SECONDS:
            self._said = now
            left = f", about {(now - self._begun) * (1 - part) / part / 60:.0f} min left" if part > 0 else ""
            click.echo(f"simulating: {part:.0%}, {done} of {self._tasks} done{left}", err=True)


@contextmanager
def _interrupts_noted() -> Iterator[Sequence[int]]:
    """Collect SIGINT signals. A KeyboardInterrupt at an arbitrary point of the program could break the locks of the
    pool.
    """
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ended_at_once(pool: ProcessPoolExecutor) -> Iterator[None]:
    """If a task fails or a person interrupts, end the pool's processes, which may have minutes of work left."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
            process.join()
        raise
