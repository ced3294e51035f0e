"""The kernel's side of the GPU. It requests a worker, waits for it, runs cells on it, and fetches the changed
values.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from charterer_trainer.jupyter.cells import CellNames
from charterer_trainer.jupyter.cluster import Cluster, ClusterError, JobView, MissingJobError
from charterer_trainer.jupyter.store import Store
from charterer_trainer.jupyter.wire import PORT, Link, LinkError, Message, parcel_fields, parcels_of, tls_context

KEY_FOLDER = "/var/run/secrets/notebook-gpu"
_T = TypeVar("_T")
_LOOK_SECONDS = 1.0
_DIAL_SECONDS = 5.0


class GpuError(Exception):
    """A cell could not run, or could not end, on a GPU. The message is for the notebook's user."""


class WorkerLostError(GpuError):
    """The process with the GPU was lost during a cell."""


@dataclass
class GpuCell:
    """A cell that waits or runs.

    ``label``: the cell's name for the user. ``emit`` gets the cell's outputs, and ``show`` the text while it waits.
    """

    label: str
    source: str
    names: CellNames
    emit: Callable[[str, Mapping[str, Any]], None]
    show: Callable[[str], None]


class Gpu:
    """At most one worker, which runs at most one cell. All calls are made in the kernel's event loop."""

    def __init__(self, store: Store, on_home: Callable[[], None], environ: Mapping[str, str] = os.environ) -> None:
        self._store = store
        self._on_home = on_home
        self._environ = environ
        self._link: Link | None = None
        self._run: int | None = None
        self._cell: GpuCell | None = None
        self._ended: asyncio.Future[Mapping[str, Any] | None] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unwanted = False
        self._own = uuid.uuid4().hex[:6]  # distinguishes this kernel's job from others of the same template
        self._cluster: Cluster | None = None
        self._call: asyncio.Future[Any] | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a worker."""
        return self._link is not None

    async def run(self, cell: GpuCell) -> Mapping[str, Any] | None:
        """Run a cell. Returns None, or the content of its error. Raises GpuError, ClusterError or ValueLostError."""
        self._cell = cell
        try:
            while True:
                await self._connect()
                try:
                    return await self._run_once(cell)
                except _NotRunError:
                    continue  # the GPU was being taken back, so another GPU is requested
        finally:
            self._cell = None

    async def _run_once(self, cell: GpuCell) -> Mapping[str, Any] | None:
        assert self._link is not None
        parcels, gone = self._store.outgoing(cell.names)
        fields, parts = parcel_fields(parcels)
        self._ended = asyncio.get_running_loop().create_future()
        content = {"cell": cell.label, "source": cell.source, "gone": gone, "parcels": fields}
        try:
            with contextlib.suppress(LinkError):  # the reader gets the error, too
                await self._link.send(Message("run", content, parts))
            return await self._ended
        finally:
            self._ended = None

    def interrupt(self) -> None:
        """Interrupt the cell. It stops waiting, or gets a KeyboardInterrupt if it runs."""
        if self._link is not None:
            self._send(Message("interrupt"))
        elif self._connecting is not None:
            self._unwanted = True
            self._connecting.cancel()

    def shut_down(self) -> None:
        """Withdraw the request for a GPU, because the kernel ends.

        This takes the time of two calls, and may run in any thread.
        """
        if self._cluster is None:
            return
        with contextlib.suppress(ClusterError):
            if self._cluster.template:
                self._cluster.delete()
            elif self._connecting is not None:
                self._cluster.withdraw()

    def release(self) -> str:
        """Release the GPU once the running cell has ended. Returns a message for the user."""
        if self._link is not None:
            self._send(Message("leave"))
            return "The GPU is given back once the values that its process has are here."
        if self._connecting is not None:
            self.interrupt()
            return "Nobody waits for a GPU any more."
        return "There is no GPU to give back."

    def status(self) -> str:
        """The text of `%gpu status`, after one call to the API server. Raises ClusterError."""
        cluster = Cluster.of_pod(self._environ, self._own)
        try:
            view = cluster.view()
        except MissingJobError:
            if not cluster.template:
                raise
            return f"No GPU was asked for yet: the first cell makes TrainingJob {cluster.job} for this kernel."
        there = f"a GPU, in run {self._run}" if self._link is not None else "no GPU"
        lines = [f"TrainingJob {cluster.namespace}/{cluster.job}: {view.state or 'new'}. This notebook has {there}."]
        if view.why:
            lines.append(view.why)
        if view.hourly is not None:
            lines.append(f"${view.hourly:.2f} an hour while there is a GPU.")
        store = self._store
        if kept := sum({id(parcel): parcel.size for parcel in store.parked.values()}.values()):
            lines.append(f"{len(store.parked)} values of cells with a GPU are kept here ({kept / 1e6:.1f} MB).")
        if store.unsaved:
            lines.append(f"On their way here: {', '.join(f'`{name}`' for name in sorted(store.unsaved))}.")
        lines += [f"`{name}` stays with the GPU: {why}" for name, why in sorted(store.elsewhere.items())]
        return "\n".join(lines)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        if self._link is not None:
            return
        self._connecting = asyncio.ensure_future(self._wait_for_worker())
        try:
            await self._connecting
        except asyncio.CancelledError:
            if self._unwanted:
                self._unwanted = False
                await self._withdraw()
                raise KeyboardInterrupt from None
            raise
        finally:
            self._connecting = None

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        """The answer of a call to the API server. The call continues if the wait for it is cancelled."""
        running = asyncio.ensure_future(asyncio.to_thread(call))
        self._call = running
        return await asyncio.shield(running)

    async def _withdraw(self) -> None:
        """Withdraw the request for a GPU."""
        if self._call is not None:
            await asyncio.wait({self._call})
        if self._cluster is not None:
            await self._in_thread(self._cluster.withdraw)

    async def _wait_for_worker(self) -> None:
        self._cluster = None
        cluster = self._cluster = Cluster.of_pod(self._environ, self._own)
        keys = Path(self._environ.get("CHARTERER_GPU_KEYS") or KEY_FOLDER)
        try:
            tls = tls_context(keys, server=False)
        except OSError as error:
            raise GpuError(f"no worker can be spoken to: {keys} needs tls.crt and tls.key ({error})") from error
        number = await self._in_thread(cluster.ask)
        while True:
            view = await self._in_thread(cluster.view)
            if view.ended is not None:
                raise GpuError(f"TrainingJob {cluster.namespace}/{cluster.job} gets no GPU any more: {view.ended}")
            self._show(waiting_text(view))
            if view.run is not None and (link := await self._dial(cluster, view.run, tls)) is not None:
                self._link, self._run = link, view.run
                self._reading = asyncio.ensure_future(self._read(link))
                self._show("")
                return
            if view.answered >= number:
                number = await self._in_thread(cluster.ask)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _dial(self, cluster: Cluster, run: int, tls: ssl.SSLContext) -> Link | None:
        """A connection to the run's worker, or None while the worker does not answer."""
        pod = f"{cluster.job}-r{run}-0.{cluster.job}.{cluster.namespace}:{PORT}"
        host, _, port = (self._environ.get("CHARTERER_WORKER") or pod).rpartition(":")
        greeting = asyncio.ensure_future(self._greet(host, int(port), tls))
        await asyncio.wait({greeting}, timeout=_DIAL_SECONDS)
        if not greeting.done():
            greeting.cancel()
            return None
        try:
            link, hello = greeting.result()
        except ssl.SSLCertVerificationError as error:
            raise GpuError(
                f"the process at {host} shows another certificate than this pod's: mount the same Secret in both pods"
            ) from error
        except (OSError, LinkError):
            return None
        if hello.kind == "taken":
            raise GpuError(
                f"another kernel uses the GPU of TrainingJob {cluster.job}: each kernel needs a job of its own, as it "
                "makes one where CHARTERER_JOB_TEMPLATE is set instead of CHARTERER_JOB"
            )
        python = tuple(hello.fields["python"])
        if python != sys.version_info[:2]:
            ours = ".".join(map(str, sys.version_info[:2]))
            theirs = ".".join(map(str, python))
            raise GpuError(
                f"the worker has Python {theirs}, this kernel {ours}: values travel between equal versions only"
            )
        return link

    async def _greet(self, host: str, port: int, tls: ssl.SSLContext) -> tuple[Link, Message]:
        link = await Link.dial(host, port, tls)
        return link, await link.receive()

    def _show(self, text: str) -> None:
        if self._cell is not None:
            self._cell.show(text)

    # --- the worker --------------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        """Send without waiting. The reader notices a lost connection."""

        async def quietly(link: Link) -> None:
            with contextlib.suppress(LinkError):
                await link.send(message)

        if self._link is not None:
            task = asyncio.ensure_future(quietly(self._link))
            task.add_done_callback(lambda _: None)

    async def _read(self, link: Link) -> None:
        why = "the connection to it was lost"
        try:
            while True:
                message = await link.receive()
                if message.kind == "leaving":
                    await link.send(Message("kept"))
                    why = ""
                    break
                self._handle(message)
        except LinkError as error:
            why = str(error)
        await link.close()
        self._gone(why)

    def _handle(self, message: Message) -> None:
        fields, cell = message.fields, self._cell
        if message.kind == "output":
            if cell is not None and fields["cell"] == cell.label:
                cell.emit(fields["type"], fields["content"])
        elif message.kind == "ran":
            self._store.changing(fields["changing"])
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(fields["failure"])
        elif message.kind == "refused":
            if self._ended is not None and not self._ended.done():
                self._ended.set_exception(_NotRunError())
        elif message.kind == "state":
            parcels = parcels_of(fields["parcels"], message.parts)
            self._store.take(parcels, fields["gone"], fields["stuck"], fields["cell"])
            self._on_home()

    def _gone(self, why: str) -> None:
        """Handle that the worker has ended or is unreachable. ``why`` is empty if the worker has sent all values."""
        self._link = self._run = None
        self._store.worker_gone()
        if self._ended is not None and not self._ended.done():
            if why and self._cell is not None:
                used = (
                    self._store.uses(self._cell.names) & self._store.known() | self._cell.names.binds | self._store.lost
                )
                self._store.lost -= used
                self._ended.set_exception(
                    WorkerLostError(
                        f"The process with the GPU is gone ({why}), and with it what this cell changed. "
                        f"The next cell gets another GPU.\n{self._store.ages(used)}"
                    )
                )
            else:
                self._ended.set_exception(_NotRunError())
        self._on_home()


def waiting_text(view: JobView) -> str:
    """The text that a cell shows while it waits."""
    parts = [f"Waiting for a GPU: {'its pod starts' if view.run is not None else view.why or 'it was asked for'}"]
    if view.start_seconds is not None:
        parts.append(f"usually about {view.start_seconds:.0f} s")
    if view.hourly is not None:
        parts.append(f"${view.hourly:.2f} an hour")
    return "; ".join(parts)


class _NotRunError(Exception):
    """The worker did not begin the cell."""
