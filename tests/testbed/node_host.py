"""This machine as the ground of real nodes: the right to have some, the bridge between them, what others left.

One process at a time has real nodes, which is what two cores carry; others wait. So the names of bridge and cgroups are
constants, and whatever bears them when the lock is got was left by a process that was killed.
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
"""The bridge's own (locally administered). Without one it has the least of its nodes' cables, which changes when a node
comes or goes: the others then speak to the old one until their neighbour entry is given up, some 12 s later."""
FOLDER = Path("/var/lib/charterer-nodes")
"""Files of nodes while they are on: a short path, as the names of Unix sockets have at most 107 bytes."""
_LOCK = Path("/run/charterer-nodes.lock")
_LOCK_SECONDS = 900.0
_LINK_SECONDS = 30.0
_PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""Where every kubelet has its device plugins' sockets, whatever its settings; each node mounts its own folder here."""


class NodeError(Exception):
    """Something of a real node did not work; the message has the program's own words."""


@dataclass(frozen=True, slots=True)
class NodeHost:
    """``network``: a /16 that nothing else here uses, nodes in its first /24, the pods of node N in the Nth."""

    network: ipaddress.IPv4Network
    _lock: IO[str]

    @classmethod
    def open(cls) -> Self:
        """Wait for the lock, clear away what killed processes have left, and lay the bridge. NodeError if it fails."""
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
        """The host's own address on the bridge."""
        return str(self.network[1])

    def node_address(self, number: int) -> str:
        """Where the node with that number (1 to 200) is."""
        return str(self.network[10 + number])

    def pod_network(self, number: int) -> str:
        """The addresses of its pods."""
        return str(list(self.network.subnets(new_prefix=24))[number])

    def close(self) -> None:
        """Kill what still runs on nodes, take the bridge away and let the next one have the lock."""
        _clear()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def cable(number: int) -> str:
    """The name of the host's end of that node's cable."""
    return f"{_PREFIX}{number}"


def ip(*commands: str, inside: int | None = None) -> None:
    """Commands of ip(8), in the network namespace of a process if so said; NodeError with its words when one fails."""
    enter = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    run([*enter, "ip", "-batch", "-"], "\n".join(commands))


def run(command: list[str], input: str | None = None) -> str:
    """What a command prints; NodeError with its words when it fails."""
    done = subprocess.run(command, input=input, capture_output=True, text=True)
    if done.returncode != 0:
        raise NodeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def wait_until(done: Callable[[], object], seconds: float, what: str) -> None:
    """Ask again and again; NodeError when it lasts too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise NodeError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.05)


def links() -> list[str]:
    """The names of this machine's network interfaces."""
    shown: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link"]))
    return [link["ifname"] for link in shown]


def disk_of(path: Path) -> str:
    """The whole disk, as ``major:minor``, that has the file or folder. NodeError where that is in memory."""
    number = path.stat().st_dev
    about = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not about.exists():
        raise NodeError(f"{path} is on no disk")
    whole = about.resolve().parent if (about / "partition").exists() else about
    return (whole / "dev").read_text().strip()


@contextmanager
def small_disk(name: str, kilobytes: int) -> Iterator[Path]:
    """A folder on a disk of that size, in memory; nodes that boot meanwhile see it. It is gone afterwards."""
    folder = FOLDER / name
    folder.mkdir(parents=True)
    run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "charterer", str(folder)])
    try:
        yield folder
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """Also while a node still holds it."""
    run(["umount", "--lazy", str(folder)])
    folder.rmdir()


def remove_link(name: str) -> None:
    """Return once there is no such interface. That of a node ends by itself, but a while after the node's processes."""
    with suppress(NodeError):  # it has ended meanwhile
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
    """A private /16 to which no route of this machine leads but the default one."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-4", "route"]))
    used = [ipaddress.IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]
    candidates = (ipaddress.IPv4Network(f"10.{second}.0.0/16") for second in range(200, 256))
    return next(network for network in candidates if not any(network.overlaps(other) for other in used))
