"""TCP ports for programs that must get their port number before they listen.

If the kernel chooses a port (bind to 0), it may give the port to another process or connection before the program binds
it. The ports here lie below the range from which Linux chooses. This process holds the UDP port of the same number
until it ends, which marks the port as taken for other test and demo processes.
"""

from __future__ import annotations

import random
import socket

_PORTS = range(11_000, 30_000)
"""Above the ports of the kubelet and its peers, below Kubernetes' range of node ports."""
_TRIES = 1_000
_held: list[socket.socket] = []


def reserve(host: str = "127.0.0.1") -> int:
    """Return a port on which no process listens at ``host``. No later call in this process returns the same port."""
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
