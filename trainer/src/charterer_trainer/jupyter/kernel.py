"""The Jupyter kernel "Python (GPU by Charterer)". It is IPython's own kernel, but cells under ``%%gpu`` run in a
worker.

Jupyter sends the cells that a user runs one after the other, and a kernel usually answers each when it has run. This
kernel answers out of order. It defers a cell with a GPU, and meanwhile runs cells that share no value with that cell. A
cell that shares a value waits for the deferred cell, so that "run all" gives the same result as with IPython's kernel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from charterer_trainer.jupyter.cells import CellNames, cell_names, gpu_cell
from charterer_trainer.jupyter.cluster import ClusterError
from charterer_trainer.jupyter.gpu import Gpu, GpuCell, GpuError
from charterer_trainer.jupyter.shell import is_hidden
from charterer_trainer.jupyter.store import Store, ValueLostError

_USAGE = "%gpu always: all cells run on a GPU; %gpu off: only those under %%gpu; %gpu release; %gpu status"


@dataclass(eq=False)
class _SetAside:
    """A deferred request. ``used``: all names that the request may use. ``home``: is set once the request's values are
    in the kernel.
    """

    parent: Mapping[str, Any]
    names: CellNames
    used: set[str]
    on_gpu: bool
    ran: asyncio.Event = field(default_factory=asyncio.Event)
    home: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: bool = False


class GpuKernel(IPythonKernel):  # type: ignore[misc]
    """IPython's kernel with a second process for some cells."""

    implementation = "charterer-gpu"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._store = Store(self.shell.user_ns, is_hidden)
        self._gpu = Gpu(self._store, self._values_came)
        self._queue: list[_SetAside] = []
        self._answered_later: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._always = False
        self.shell.register_magic_function(self._magic, "line", "gpu")

    # --- Jupyter's requests ------------------------------------------------------------------------------------------

    async def execute_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Run the cell now, or defer it."""
        content = parent["content"]
        source, quiet = content["code"], content.get("silent", False) or not content.get("store_history", True)
        body = None if quiet else gpu_cell(source)
        command = source.strip().startswith("%gpu") and "\n" not in source.strip()
        if body is None and self._always and not quiet and not command:
            body = source
        names = CellNames() if command else self._names_of(source if body is None else body)
        if body is not None:
            self._store.values.survey()  # this finds out which values share objects with the values of this cell
        request = _SetAside(parent, names, self._store.uses(names), body is not None)
        if body is None and not self._waits_for(request):
            await self._run_here(stream, ident, request)
            return
        self._queue.append(request)
        self._answered_later.add(parent["header"]["msg_id"])
        # IPython installs this handler while no cell of this process runs
        self.saved_sigint_handler = self._on_interrupt
        work = (
            self._run_later(stream, ident, request) if body is None else self._run_there(stream, ident, request, body)
        )
        task = asyncio.ensure_future(self._answer(stream, ident, request, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def do_shutdown(self, restart: bool) -> Any:
        """Shut the kernel down. A worker notices that by itself."""
        self._gpu.shut_down()
        return super().do_shutdown(restart)

    def _publish_status_and_flush(self, status: str, channel: str, stream: Any, parent: Any = None) -> None:
        """Show a deferred request as busy even after its handler has returned."""
        of = parent or self.get_parent(channel)
        if status != "idle" or of.get("header", {}).get("msg_id") not in self._answered_later:
            super()._publish_status_and_flush(status, channel, stream, parent)

    async def _answer(self, stream: Any, ident: Any, request: _SetAside, work: Any) -> None:
        try:
            failed = await work
            if request.aborted:
                self._send_abort_reply(stream, request.parent, ident)
            if failed and request.parent["content"].get("stop_on_error", True):
                for later in self._queue[self._queue.index(request) + 1 :]:
                    later.aborted = True
                self._abort_queues()
        except Exception:
            self.log.exception("a request that was set aside")
        finally:
            request.ran.set()
            if not request.on_gpu or not self._store.unsaved:
                self._values_came()
            self._answered_later.discard(request.parent["header"]["msg_id"])
            self._publish_status("idle", "shell", request.parent)

    # --- when a cell runs --------------------------------------------------------------------------------------------

    def _names_of(self, source: str) -> CellNames:
        try:
            return cell_names(self.shell.transform_cell(source))
        except Exception:  # a cell that IPython cannot parse fails when it runs
            return CellNames()

    def _waits_for(self, request: _SetAside) -> list[asyncio.Event]:
        """The unfinished events of earlier requests for which this request must wait."""
        events = []
        for other in self._queue:
            if other is request:
                break
            if request.on_gpu and other.on_gpu:
                events.append(other.ran)
            elif self._shares(request, other):
                events.append(other.home if other.on_gpu else other.ran)
        return [event for event in events if not event.is_set()]

    def _shares(self, one: _SetAside, other: _SetAside) -> bool:
        """Whether two requests share a value. Modules, functions and classes count only if a request binds them."""
        if one.names.opaque or other.names.opaque:
            return bool(one.used and other.used)
        binds = one.names.binds | other.names.binds
        return any(name in binds or self._is_data(name) for name in one.used & other.used)

    def _is_data(self, name: str) -> bool:
        if name in self._store.parked or name in self._store.unsaved:
            return True
        value = self.shell.user_ns.get(name)
        return value is not None and not isinstance(value, (ModuleType, type)) and not callable(value)

    def _values_came(self) -> None:
        """Release requests whose values have come or will never come, and the cells that wait for them."""
        for request in self._queue:
            if request.ran.is_set():
                request.home.set()
        self._queue = [request for request in self._queue if not request.home.is_set()]

    async def _turn(self, request: _SetAside) -> None:
        while events := self._waits_for(request):
            await events[0].wait()

    async def _run_here(self, stream: Any, ident: Any, request: _SetAside) -> None:
        try:
            self._store.prepare(request.names)
        except ValueLostError as error:
            self._fail(stream, ident, request.parent, self._number(), error)
            return
        await super().execute_request(stream, ident, request.parent)
        self._store.ran_here(request.names)

    async def _run_later(self, stream: Any, ident: Any, request: _SetAside) -> bool:
        await self._turn(request)
        if request.aborted:
            return False
        async with self._main_asyncio_lock:
            self.set_parent(ident, request.parent, channel="shell")
            self.pre_handler_hook()
            try:
                await self._run_here(stream, ident, request)
            finally:
                self.post_handler_hook()
        return False  # a failure has aborted the cells in Jupyter's queue

    async def _run_there(self, stream: Any, ident: Any, request: _SetAside, source: str) -> bool:
        number = self._number()
        self._publish_execute_input(request.parent["content"]["code"], request.parent, number)
        self.shell.history_manager.store_inputs(number, request.parent["content"]["code"])
        await self._turn(request)
        if request.aborted:
            return False
        display = _WaitDisplay(self, request.parent)
        cell = GpuCell(str(number), source, request.names, _Outputs(self, request.parent, number), display.show)
        try:
            failure = await self._gpu.run(cell)
        except (GpuError, ClusterError, ValueLostError, KeyboardInterrupt) as error:
            self._fail(stream, ident, request.parent, number, error)
            return True
        finally:
            display.show("")
        status = (
            {"status": "ok", "user_expressions": {}, "payload": []}
            if failure is None
            else {"status": "error", **failure}
        )
        self.session.send(stream, "execute_reply", {**status, "execution_count": number}, request.parent, ident=ident)
        return failure is not None

    # --- what the user sees ------------------------------------------------------------------------------------------

    def _number(self) -> int:
        number: int = self.shell.execution_count
        self.shell.execution_count += 1
        return number

    def publish(self, kind: str, content: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
        """Show content under the cell of the request ``parent``."""
        self.session.send(self.iopub_socket, kind, dict(content), parent, ident=self._topic(kind))

    def _fail(self, stream: Any, ident: Any, parent: Any, number: int, error: BaseException) -> None:
        name = type(error).__name__
        told = {"ename": name, "evalue": str(error), "traceback": [f"\033[31m{name}\033[0m: {error}"]}
        self.publish("error", told, parent)
        reply = {"status": "error", **told, "execution_count": number}
        self.session.send(stream, "execute_reply", reply, parent, ident=ident)

    def _magic(self, line: str) -> None:
        word = line.strip()
        if word in ("always", "off"):
            self._always = word == "always"
        elif word == "release":
            print(self._gpu.release())
        elif word == "status":
            try:
                print(self._gpu.status())
            except ClusterError as error:
                print(error)
        else:
            print(_USAGE)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle an interrupt while no cell runs in this process."""
        self.io_loop.add_callback_from_signal(self._gpu.interrupt)


class _Outputs:
    """Shows the outputs that the worker emits for a cell."""

    def __init__(self, kernel: GpuKernel, parent: Mapping[str, Any], number: int) -> None:
        self._kernel = kernel
        self._parent = parent
        self._number = number

    def __call__(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "execute_result":
            content = {**content, "execution_count": self._number}
        self._kernel.publish(kind, content, self._parent)


class _WaitDisplay:
    """One display below a cell that shows its waiting state."""

    def __init__(self, kernel: GpuKernel, parent: Mapping[str, Any]) -> None:
        self._kernel = kernel
        self._parent = parent
        self._shown: str | None = None
        self._since = time.monotonic()

    def show(self, text: str) -> None:
        """Show this text. An empty text ends the wait."""
        if self._shown is None and not text:
            return
        text = text or f"A GPU was asked for, and waited for {time.monotonic() - self._since:.0f} s."
        if text != self._shown:
            kind = "display_data" if self._shown is None else "update_display_data"
            transient = {"display_id": f"charterer-{self._parent['header']['msg_id']}"}
            content = {"data": {"text/plain": text}, "metadata": {}, "transient": transient}
            self._kernel.publish(kind, content, self._parent)
            self._shown = text


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=GpuKernel)
