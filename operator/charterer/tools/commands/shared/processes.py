"""Runs simulations in parallel processes, and says on stderr how far they are and how long they will take."""

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
"""Gets the fraction of a task that is done."""

_LOOK_SECONDS: Final = 0.5
_SAY_SECONDS: Final = 30.0
"""How often a line says how far it is, if stderr is no terminal."""
_STEPS: Final = 1000

_done: Any = None
"""In a process of the pool: the fraction of each task that is done, in memory that all share."""


class Interrupted(KeyboardInterrupt):
    """A person interrupted; ``results``: of the tasks that were done, by their number."""

    def __init__(self, results: Mapping[int, object]) -> None:
        super().__init__()
        self.results = results


def side_by_side(tasks: Sequence[Callable[[Tell], T]], processes: int | None = None) -> list[T]:
    """The results of picklable tasks, in their order. ``processes``: None for one per core. Interrupted."""
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
    """Prepare a process of the pool. It leaves an interrupt to the process that waits for it."""
    global _done
    _done = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(task: Callable[[Tell], T], at: int) -> T:
    def tell(part: float) -> None:
        _done[at] = part

    return task(tell)


class _Progress:
    """A bar on a terminal, and elsewhere a line every half minute."""

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
        """``part``: of all tasks; ``done``: how many have ended."""
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
    """The interrupts that came: one that is raised where it comes may break the locks of the pool."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ended_at_once(pool: ProcessPoolExecutor) -> Iterator[None]:
    """End the pool's processes if one task fails, or a person interrupts: each may have minutes of work left."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
            process.join()
        raise
