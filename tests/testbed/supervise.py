"""Child processes that cannot outlive the program that started them, however that one ends.

The *starter* (pytest, the demo) talks to one *supervisor* (this file run as a program, in a session of its own) over
two pipes; the children are the supervisor's. Three things end them:

- The starter closes its pipe or dies (SIGKILL included): the kernel closes the pipe, and the supervisor kills its
  children. It also watches the starter by a pidfd, as a forked copy of the starter would keep the pipe open.
- The supervisor itself dies: each child has asked the kernel for SIGKILL at its parent's death (PR_SET_PDEATHSIG).
- ``Supervisor.stop`` in the starter.

PR_SET_PDEATHSIG alone, straight from the starter, would be wrong: it fires when the *thread* that started the child
ends, and starters use threads; the supervisor has one thread only. Where the kernel has neither pidfds nor
PR_SET_PDEATHSIG (macOS), the pipe still does its work. Children are killed with SIGKILL: they hold nothing of value.

Messages are JSON lines: ``{"start", "argv", "log", "cwd", "env"}`` and ``{"kill"}`` one way; ``{"started", "pid"}``,
``{"failed", "error"}`` and ``{"exited", "code"}`` the other.
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
    """A child could not be started or the supervisor is gone."""


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
        """The supervisor's own process."""
        return self._process.pid

    @property
    def pids(self) -> Mapping[str, int]:
        """The process of every child ever started, by name."""
        return dict(self._pids)

    def start(self, name: str, argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> int:
        """Starts ``argv`` with its output appended to ``log``; gives its process id. A name may be used again once
        its process has exited. SupervisorError when the program cannot be run."""
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
        """SIGKILL for one child; returns once it has exited."""
        with self._lock:
            self._send({"kill": name})
            while name in self._pids and name not in self._exited:
                self._receive(timeout=10)

    def exited(self) -> Mapping[str, int]:
        """The children that have exited so far, with their return codes (negative: the signal)."""
        with self._lock:
            while self._receive(timeout=0):
                pass
            return dict(self._exited)

    def stop(self) -> None:
        """Kills every child; returns when all are gone. May be repeated."""
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    # What a dead supervisor has not read is written again by close.
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
        """Takes in what the supervisor has to say; False when that was nothing within ``timeout`` of 0 seconds."""
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
    """The supervisor's side: one thread, one loop over the starter's pipe, the starter's pidfd and SIGCHLD."""

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
        # A starter that is gone hears nothing; its end is noticed by the loop.
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError:
            return


if __name__ == "__main__":
    _Main(int(sys.argv[1])).run()
