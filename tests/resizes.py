"""The examples of examples/training as processes on loopback: at any width, stopped at any step, and gone on with."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests import awaited
from tests.testbed import ports, stop_at
from tests.testbed.build import ROOT
from tests.testbed.frameworks import JAX, TORCH_TRAINERS, Framework, digits
from tests.unit.trainer.inplace.pods import Nursery, Starter, spawned

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
    absent = f"{framework.name} is not installed for tests: run `make {framework.target}`"
    return awaited.have(framework.target, framework.find, absent)


@dataclass(frozen=True)
class Example:
    """A script of ``examples/training``, with its interpreter. ``folder``: its checkpoints.

    ``nursery``: forks processes that have imported its framework, which saves seconds each. ``torchrun``: torchrun
    starts the ranks, all of them in one pod.
    """

    name: str
    python: Path
    digits: Path
    folder: Path
    seed: int = 0
    nursery: Nursery | None = None
    torchrun: bool = False

    def run(self, width: int, stop: tuple[int, int] | None = None, steps: int = STEPS) -> tuple[list[int], str]:
        """Exit codes of ``width`` ranks, and what they print. ``stop``: which rank hears SIGTERM, and at which step.

        Under torchrun its own code, and the signal is its own.
        """
        script = [str(EXAMPLES / self.name / "train.py"), "--steps", str(steps), "--seed", str(self.seed)]
        script += ["--checkpoints", str(self.folder)]
        port = ports.reserve()
        starters = []
        if self.torchrun:
            agent = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(width)]
            stopper = [] if stop is None else [stop_at.__file__, str(stop[1])]
            starters.append((spawned([str(self.python), *agent, *stopper, *script]), self._environ()))
        else:
            for rank in range(width):
                stopper = [stop_at.__file__, str(stop[1])] if stop is not None and stop[0] == rank else []
                starters.append((self._starter([*stopper, *script]), self._environ(width, rank, port)))
        with TemporaryDirectory() as outputs:
            files = [Path(outputs, str(number)) for number in range(len(starters))]
            processes = [start(environ, file) for (start, environ), file in zip(starters, files, strict=True)]
            try:
                codes = [process.wait(SECONDS) for process in processes]
            finally:
                for process in processes:
                    if process.poll() is None:
                        process.send_signal(signal.SIGKILL)
            return codes, "".join(file.read_text(errors="replace") for file in files)

    def finished(self, width: int, steps: int = STEPS) -> Result:
        """The result of a run to its end."""
        codes, output = self.run(width, steps=steps)
        assert set(codes) == {0}, output
        return result(output)

    def resized(self, times: int, random: Random) -> Result:
        """The result after ``times`` stops at random steps, of a random rank, each gone on with at another width."""
        width = random.choice(WIDTHS)
        for step in sorted(random.sample(range(5, STEPS - 5), times)):
            codes, output = self.run(width, (random.randrange(width), step))
            assert set(codes) == {1 if self.torchrun else 143}, output
            width = random.choice([other for other in WIDTHS if other != width])
        return self.finished(width)

    def _starter(self, command: list[str]) -> Starter:
        if self.nursery is not None:
            return self.nursery.script(Path(command[0]), *command[1:])
        return spawned([str(self.python), *command])

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


def example(
    name: str, folder: Path, seed: int = 0, *, nursery: Nursery | None = None, torchrun: bool = False
) -> Example:
    """One of plain, ddp, jax, huggingface and lightning. The plain one runs in this interpreter, with numpy."""
    python = interpreter(JAX if name in ("plain", "jax") else TORCH_TRAINERS)
    data = digits(interpreter(JAX))
    return Example(name, Path(sys.executable) if name == "plain" else python, data, folder, seed, nursery, torchrun)
