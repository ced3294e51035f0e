"""Makes targets of the Makefile beside each other and says how each ended: ``python tests/beside.py make lint-types``.

What a target prints is shown whole if it fails, else its last line. Imports nothing but the standard library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """A target that was made. ``seconds``: on the clock; ``processor``: those of it and all that it started."""

    target: str
    code: int
    seconds: float
    processor: float
    output: str

    @property
    def line(self) -> str:
        """How it ended."""
        verdict = "passed" if self.code == 0 else "FAILED"
        return f"{verdict}  {self.target:12} {self.seconds:5.0f} s, {self.processor:.0f} s of a processor"


def made(make: str, target: str) -> Made:
    """Make one target."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [make, "--no-print-directory", target], stdout=output, stderr=subprocess.STDOUT, close_fds=False
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode(errors="replace").rstrip()
    seconds = time.monotonic() - began
    return Made(target, process.returncode, seconds, used.ru_utime + used.ru_stime, said)


def main() -> int:
    """Returns 1 if a target failed."""
    make, *targets = sys.argv[1:]
    print("beside each other:", *targets, flush=True)
    ended: dict[str, Made] = {}
    with ThreadPoolExecutor(len(targets)) as pool:
        for future in as_completed([pool.submit(made, make, target) for target in targets]):
            done = future.result()
            ended[done.target] = done
            shown = done.output if done.code else done.output.rpartition("\n")[2]
            print(f"\n== {done.target}\n{shown}", flush=True)
    print("", *(ended[target].line for target in targets), sep="\n")
    return int(any(each.code for each in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
