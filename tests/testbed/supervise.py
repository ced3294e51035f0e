"""Child processes that always end with the program that started them.

The *starter* (pytest, the demo) talks through two pipes to a *supervisor* (this file run as a program, in its own
session). The children are processes of the supervisor. Three events end them:

- The starter closes its pipe or dies, even by SIGKILL. The kernel closes the pipe, and the supervisor kills its
  children. It also watches the starter by a pidfd, because a forked copy of the starter would keep the pipe open.
- The supervisor dies. Each child has asked the kernel for SIGKILL at its parent's death (PR_SET_PDEATHSIG).
- The starter calls ``Supervisor.stop``.

PR_SET_PDEATHSIG alone in children of the starter would be wrong. That signal is sent when the *thread* that started the
child ends, and starters use threads. The supervisor has one thread only. If the kernel has neither pidfds nor
PR_SET_PDEATHSIG (macOS), the pipe still works. Children are killed with SIGKILL, because they hold nothing of value.

Messages are JSON lines. The starter sends ``{"start", "argv", "log", "cwd", "env"}`` and ``{"kill"}``. The supervisor
sends ``{"started", "pid"}``, ``{"failed", "error"}`` and ``{"exited", "code"}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class SupervisorError(Exception):
    """A child could not be started, or the supervisor has ended."""


class Supervisor:
    """The starter's side. Any thread may call it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._unread = b""
        self._pids: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._exited: dict[str, int] = {}

    @property
    def pid(self) -> int:
        """The process id of the supervisor."""
        return self._process.pid

    @property
    def pids(self) -> Mapping[str, int]:
        """The process id of every child ever started, by name."""
        return dict(self._pids)

    def start(self, name: str, argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> int:
        """Start ``argv`` with its output appended to ``log``, and return its process id.

        A name may be used again once its process has exited. Raises SupervisorError if the program cannot be run.
        """
        with self._lock:
            for memory in (self._pids, self._failed, self._exited):
                memory.pop(name, None)
            self._send({"start": name, "argv": list(argv), "log": str(log), "cwd": str(cwd), "env": dict(env)})
            while name not in self._pids:
                self._receive(timeout=10)
                if name in self._failed:
                    raise SupervisorError(f"{argv[0]} cannot be started: {self._failed[name]}")
            return self._pids[name]

    def kill(self, name: str) -> None:
        """Send SIGKILL to one child and return once it has exited."""
        with self._lock:
            self._send({"kill": name})
            while name in self._pids and name not in self._exited:
                self._receive(timeout=10)

    def exited(self) -> Mapping[str, int]:
        """Return the return codes of children that have exited so far, by name. A negative code is a signal."""
        with self._lock:
            while self._receive(timeout=0):
                pass
            return dict(self._exited)

    def stop(self) -> None:
        """Kill every child and return when all have ended. May be repeated."""
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    # close writes unread data again, which fails if the supervisor is dead
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process.wait(timeout=30)

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise SupervisorError(f"the supervisor (process {self.pid}) is gone") from error

    def _receive(self, timeout: float) -> bool:
        """Read messages of the supervisor.

        Return False if there was none and ``timeout`` is 0, else raise SupervisorError.
        """
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not readable:
            if timeout:
                raise SupervisorError(f"the supervisor (process {self.pid}) did not answer within {timeout:.0f} s")
            return False
        data = os.read(self._process.stdout.fileno(), 65536)
        if not data:
            raise SupervisorError(f"the supervisor (process {self.pid}) is gone")
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "started" in message:
                self._pids[message["started"]] = message["pid"]
            elif "failed" in message:
                self._failed[message["failed"]] = message["error"]
            else:
                self._exited[message["exited"]] = message["code"]
        return True


class _Main:
    """The supervisor's side: one thread with one loop over the starter's pipe, the starter's pidfd and SIGCHLD."""

    def __init__(self, starter: int) -> None:
        self._starter = starter
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._me = os.getpid()

    def run(self) -> None:
        child_ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        watched = [0, child_ended, *self._starter_pidfd()]
        unread = b""
        try:
            while os.getppid() == self._starter:
                ready, _, _ = select.select(watched, [], [])
                if child_ended in ready:
                    os.read(child_ended, 4096)
                    self._report_exits()
                if 0 in ready:
                    data = os.read(0, 65536)
                    if not data:
                        return
                    *lines, unread = (unread + data).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
        finally:
            self._end_all()

    def _starter_pidfd(self) -> list[int]:
        try:
            return [os.pidfd_open(self._starter)]
        except (AttributeError, OSError):
            return []

    def _obey(self, message: dict[str, object]) -> None:
        if "kill" in message:
            if child := self._children.get(str(message["kill"])):
                child.kill()
            return
        name, argv, env = str(message["start"]), message["argv"], message["env"]
        assert isinstance(argv, list)
        assert isinstance(env, dict)
        try:
            with open(str(message["log"]), "ab") as log:
                self._children[name] = child = subprocess.Popen(
                    argv,
                    cwd=str(message["cwd"]),
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    preexec_fn=self._die_with_parent,
                )
        except (OSError, subprocess.SubprocessError) as error:
            self._tell({"failed": name, "error": str(error)})
            return
        self._tell({"started": name, "pid": child.pid})

    def _die_with_parent(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._me:
                os._exit(1)

    def _report_exits(self) -> None:
        for name, child in list(self._children.items()):
            if (code := child.poll()) is not None:
                del self._children[name]
                self._tell({"exited": name, "code": code})

    def _end_all(self) -> None:
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()

    @staticmethod
    def _tell(message: Mapping[str, object]) -> None:
        # A dead starter gets no message. The loop detects its end.
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError:
            return


if __name__ == "__main__":
    _Main(int(sys.argv[1])).run()
