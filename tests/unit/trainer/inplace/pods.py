"""The pods of one job as processes on this machine, with the environment that Charterer gives them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.unit.trainer.inplace.announcer import RUN, Announcer

HERE = Path(__file__).parent
SOURCE = HERE.parents[3] / "trainer" / "src"
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Process(Protocol):
    """What a pod's process is used for here; subprocess.Popen has it."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


Starter = Callable[[Mapping[str, str], Path], Process]
"""Starts a training script with that environment, and its output appended to that file."""


def spawned(command: Sequence[str]) -> Starter:
    """Each process starts from nothing, as in a pod."""

    def start(environ: Mapping[str, str], output: Path) -> Process:
        with output.open("ab") as file:
            return subprocess.Popen(command, env=dict(environ), stdout=file, stderr=subprocess.STDOUT)

    return start


class Nursery:
    """Starts processes that have imported their framework already (nursery.py)."""

    def __init__(self, python: Path, *modules: str) -> None:
        environ = {**os.environ, **_ALONE, "PYTHONPATH": str(SOURCE)}
        command = [str(python), str(HERE / "nursery.py"), *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
        self._started: queue.Queue[int] = queue.Queue()
        self._codes: dict[int, int] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def script(self, script: str | Path, *arguments: str) -> Starter:
        """Starts that script, of this folder where its path is relative."""

        def start(environ: Mapping[str, str], output: Path) -> Process:
            what = {"script": str(HERE / script), "arguments": arguments}
            asked = {**what, "environ": dict(environ), "output": str(output)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
            return _Child(self, self._started.get(timeout=240))

        return start

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def code(self, pid: int, seconds: float) -> int | None:
        """The exit code of that child, if it ends within that time."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._codes, seconds)
            return self._codes.get(pid)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "started" in answer:
                self._started.put(answer["started"])
            else:
                with self._changed:
                    self._codes[answer["ended"]] = answer["code"]
                    self._changed.notify_all()


class _Child:
    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self._pid = pid

    def poll(self) -> int | None:
        return self._nursery.code(self._pid, 0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._nursery.code(self._pid, 240 if timeout is None else timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self._pid), timeout or 240)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, sig)


class Pods:
    """The processes of one run; the output of each index is in the folder."""

    def __init__(self, announcer: Announcer, start: Starter, environ: Mapping[str, str]) -> None:
        self._announcer = announcer
        self._start = start
        self._environ = dict(environ)
        self._tokens = 0
        self.processes: dict[int, Process] = {}

    def environ(self, index: int) -> dict[str, str]:
        """The variables of that pod's next process."""
        folder = self._announcer.folder
        self._tokens += 1
        (token := folder / f"token-{self._tokens}").write_text(f"pod-{self._tokens}\n")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHARTERER_", "PET_", "JAX_", "PYTHON"))}
        return {
            **kept,
            **_ALONE,
            "CHARTERER_PROGRESS_URL": self._announcer.url,
            "CHARTERER_TOKEN_FILE": str(token),
            "CHARTERER_RUN": str(RUN),
            "CHARTERER_GROUP_PORT": str(self._announcer.port(index)),
            "JOB_COMPLETION_INDEX": str(index),
            "PYTHONPATH": str(SOURCE),
            "PYTHONUNBUFFERED": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "FOLDER": str(folder),
            **self._environ,
        }

    def start(self, *indexes: int) -> None:
        """Start those pods, again if they were there before."""
        for index in indexes:
            self.processes[index] = self._start(self.environ(index), self._output(index))

    def start_fixed(self, width: int, **environ: str) -> None:
        """Start the pods of a run that has this width from its start to its end, as a restart makes it."""
        fixed = {"PET_NNODES": str(width), "JAX_COORDINATOR_ADDRESS": "127.0.0.1:29500", **environ}
        leader = {"CHARTERER_GROUP_PORT": str(self._announcer.port(0))}
        for index in range(width):
            self.processes[index] = self._start({**self.environ(index), **fixed, **leader}, self._output(index))

    def signal(self, index: int, number: signal.Signals) -> None:
        self.processes[index].send_signal(number)

    def code(self, index: int, seconds: float = 120.0) -> int:
        """The exit code of that pod's process, once it has ended; its output is in the error if it does not."""
        try:
            return self.processes[index].wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"index {index} does not end: {self.output(index)[-2000:]}") from None

    def output(self, index: int) -> str:
        return self._output(index).read_text(errors="replace")

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def _output(self, index: int) -> Path:
        return self._announcer.folder / f"output-{index}"


@contextmanager
def bed(folder: Path, start: Starter, environ: Mapping[str, str] | None = None) -> Iterator[tuple[Announcer, Pods]]:
    """An operator and no pod yet; all processes are gone at the end."""
    announcer = Announcer(folder)
    pods = Pods(announcer, start, environ or {})
    try:
        yield announcer, pods
    finally:
        pods.end()
        announcer.close()
