"""A cache of things made once per machine for all checkouts: programs, environments, images, Debian packages.

Each entry is a ``Thing``. ``ensure`` makes a missing thing under a lock, and checks again once it has the lock. If
several processes need a thing, one makes it and the others wait. A thing is made beside its place and then renamed, so
an existing thing is complete. A killed process releases its lock, and the next process deletes its partial files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]
"""A callback that shows a line to the user or writes it to a log."""


class BuildError(Exception):
    """Something could not be made. The message gives the thing, the reason and the remedy."""


class UnsuitableError(BuildError):
    """This machine cannot make a thing. The message is one line that names what it lacks."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something to make. ``seconds`` is the time of ``make`` on two idle cores without a cache, for estimates."""

    name: str
    seconds: int
    lock: Path
    ready: Callable[[], bool]
    make: Callable[[Say], None]


def cache_directory() -> Path:
    """Return the folder of everything that is made once per machine."""
    if own := os.environ.get("CHARTERER_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "charterer"


def in_cache(
    name: str, place: Path, seconds: int, fill: Callable[[Path, Say], None], lock: Path | None = None
) -> Thing:
    """Return a folder of the cache as a Thing.

    ``fill`` makes it at a temporary path, and it is then moved to ``place``.
    """

    def make(say: Say) -> None:
        partial = place.with_name(f".{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        fill(partial, say)
        partial.rename(place)

    return Thing(name, seconds, lock or place.with_name(f".{place.name}.lock"), place.exists, make)


def ensure(thing: Thing, say: Say) -> None:
    """Make the thing if it is missing. Raises BuildError."""
    if thing.ready():
        return
    with locked(thing.lock, thing.name, say):
        if not thing.ready():
            thing.make(say)


@contextmanager
def locked(lock: Path, name: str, say: Say) -> Iterator[None]:
    """Wait for a lock of this machine and hold it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is making it; waiting for that one")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
