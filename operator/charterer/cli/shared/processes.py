"""Runs simulations in parallel processes, with a progress bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children
from typing import TypeVar

import click

T = TypeVar("T")


def side_by_side(tasks: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """The results of picklable tasks, in their order. ``processes``: None for one per core."""
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    off = not sys.stderr.isatty()
    with click.progressbar(length=len(tasks), label="simulating", file=sys.stderr, hidden=off) as bar:
        results: dict[int, T] = {}
        if workers <= 1:
            for at, task in enumerate(tasks):
                results[at] = task()
                bar.update(1)
        else:
            with ProcessPoolExecutor(workers) as pool, _ended_at_once(pool):
                waiting = {pool.submit(task): at for at, task in enumerate(tasks)}
                for done in as_completed(waiting):
                    results[waiting[done]] = done.result()
                    bar.update(1)
    return [results[at] for at in range(len(tasks))]


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
