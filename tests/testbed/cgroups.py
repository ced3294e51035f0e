"""Control groups of real nodes. Each node has one, so that all processes of a node can be found and killed.

``hierarchies`` are all hierarchies of cgroup version 1 with systemd's of version 2, or the only one of version 2.
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
    """Return the path of a node's cgroup relative to every hierarchy."""
    return f"{_PREFIX}{number}"


def create(name: str) -> None:
    """Create the cgroup in every hierarchy, with all CPUs and memory nodes, and a child ``pods`` for the kubelet."""
    for hierarchy in hierarchies():
        for path in (hierarchy / name, hierarchy / name / "pods"):
            path.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / setting).exists():  # only in version 1; version 2 inherits these settings
                    (path / setting).write_text((path.parent / setting).read_text())
    tracking(name).mkdir()


def tracking(name: str) -> Path:
    """Return the cgroup for a node's processes outside of containers, in which ``kill`` finds them."""
    hierarchy = next((path for path in hierarchies() if path.name == "pids"), hierarchies()[0])
    return hierarchy / name / "system"


def processes(name: str) -> set[int]:
    """Return the ids of all processes in the cgroup."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        for path in [hierarchy / name, *_below(hierarchy / name)]:
            with suppress(OSError):
                found |= {int(line) for line in (path / "cgroup.procs").read_text().split()}
    return found


def kill(name: str) -> None:
    """Send SIGKILL to all processes in the cgroup until none is left. Raises TimeoutError if some survive."""
    deadline = time.monotonic() + _KILL_SECONDS
    while pids := processes(name):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(pids)} processes of cgroup {name} survive SIGKILL: {pids}")
        time.sleep(0.02)


def remove(name: str) -> None:
    """Remove the cgroup, which must be empty."""
    for hierarchy in hierarchies():
        top = hierarchy / name
        for path in [*sorted(_below(top), reverse=True), top]:
            with suppress(FileNotFoundError):
                path.rmdir()


def limit_cpu(name: str, cores: float) -> None:
    """Limit the CPUs that the node's pods may use together. The period is a tenth of a second."""
    quota = round(cores * _PERIOD_MICROSECONDS)
    for hierarchy in hierarchies():
        pods = hierarchy / name / "pods"
        if (pods / "cpu.cfs_quota_us").exists():
            (pods / "cpu.cfs_quota_us").write_text(str(quota))
        elif (pods / "cpu.max").exists():
            (pods / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")


def limit_disk(name: str, device: str, bytes_per_second: int) -> None:
    """Limit bytes per second that each running container may read and write on ``device``, as ``major:minor``.

    Version 1 does not pass limits to children, so a container that starts later has no limit.
    """
    for hierarchy in hierarchies():
        for path in _below(hierarchy / name / "pods"):
            for setting in ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"):
                if (path / setting).exists():
                    (path / setting).write_text(f"{device} {bytes_per_second}")
            if (path / "io.max").exists():
                (path / "io.max").write_text(f"{device} rbps={bytes_per_second} wbps={bytes_per_second}")


def existing() -> list[str]:
    """Return the existing cgroups of nodes in any hierarchy."""
    return sorted({path.name for hierarchy in hierarchies() for path in hierarchy.glob(f"{_PREFIX}*")})


def hierarchies() -> list[Path]:
    """Return the roots of the cgroup hierarchies."""
    if (_MOUNTS / "cgroup.controllers").exists():
        return [_MOUNTS]
    found = (path for path in _MOUNTS.iterdir() if not path.is_symlink())
    return sorted(path for path in found if (path / "cgroup.procs").exists())


def _below(top: Path) -> list[Path]:
    return [Path(folder) / name for folder, names, _ in os.walk(top) for name in names]
