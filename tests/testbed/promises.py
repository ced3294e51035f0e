"""Lets tests wait for things that are made while the tests run.

Each name in ``python -m tests.testbed.make --meanwhile`` has a file in a folder that an environment variable names. The
process that makes the name locks the file until it is done, and writes the reason into the file if it fails. A killed
process releases its locks, so no test waits forever.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_FOLDER = "CHARTERER_BUILDS"
_KEPT = "made"


class Promise:
    """A promise that something will be made, or that its failure will be reported.

    Promises are made before tests start.
    """

    def __init__(self, name: str) -> None:
        self._file = (Path(os.environ[_FOLDER]) / name).open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def keep(self) -> None:
        """Keep the promise: the thing is made, or this machine cannot make it."""
        self._end(_KEPT)

    def break_(self, why: str) -> None:
        """Break the promise: the thing could not be made."""
        self._end(why)

    def _end(self, said: str) -> None:
        self._file.write(said)
        self._file.close()


@contextmanager
def made_here() -> Iterator[Mapping[str, str]]:
    """Create the folder of promises, and yield environment variables for processes that wait."""
    with tempfile.TemporaryDirectory(prefix="charterer-builds-") as folder:
        os.environ[_FOLDER] = folder
        try:
            yield {_FOLDER: folder}
        finally:
            del os.environ[_FOLDER]


def given(name: str) -> bool:
    """Return whether the thing was missing when the tests started. The answer is the same in all test processes."""
    folder = os.environ.get(_FOLDER)
    return folder is not None and (Path(folder) / name).exists()


def wait(name: str) -> str | None:
    """Wait until the promised thing is made. Return the reason if it failed, None if made or never promised."""
    if not given(name):
        return None
    with (Path(os.environ[_FOLDER]) / name).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        said = file.read()
    return None if said == _KEPT else said or f"{name} was not made: what made it has ended"
