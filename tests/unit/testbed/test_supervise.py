"""Supervised children never outlive whoever wanted them, whatever ends that one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE
from tests.testbed.supervise import Supervisor, SupervisorError

ROOT = Path(__file__).resolve().parents[3]
STARTER = """
import os, sys, time
from pathlib import Path
from tests.testbed.supervise import Supervisor

supervisor = Supervisor()
here = Path(sys.argv[1])
pids = [supervisor.start(n, ["sleep", "600"], log=here / "log", cwd=here, env=dict(os.environ)) for n in "ab"]
{extra}
print(supervisor.pid, *pids, flush=True)
time.sleep(600)
"""


def alive_after_a_while(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Waits for the processes to end; gives those still alive after PATIENCE. A zombie has ended: init may be slow."""
    deadline = time.monotonic() + PATIENCE
    while processes and time.monotonic() < deadline:
        _, left = psutil.wait_procs(processes, timeout=0.02)
        processes = [process for process in left if is_alive(process)]
    return processes


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def start_starter(directory: Path, extra: str = "") -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER.format(extra=extra), str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    return starter, [psutil.Process(int(pid)) for pid in starter.stdout.readline().split()]


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.stop()


def start(supervisor: Supervisor, name: str, *argv: str, cwd: Path) -> int:
    return supervisor.start(name, argv, log=cwd / "log", cwd=cwd, env=dict(os.environ))


def exit_code(supervisor: Supervisor, name: str) -> int:
    deadline = time.monotonic() + PATIENCE
    while name not in supervisor.exited():
        assert time.monotonic() < deadline, f"{name} did not exit"
    return supervisor.exited()[name]


def test_everything_ends_when_the_starter_is_killed(tmp_path: Path) -> None:
    starter, processes = start_starter(tmp_path)
    assert len(processes) == 3
    starter.kill()
    starter.communicate()
    assert alive_after_a_while(processes) == []


def test_everything_ends_when_a_forked_copy_of_the_killed_starter_lives_on(tmp_path: Path) -> None:
    fork = "copy = os.fork()\nif copy == 0: os.close(1); time.sleep(600)\npids.append(copy)"
    starter, processes = start_starter(tmp_path, fork)
    copy = processes.pop()
    try:
        starter.kill()
        starter.communicate()
        assert alive_after_a_while(processes) == []
        assert is_alive(copy)
    finally:
        copy.kill()


def test_children_end_when_the_supervisor_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    child = psutil.Process(start(supervisor, "sleeper", "sleep", "600", cwd=tmp_path))
    os.kill(supervisor.pid, signal.SIGKILL)
    assert alive_after_a_while([child]) == []
    with pytest.raises(SupervisorError, match="is gone"):
        start(supervisor, "another", "sleep", "600", cwd=tmp_path)


def test_children_outlive_the_thread_that_started_them(supervisor: Supervisor, tmp_path: Path) -> None:
    thread = threading.Thread(target=start, args=(supervisor, "sleeper", "sleep", "600"), kwargs={"cwd": tmp_path})
    thread.start()
    thread.join()
    start(supervisor, "later", "true", cwd=tmp_path)
    assert exit_code(supervisor, "later") == 0
    assert "sleeper" not in supervisor.exited()
    assert psutil.pid_exists(supervisor.pids["sleeper"])


def test_stopping_ends_everything_and_may_be_repeated(tmp_path: Path) -> None:
    supervisor = Supervisor()
    child = start(supervisor, "sleeper", "sleep", "600", cwd=tmp_path)
    supervisor.stop()
    assert not psutil.pid_exists(child)
    supervisor.stop()


def test_the_code_and_the_output_of_a_child_are_kept(supervisor: Supervisor, tmp_path: Path) -> None:
    start(supervisor, "failing", "sh", "-c", "echo out of paper >&2; exit 3", cwd=tmp_path)
    assert exit_code(supervisor, "failing") == 3
    assert (tmp_path / "log").read_text() == "out of paper\n"


def test_one_child_is_killed_and_its_name_used_again(supervisor: Supervisor, tmp_path: Path) -> None:
    first = start(supervisor, "sleeper", "sleep", "600", cwd=tmp_path)
    supervisor.kill("sleeper")
    assert not psutil.pid_exists(first)
    assert supervisor.exited() == {"sleeper": -signal.SIGKILL}
    assert start(supervisor, "sleeper", "sleep", "600", cwd=tmp_path) != first
    assert supervisor.exited() == {}


def test_a_program_that_does_not_exist_is_named(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(SupervisorError, match="no-such-program cannot be started"):
        start(supervisor, "ghost", "no-such-program", cwd=tmp_path)
