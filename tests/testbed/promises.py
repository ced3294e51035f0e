"""What is being made while tests run, and how a test waits for it.

Each name that ``python -m tests.testbed.make --meanwhile`` is to make is a file of a folder that the environment names.
The process that makes it holds the file's lock until it is made or has failed, and writes there why it failed. A
process that is killed lets go of its locks: nobody waits for ever.
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
    """That something will be made, or told why not. It is given before the tests start."""

    def __init__(self, name: str) -> None:
        self._file = (Path(os.environ[_FOLDER]) / name).open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def keep(self) -> None:
        """It is made, or this machine cannot make it."""
        self._end(_KEPT)

    def break_(self, why: str) -> None:
        """It could not be made."""
        self._end(why)

    def _end(self, said: str) -> None:
        self._file.write(said)
        self._file.close()


@contextmanager
def made_here() -> Iterator[Mapping[str, str]]:
    """Promises can be given; yields the environment of who may wait for them."""
    with tempfile.TemporaryDirectory(prefix="charterer-builds-") as folder:
        os.environ[_FOLDER] = folder
        try:
            yield {_FOLDER: folder}
        finally:
            del os.environ[_FOLDER]


def given(name: str) -> bool:
    """Whether it was still to be made when the tests started: the same answer for all that run them."""
    folder = os.environ.get(_FOLDER)
    return folder is not None and (Path(folder) / name).exists()


def wait(name: str) -> str | None:
    """Until what was promised is made; why it could not be, if so. None at once where nothing was promised."""
    if not given(name):
        return None
    with (Path(os.environ[_FOLDER]) / name).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        said = file.read()
    return None if said == _KEPT else said or f"{name} was not made: what made it has ended"
