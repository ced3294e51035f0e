"""Seconds that a stopped trainer holds its GPUs after it has saved: by sys.exit(143), and as charterer_trainer ends.

    python -m tests.bench.stops [--ranks 2] [--times 3]

PyTorch's DistributedDataParallel and JAX over gloo on loopback, where they are installed (`make training-torch`).
From the end of the block of ``run()`` to the end of the process: on the clock, and of a core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from pathlib import Path

from tests.testbed import ports
from tests.testbed.build import ROOT
from tests.testbed.frameworks import JAX, TORCH_TRAINERS

BEGIN = """
import os, signal, sys, time
import charterer_trainer
def train():
{train}
    print("LEFT", time.time(), time.process_time(), flush=True)
if sys.argv[1] == "sys.exit":
    train()
    sys.exit(143)
with charterer_trainer.run(exit_seconds=float(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGTERM)
    train()
    assert charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
"""
TORCH = """
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
"""
JAX_PART = """
    charterer_trainer.init_jax()
    import jax
    jax.jit(lambda a: (a @ a).sum())(jax.numpy.ones((64, 64))).block_until_ready()
"""
WAYS = {"sys.exit(143)": ("sys.exit", "0"), "run()": ("run", "5"), "run(exit_seconds=0)": ("run", "0")}


def measured(python: Path, script: str, way: tuple[str, str], ranks: int) -> list[tuple[float, float]]:
    """Of each rank: seconds on the clock and of a core."""
    port = str(ports.reserve())
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/trainer/src", "OMP_NUM_THREADS": "1"}
    environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks), "PET_NNODES": str(ranks)}
    environ |= {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    processes = [
        subprocess.Popen(
            [python, "-c", script, *way],
            env={**environ, "RANK": str(rank), "PET_NODE_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    spent = []
    for process in processes:
        assert process.stdout is not None
        left = next(line.split() for line in process.stdout if line.startswith("LEFT"))
        _, status, usage = os.wait4(process.pid, 0)
        ended, process.returncode = time.time(), os.waitstatus_to_exitcode(status)
        assert process.returncode == 143
        spent.append((ended - float(left[1]), usage.ru_utime + usage.ru_stime - float(left[2])))
    return spent


def main() -> None:
    """Print medians and ranges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    for framework, train in ((TORCH_TRAINERS, TORCH), (JAX, JAX_PART)):
        python = framework.find()
        if python is None:
            print(f"{framework.name} is not installed: make {framework.target}")
            continue
        for name, way in WAYS.items():
            script = BEGIN.replace("{train}", train)
            spent = [each for _ in range(given.times) for each in measured(python, script, way, given.ranks)]
            clock, core = zip(*spent, strict=True)
            span = f"{statistics.median(clock):6.2f} s ({min(clock):.2f} - {max(clock):.2f})"
            print(f"{framework.name:15} {name:20} {span}, {statistics.median(core):.2f} s of a core")


if __name__ == "__main__":
    main()
