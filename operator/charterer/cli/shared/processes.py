"""Runs simulations in parallel processes, with a progress bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def side_by_side(tasks: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """The results of picklable tasks, in their order. ``processes``: None for one per core."""
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("simulating", total=len(tasks))
        if workers <= 1:
            return [_counted(task(), progress.advance, bar) for task in tasks]
        results: dict[int, T] = {}
        with ProcessPoolExecutor(workers) as pool:
            waiting = {pool.submit(task): at for at, task in enumerate(tasks)}
            for done in as_completed(waiting):
                results[waiting[done]] = _counted(done.result(), progress.advance, bar)
        return [results[at] for at in range(len(tasks))]


def _counted(result: T, advance: Callable[..., None], bar: object) -> T:
    advance(bar)
    return result
