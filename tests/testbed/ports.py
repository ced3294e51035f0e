"""TCP ports of this machine for programs that must be told their port before they listen on it.

The kernel may give a port that it chose (bind to 0) to somebody else, or to a connection, before the program binds it.
These ports lie below Linux's range of such ports, and the UDP port of the same number is held until this process ends:
it tells other processes of tests and demos that the port is taken.
"""

from __future__ import annotations

import random
import socket

_PORTS = range(11_000, 30_000)
"""Above the ports of the kubelet and its peers, below Kubernetes' range of node ports."""
_TRIES = 1_000
_held: list[socket.socket] = []


def reserve(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens at ``host``; it is not given again while this process lives."""
    for port in random.Random().sample(_PORTS, _TRIES):
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mark.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind((host, port))
        except OSError:
            mark.close()
        else:
            _held.append(mark)
            return port
    raise OSError(f"of {_TRIES} ports from {_PORTS.start} to {_PORTS.stop - 1} none is free at {host}")
