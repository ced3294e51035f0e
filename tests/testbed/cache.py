"""What is made once per machine, for every checkout of it: programs, environments, images, packages of Debian.

Each is a ``Thing``. ``ensure`` makes it under its lock unless it is there, and looks again once it has the lock:
however many processes ask at a time, one makes it, and all find it. What lies in the cache is made beside its place and
moved there whole, so that what is there is what works. A process that is killed leaves no lock, and what it left half
made is deleted by the next.
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
"""Shows a line of the user's; or writes it to a log."""


class BuildError(Exception):
    """Something could not be made; the message says what, why and what to do."""


class UnsuitableError(BuildError):
    """This machine cannot make it; the message is one line that says what it lacks."""


@dataclass(frozen=True, slots=True)
class Thing:
    """``seconds``: what ``make`` took from nothing on two idle cores, to tell people how long they will wait."""

    name: str
    seconds: int
    lock: Path
    ready: Callable[[], bool]
    make: Callable[[Say], None]


def cache_directory() -> Path:
    """The folder of everything that is made once per machine."""
    if own := os.environ.get("CHARTERER_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "charterer"


def in_cache(
    name: str, place: Path, seconds: int, fill: Callable[[Path, Say], None], lock: Path | None = None
) -> Thing:
    """A folder of the cache: ``fill`` makes it at the path that it gets, which is then moved to its place."""

    def make(say: Say) -> None:
        partial = place.with_name(f".{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        fill(partial, say)
        partial.rename(place)

    return Thing(name, seconds, lock or place.with_name(f".{place.name}.lock"), place.exists, make)


def ensure(thing: Thing, say: Say) -> None:
    """Make it if it is not there; BuildError when that fails."""
    if thing.ready():
        return
    with locked(thing.lock, thing.name, say):
        if not thing.ready():
            thing.make(say)


@contextmanager
def locked(lock: Path, name: str, say: Say) -> Iterator[None]:
    """Holds a lock of this machine, for which it waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is making it; waiting for that one")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
