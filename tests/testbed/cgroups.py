"""Control groups of real nodes: one for each, so that all that runs on a node can be found and killed at once.

``hierarchies`` are all of version 1, and beside them the one of version 2 that systemd has there, or that one alone.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_MOUNTS = Path("/sys/fs/cgroup")
_PREFIX = "charterer-node"
_KILL_SECONDS = 20.0
_PERIOD_MICROSECONDS = 100_000


def name_of(number: int) -> str:
    """The cgroup of the node with that number, relative to every hierarchy."""
    return f"{_PREFIX}{number}"


def create(name: str) -> None:
    """Make it, in every hierarchy, with all CPUs and memory nodes, and ``pods`` in it for the kubelet's."""
    for hierarchy in hierarchies():
        for path in (hierarchy / name, hierarchy / name / "pods"):
            path.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / setting).exists():  # version 1; they are inherited in version 2
                    (path / setting).write_text((path.parent / setting).read_text())
    tracking(name).mkdir()


def tracking(name: str) -> Path:
    """Where processes of a node that are in no container are put, so that ``kill`` finds them."""
    hierarchy = next((path for path in hierarchies() if path.name == "pids"), hierarchies()[0])
    return hierarchy / name / "system"


def processes(name: str) -> set[int]:
    """All in it."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        for path in [hierarchy / name, *_below(hierarchy / name)]:
            with suppress(OSError):
                found |= {int(line) for line in (path / "cgroup.procs").read_text().split()}
    return found


def kill(name: str) -> None:
    """SIGKILL for all in it; returns when none is left. TimeoutError if some are."""
    deadline = time.monotonic() + _KILL_SECONDS
    while pids := processes(name):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(pids)} processes of cgroup {name} survive SIGKILL: {pids}")
        time.sleep(0.02)


def remove(name: str) -> None:
    """Remove it, empty as it is."""
    for hierarchy in hierarchies():
        top = hierarchy / name
        for path in [*sorted(_below(top), reverse=True), top]:
            with suppress(FileNotFoundError):
                path.rmdir()


def limit_cpu(name: str, cores: float) -> None:
    """Let the pods of it have no more than so many CPUs together, of a CPU in each tenth of a second."""
    quota = round(cores * _PERIOD_MICROSECONDS)
    for hierarchy in hierarchies():
        pods = hierarchy / name / "pods"
        if (pods / "cpu.cfs_quota_us").exists():
            (pods / "cpu.cfs_quota_us").write_text(str(quota))
        elif (pods / "cpu.max").exists():
            (pods / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")


def limit_disk(name: str, device: str, bytes_per_second: int) -> None:
    """Let each container that runs in it read and write so much a second of ``device``, as ``major:minor``.

    Version 1 does not hand limits down, so a container that begins later has none.
    """
    for hierarchy in hierarchies():
        for path in _below(hierarchy / name / "pods"):
            for setting in ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"):
                if (path / setting).exists():
                    (path / setting).write_text(f"{device} {bytes_per_second}")
            if (path / "io.max").exists():
                (path / "io.max").write_text(f"{device} rbps={bytes_per_second} wbps={bytes_per_second}")


def existing() -> list[str]:
    """The nodes' cgroups that there are, in any hierarchy."""
    return sorted({path.name for hierarchy in hierarchies() for path in hierarchy.glob(f"{_PREFIX}*")})


def hierarchies() -> list[Path]:
    """The roots under which cgroups are made."""
    if (_MOUNTS / "cgroup.controllers").exists():
        return [_MOUNTS]
    found = (path for path in _MOUNTS.iterdir() if not path.is_symlink())
    return sorted(path for path in found if (path / "cgroup.procs").exists())


def _below(top: Path) -> list[Path]:
    return [Path(folder) / name for folder, names, _ in os.walk(top) for name in names]
