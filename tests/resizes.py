"""The examples of examples/training as processes on loopback: at any width, stopped at any step, and gone on with."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.testbed import stop_at
from tests.testbed.build import ROOT
from tests.testbed.frameworks import JAX, TORCH_TRAINERS, Framework, digits

EXAMPLES = ROOT / "examples/training"
STEPS = 300
WIDTHS = (1, 2, 3)
SECONDS = 240
"""Until a run counts as hanging."""


@dataclass(frozen=True)
class Result:
    """What a finished run says of its net."""

    step: int
    loss: float
    accuracy: float


def interpreter(framework: Framework) -> Path:
    """Its interpreter; the test is skipped where it is not installed."""
    found = framework.find()
    if found is None:
        pytest.skip(f"{framework.name} is not installed for tests: run `make {framework.target}`")
    return found


@dataclass(frozen=True)
class Example:
    """A script of ``examples/training``, with its interpreter. ``folder``: its checkpoints."""

    name: str
    python: Path
    digits: Path
    folder: Path
    seed: int = 0

    def run(self, width: int, stop: tuple[int, int] | None = None, steps: int = STEPS) -> tuple[list[int], str]:
        """Exit codes of ``width`` ranks, and what they print. ``stop``: which rank hears SIGTERM, and at which step."""
        script = [str(EXAMPLES / self.name / "train.py"), "--steps", str(steps), "--seed", str(self.seed)]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = []
        for rank in range(width):
            stopper = [stop_at.__file__, str(stop[1])] if stop is not None and stop[0] == rank else []
            processes.append(
                subprocess.Popen(
                    [self.python, *stopper, *script, "--checkpoints", str(self.folder)],
                    env=self._environ(width, rank, port),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            output = "".join(process.communicate(timeout=SECONDS)[0] for process in processes)
        finally:
            for process in processes:
                process.kill()
        return [process.returncode for process in processes], output

    def torchrun(self, width: int, steps: int) -> tuple[int, str]:
        """Exit code and output under torchrun."""
        command = [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(width)]
        script = [EXAMPLES / self.name / "train.py", "--steps", str(steps), "--checkpoints", self.folder]
        done = subprocess.run(
            [*map(str, command + script)], env=self._environ(), capture_output=True, text=True, timeout=SECONDS
        )
        return done.returncode, done.stdout + done.stderr

    def finished(self, width: int) -> Result:
        """The result of a run to its end."""
        codes, output = self.run(width)
        assert codes == [0] * width, output
        return result(output)

    def resized(self, times: int, random: Random) -> Result:
        """The result after ``times`` stops at random steps, of a random rank, each gone on with at another width."""
        width = random.choice(WIDTHS)
        for step in sorted(random.sample(range(5, STEPS - 5), times)):
            codes, output = self.run(width, (random.randrange(width), step))
            assert codes == [143] * width, output
            width = random.choice([other for other in WIDTHS if other != width])
        return self.finished(width)

    def _environ(self, width: int = 1, rank: int = 0, port: int = 0) -> dict[str, str]:
        path = f"{ROOT}/trainer/src:{EXAMPLES}:{ROOT}"
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "DIGITS": str(self.digits), "OMP_NUM_THREADS": "1"}
        environ |= {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo", "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
        if port and self.name == "jax":
            return environ | {
                "PET_NNODES": str(width), "PET_NODE_RANK": str(rank), "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}"
            }  # fmt: skip
        if port and self.name != "plain":
            environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(width)}
            environ |= {"LOCAL_WORLD_SIZE": str(width), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return environ


def result(output: str) -> Result:
    """From what a finished run prints."""
    found = re.search(r"^done at step (\d+): loss ([\d.]+), accuracy ([\d.]+)$", output, re.M)
    assert found is not None, output
    return Result(int(found[1]), float(found[2]), float(found[3]))


def example(name: str, folder: Path, seed: int = 0) -> Example:
    """One of plain, ddp, jax, huggingface and lightning. The plain one runs in this interpreter, with numpy."""
    python = interpreter(JAX if name in ("plain", "jax") else TORCH_TRAINERS)
    data = digits(interpreter(JAX))
    return Example(name, Path(sys.executable) if name == "plain" else python, data, folder, seed)
