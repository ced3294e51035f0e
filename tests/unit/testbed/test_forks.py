"""A forked process does not outlive who started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

STARTER = """
import multiprocessing, sys, time
from pathlib import Path
from tests.testbed.forks import fork

multiprocessing.set_forkserver_preload([])  # nothing that takes seconds
out = Path(sys.argv[1])
print(fork(time.sleep, 600, out=out, err=out).pid, flush=True)
time.sleep(600)
"""


def test_a_forked_process_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "out")],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    process = psutil.Process(int(starter.stdout.readline()))
    starter.stdout.close()
    starter.kill()
    starter.wait()
    _, alive = psutil.wait_procs([process], timeout=20)
    assert alive == []
