"""What it costs to bring a notebook's values to a GPU's process and back: python -m tests.bench.notebook_values

Over loopback with TLS, between two namespaces of this process. Prints seconds of a processor, of both ends together,
for a gigabyte of arrays on its way and for one that has not changed, and the ratio of what the look at every object
costs to plain cloudpickle.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy

from charterer_trainer.jupyter.values import Values
from charterer_trainer.jupyter.wire import Link, Message, parcel_fields, parcels_of, tls_context
from tests.cluster.notebooks import write_keys

GIGABYTE = 1_000_000_000
OBJECTS = 1_000_000


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of a processor that it takes."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


async def moved(kernel: Values, worker: Values, keys: Path) -> None:
    """What has changed, over a connection."""
    done = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = await Link(reader, writer).receive()
        for parcel in parcels_of(message.fields["parcels"], message.parts):
            worker.install(parcel)
        done.set()

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=tls_context(keys, server=True))
    link = await Link.dial("127.0.0.1", server.sockets[0].getsockname()[1], tls_context(keys, server=False))
    fields, parts = parcel_fields(kernel.changed().parcels)
    await link.send(Message("state", {"parcels": fields}, parts))
    await done.wait()
    await link.close()
    server.close()


def main() -> None:
    """Print the figures."""
    kernel = Values(
        {"__name__": "__main__", "arrays": [numpy.full(GIGABYTE // 8 // 4, float(each)) for each in range(4)]}
    )
    worker = Values({"__name__": "__main__"})
    with tempfile.TemporaryDirectory() as folder:
        keys = write_keys(Path(folder))
        sending = seconds(lambda: asyncio.run(moved(kernel, worker, keys)))
    worker.touch({"arrays"})
    comparing = seconds(worker.changed)
    objects = [{"step": float(each)} for each in range(OBJECTS // 2)]
    looking = seconds(Values({"__name__": "__main__", "objects": objects}).changed)
    plain = seconds(lambda: cloudpickle.dumps(objects))
    print(f"1 GB of arrays: {sending:.2f} s to the other process, {comparing:.2f} s to see that it has not changed")
    print(f"{OBJECTS:,} small objects: {looking:.2f} s, {looking / plain:.1f} times plain cloudpickle's {plain:.2f} s")


if __name__ == "__main__":
    main()
