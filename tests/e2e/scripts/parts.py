"""A job of the standard library whose steps have three parts: samples from the disk, computing, a sum over the network.

It has one pod or two, and pod 0 saves, into the folder SAVES. It ends when the file ``enough`` is there. In the run
whose number is in the file ``hang``, pod 1 enters no sum any more. SAVE_EVERY: steps.
"""

import json
import mmap
import os
import socket
import time
from pathlib import Path

import charterer_trainer
from tests.e2e.scripts.diary import note

FOLDER = Path(os.environ["CHECKPOINTS"])
SAVES = Path(os.environ.get("SAVES", FOLDER))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
READ_BYTES, GRADIENT_BYTES, CHECKPOINT_BYTES = 128 * 1024, 256 * 1024, 1024 * 1024
LOOPS, PAUSE = 300_000, 0.4
"""A step's computing: some milliseconds of a CPU, and a pause as if a GPU computed."""
STEPS, PORT = 2_000, 29_600


def meet(rank: int) -> socket.socket:
    """A connection to the other pod."""
    if rank == 0:
        with socket.create_server(("", PORT)) as server:
            return server.accept()[0]
    while True:
        try:
            return socket.create_connection((os.environ["PET_MASTER_ADDR"], PORT))
        except OSError:  # it has no address yet, or does not listen
            time.sleep(0.1)


def exchange(mine: bytes) -> bytes:
    """The other pod's bytes, as many as these; these where there is no other pod."""
    if peer is None:
        return mine
    if rank == 1:
        peer.sendall(mine)
    theirs = b""
    while len(theirs) < len(mine):
        received = peer.recv(len(mine) - len(theirs))
        if not received:
            raise ConnectionError("the other pod has gone")
        theirs += received
    if rank == 0:
        peer.sendall(mine)
    return theirs


def any_rank(flag: bool) -> bool:
    """Whether it is true in either pod."""
    theirs = exchange(bytes([flag]))
    return flag or theirs == b"\1"


def hangs() -> bool:
    """Whether this pod is not to go on in this run."""
    file = FOLDER / "hang"
    return rank == 1 and file.exists() and file.read_text() == os.environ["CHARTERER_RUN"]


with charterer_trainer.run():
    mine = charterer_trainer.allocation()
    rank = int(os.environ.get("JOB_COMPLETION_INDEX", 0))
    newest = charterer_trainer.latest_checkpoint(SAVES, "step-*.json")
    step = json.loads(newest.read_text())["step"] if newest else 0
    note("restored", step=step)
    peer: socket.socket | None = meet(rank) if mine and mine.pods > 1 else None
    samples, block = os.open("/samples/samples", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, READ_BYTES)
    blocks = os.fstat(samples).st_size // READ_BYTES
    stop = converged = False
    while not (stop or converged):
        with charterer_trainer.phase("load"):
            os.preadv(samples, [block], step % blocks * READ_BYTES)
        total = sum(range(LOOPS))
        time.sleep(PAUSE)
        while hangs():
            time.sleep(1)
        with charterer_trainer.phase("sync"):
            exchange(bytes(GRADIENT_BYTES))
            stop = charterer_trainer.should_stop(agree=any_rank)
            converged = any_rank((FOLDER / "enough").exists())
        step += 1
        if step % 10 == 0:
            note("trained", step=step)
        charterer_trainer.report(step=step, total_steps=STEPS)
        if rank == 0 and (stop or step % SAVE_EVERY == 0):
            with charterer_trainer.save_atomically(SAVES / f"step-{step:06}.json") as path:
                path.write_text(json.dumps({"step": step, "weights": "0" * CHECKPOINT_BYTES}))
            note("saved", step=step)
    if converged:
        charterer_trainer.report(fraction=1)
    note("end", step=step)
