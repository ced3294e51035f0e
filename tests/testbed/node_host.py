"""This machine as the host of real nodes: a lock, the bridge between nodes, and cleanup of earlier leftovers.

Two cores can run the real nodes of one process at a time, so other processes wait. The names of bridge and cgroups are
therefore constants. If any exist when the lock is acquired, they belonged to a process that was killed.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.testbed import cgroups

_PREFIX = "charterer"
BRIDGE = f"{_PREFIX}0"
_ADDRESS = "02:00:00:00:00:01"
"""MAC address of the bridge (locally administered).

By default a bridge has the lowest address of its ports, which changes when a node comes or goes. Other nodes then send
to the old address until their neighbour entry expires, some 12 s later.
"""
FOLDER = Path("/var/lib/charterer-nodes")
"""Files of running nodes. The path is short, because names of Unix sockets have at most 107 bytes."""
_LOCK = Path("/run/charterer-nodes.lock")
_LOCK_SECONDS = 900.0
_LINK_SECONDS = 30.0
_PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""The device plugin folder of every kubelet, which no setting changes. Each node bind-mounts its own folder here."""


class NodeError(Exception):
    """An operation on a real node failed. The message has the program's output."""


@dataclass(frozen=True, slots=True)
class NodeHost:
    """The host. ``network`` is an unused /16.

    Nodes are in its first /24, and the pods of node N are in /24 number N.
    """

    network: ipaddress.IPv4Network
    _lock: IO[str]

    @classmethod
    def open(cls) -> Self:
        """Wait for the lock, remove leftovers of killed processes, and create the bridge. Raises NodeError."""
        lock = _LOCK.open("w")
        wait_until(lambda: _try_lock(lock), _LOCK_SECONDS, "the real nodes of another process are gone")
        _clear()
        _PLUGINS.mkdir(parents=True, exist_ok=True)
        host = cls(_free_network(), lock)
        ip(
            f"link add {BRIDGE} address {_ADDRESS} type bridge",
            f"addr add {host.address}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
        return host

    @property
    def address(self) -> str:
        """The host's address on the bridge."""
        return str(self.network[1])

    def node_address(self, number: int) -> str:
        """Return the address of a node. ``number`` is 1 to 200."""
        return str(self.network[10 + number])

    def pod_network(self, number: int) -> str:
        """Return the address range of the node's pods."""
        return str(list(self.network.subnets(new_prefix=24))[number])

    def close(self) -> None:
        """Kill all processes on nodes, remove the bridge and release the lock."""
        _clear()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def cable(number: int) -> str:
    """Return the name of the host's end of the node's veth pair."""
    return f"{_PREFIX}{number}"


def ip(*commands: str, inside: int | None = None) -> None:
    """Run commands of ip(8), in the network namespace of process ``inside`` if given.

    NodeError has the program's output.
    """
    enter = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    run([*enter, "ip", "-batch", "-"], "\n".join(commands))


def run(command: list[str], input: str | None = None) -> str:
    """Run a command and return its output. NodeError has the program's output."""
    done = subprocess.run(command, input=input, capture_output=True, text=True)
    if done.returncode != 0:
        raise NodeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def wait_until(done: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until ``done``. Raises NodeError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise NodeError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.05)


def links() -> list[str]:
    """Return the names of this machine's network interfaces."""
    shown: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link"]))
    return [link["ifname"] for link in shown]


def disk_of(path: Path) -> str:
    """Return the disk (not the partition) of a path as ``major:minor``. Raises NodeError for a path in memory."""
    number = path.stat().st_dev
    about = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not about.exists():
        raise NodeError(f"{path} is on no disk")
    whole = about.resolve().parent if (about / "partition").exists() else about
    return (whole / "dev").read_text().strip()


@contextmanager
def small_disk(name: str, kilobytes: int) -> Iterator[Path]:
    """Mount a tmpfs of this size, unmounted at the end. Nodes that boot meanwhile see it."""
    folder = FOLDER / name
    folder.mkdir(parents=True)
    run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "charterer", str(folder)])
    try:
        yield folder
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """Unmount lazily, because a node may still use the folder."""
    run(["umount", "--lazy", str(folder)])
    folder.rmdir()


def remove_link(name: str) -> None:
    """Delete an interface and wait until it is gone. A node's interface ends some time after the node's processes."""
    with suppress(NodeError):  # the interface has already ended
        ip(f"link del {name}")
    wait_until(lambda: name not in links(), _LINK_SECONDS, f"the interface {name} has ended")


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _clear() -> None:
    for name in cgroups.existing():
        cgroups.kill(name)
        cgroups.remove(name)
    for name in links():
        if name.startswith(_PREFIX):
            remove_link(name)
    for folder in FOLDER.glob("*"):
        if folder.is_mount():
            _unmount(folder)
    shutil.rmtree(FOLDER, ignore_errors=True)


def _free_network() -> ipaddress.IPv4Network:
    """Return a private /16 that overlaps no route of this machine except the default route."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-4", "route"]))
    used = [ipaddress.IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]
    candidates = (ipaddress.IPv4Network(f"10.{second}.0.0/16") for second in range(200, 256))
    return next(network for network in candidates if not any(network.overlaps(other) for other in used))
