"""Processes of our programs, forked from a server that has imported all modules, because imports take seconds.

Each process has its own signals, arguments, environment and output. Each ends with the process that started it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "charterer.app",
        "charterer.tools.fakecloud.main",
        "charterer.providers.fake",
        "charterer.providers.aws.cloud",
        "charterer.providers.azure.cloud",
        "charterer.providers.gcp.cloud",
        "charterer.providers.karpenter.provider",
        *(f"charterer.tools.commands.{command}" for command in ("doctor", "explain", "plan", "predict", "preflight")),
        "charterer.cli.run",
        "tests.testbed.operators",
    ]
)


def fork(target: Callable[..., None], *arguments: object, out: Path, err: Path) -> BaseProcess:
    """Fork a process that calls ``target``, with this process's environment. Its output is appended to files.

    Target and arguments must be picklable.
    """
    process = _FORKS.Process(target=_begin, args=(target, arguments, out, err, dict(os.environ)), daemon=True)
    process.start()
    return process


def fork_charterer(*arguments: str, out: Path, err: Path, folder: Path | None = None) -> BaseProcess:
    """Run ``charterer`` with these arguments, in this folder."""
    return fork(_charterer, arguments, folder, out=out, err=err)


def _charterer(arguments: tuple[str, ...], folder: Path | None) -> None:
    from charterer.cli import main

    if folder is not None:
        os.chdir(folder)
    sys.argv = ["charterer", *arguments]
    main()


def _begin(
    target: Callable[..., None], arguments: tuple[object, ...], out: Path, err: Path, environment: Mapping[str, str]
) -> None:
    threading.Thread(target=_end_with_starter, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        with path.open("a") as file:
            os.dup2(file.fileno(), stream.fileno())
    target(*arguments)


def _end_with_starter() -> None:
    starter = multiprocessing.parent_process()
    assert starter is not None
    starter.join()
    os.kill(os.getpid(), signal.SIGKILL)
