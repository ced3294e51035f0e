"""The process with the GPU: ``python -m charterer_trainer.jupyter.worker``, in the pod of a job with spec.interactive.

The worker runs the cells that one kernel sends. As soon as no other cell waits, it sends the values that cells changed
to the kernel. It ends with 0 when the kernel releases it or is gone. After SIGTERM it ends with 143, once the kernel
has all values.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from charterer_trainer.ending import EXIT_SECONDS, end_now
from charterer_trainer.environment import Environment
from charterer_trainer.idle import gpu_idle
from charterer_trainer.jupyter.cells import cell_names
from charterer_trainer.jupyter.listener import Listener
from charterer_trainer.jupyter.shell import WorkerShell, is_hidden
from charterer_trainer.jupyter.values import InterruptedCopyError, Values
from charterer_trainer.jupyter.wire import PORT, Message, parcel_fields, parcels_of
from charterer_trainer.session import STOPPED, Session

KEY_FOLDER = "/var/run/secrets/notebook-gpu"
_LOOK_SECONDS = 5.0
"""Seconds between two checks of the GPU while no cell runs."""


class Worker:
    """The main thread's part: cells, values and the end of the process."""

    def __init__(self, listener: Listener, session: Session) -> None:
        self._listener = listener
        self._session = session
        self._cell: str = ""
        self._running = False
        self._stopped = False
        self._unsaved = False
        self._shell = WorkerShell.make(self._emit)
        self._values = Values(self._shell.user_ns, is_hidden)

    def work(self) -> int:
        """Work until the end and return the exit code."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, self._on_stop)
        self._session.busy(False)
        while True:
            if self._unsaved and self._listener.inbox.empty():
                self._copy_home(patient=False)
            try:
                message = self._listener.inbox.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._session.busy(gpu_idle() is False)
                continue
            if message.kind == "run" and self._stopped:
                self._listener.post(Message("refused", {"cell": message.fields["cell"]}))
            elif message.kind == "run":
                self._run(message)
            elif message.kind == "leave":
                if self._unsaved:
                    self._copy_home(patient=True)
                self._listener.leave()
                return STOPPED if self._stopped else 0

    def _run(self, message: Message) -> None:
        self._cell, source = message.fields["cell"], message.fields["source"]
        self._session.busy(True)
        failure: Mapping[str, Any] | None = None
        names = cell_names(self._shell.transform_cell(source))
        touched = set(names.binds)
        try:
            self._running = True
            self._take(message)
            touched |= self._values.closure(names)
            failure = self._shell.run(source)
        except BaseException as error:  # a value cannot be made here, or an interrupt came between two lines
            self._shell.showtraceback((type(error), error, error.__traceback__))
            failure = self._shell.failure
        finally:
            self._running = False
        if names.opaque:
            touched |= self._values.names()
        self._values.touch(touched)
        touched &= self._values.names() | names.binds
        self._unsaved = True
        self._listener.post(Message("ran", {"cell": self._cell, "failure": failure, "changing": sorted(touched)}))
        self._session.busy(False)

    def _take(self, message: Message) -> None:
        for name in message.fields["gone"]:
            self._shell.user_ns.pop(name, None)
        self._values.forget(message.fields["gone"])
        for parcel in parcels_of(message.fields["parcels"], message.parts):
            self._values.install(parcel)

    def _copy_home(self, patient: bool) -> None:
        """Send the values that cells changed to the kernel. If ``patient`` is false, the copy stops at the next
        message.
        """
        inbox = self._listener.inbox
        try:
            changes = self._values.changed(urgent=lambda: not patient and not self._stopped and not inbox.empty())
        except InterruptedCopyError:
            return
        except KeyboardInterrupt:  # the interrupt was for a cell that has just ended
            return
        fields, parts = parcel_fields(changes.parcels)
        frozen = [bytes(each) for each in parts]  # copies, because the next cell may change the values in place
        stuck = dict(self._values.stuck)
        content = {"cell": self._cell, "parcels": fields, "gone": sorted(changes.gone), "stuck": stuck}
        self._listener.post(Message("state", content, frozen))
        self._unsaved = False

    def _emit(self, kind: str, content: Mapping[str, Any]) -> None:
        self._listener.post(Message("output", {"cell": self._cell, "type": kind, "content": content}))

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """End the running cell and send its changes so far to the kernel, because the GPU is taken back."""
        self._stopped = True
        self._listener.inbox.put(Message("leave"))
        if self._running:
            self._running = False
            raise KeyboardInterrupt("the GPU is taken back")


def main() -> int:
    """Work until the end and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m charterer_trainer.jupyter.worker", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help=f"where to listen ({PORT})")
    parser.add_argument("--keys", type=Path, default=Path(KEY_FOLDER), help=f"tls.crt and tls.key ({KEY_FOLDER})")
    arguments = parser.parse_args()
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    listener = Listener(
        arguments.port,
        arguments.keys,
        interrupt=lambda: signal.pthread_kill(main_thread, signal.SIGINT),
        lost=lambda: end_now(0, EXIT_SECONDS),
    )
    session = Session(Environment.read(os.environ))
    code = Worker(listener, session).work()
    session.close()
    return code


if __name__ == "__main__":
    end_now(main(), EXIT_SECONDS)
