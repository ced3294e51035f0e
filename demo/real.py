"""``make demo REAL=1``: JAX jobs train in containers on nodes of this machine, and the operator resizes them.

Only the GPUs and the cloud's bill are simulated. Kubelets, containers, signals, checkpoints and losses are real. The
demo needs root, and what `make nodes training` installs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from charterer.cluster.paths import SPEEDUP_PROFILES
from demo import picture
from demo.picture import Training
from demo.run import empty
from tests.testbed import node_programs
from tests.testbed.bed import API, group
from tests.testbed.frameworks import JAX
from tests.testbed.real_bed import RealBed, open_cluster, open_real_bed
from tests.testbed.training_pods import jax_pod

SCRIPT = Path(__file__).resolve().parents[1] / "tests" / "e2e" / "scripts" / "regress.py"
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
NODES = 3
"""Maximum number of rented nodes. Each node has one GPU."""
_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class RealJob:
    """A job that is submitted at second ``at`` and trains ``steps`` steps.

    A step pauses ``pause`` seconds on one GPU.
    """

    name: str
    at: float
    steps: int
    pause: float


JOBS = (RealJob("early", 0.0, 2400, 0.1), RealJob("second", 40.0, 900, 0.1), RealJob("third", 60.0, 900, 0.1))


async def run(out: Path, console: Console) -> None:
    """Train all jobs and draw their losses. AssertionError if something is left, or if ledger and bill differ."""
    python = JAX.ensure()
    console.print("starting a control plane that real nodes can reach")
    prices = group("a100", instanceType="fake.a100-1x", gpusPerInstance=1, hourlyPrice="3.60", maxSize=NODES)
    with open_cluster(out / "cluster") as cluster:
        async with open_real_bed(cluster, out, [prices]) as bed:
            began = time.time()
            await _submit(bed, out, python, console)
            await bed.complete(*(job.name for job in JOBS), seconds=_SECONDS)
            runs = {job.name: bed.tj(job.name)["runs"] for job in JOBS}
            for job in JOBS:
                widths = [entry["option"]["gpus"] for entry in runs[job.name]]
                console.print(f"{job.name}: complete, with {widths} GPUs one after the other", highlight=False)
            await bed.close()
            _, bill = await bed.bill()
    trained = [read(job.name, out / job.name / "diary.jsonl", began) for job in JOBS]
    files = [out / "training.png", out / "training.svg"]
    picture.draw_training(trained, files)
    console.print(
        f"All nodes are given back; ledger and bill are ${bill / 1e6:.4f}. Picture: {files[0]}", soft_wrap=True
    )


async def _submit(bed: RealBed, out: Path, python: Path, console: Console) -> None:
    bed.operator()
    await bed.pool(maxNodes=NODES)
    await bed.budget(maxPaysPerHourSaved="30")
    curves = [{"gpuType": GPU_TYPE, "power": {"exponent": 0.9, "value": 10}}]
    profile = {
        "apiVersion": API,
        "kind": "SpeedupProfile",
        "metadata": {"name": "digits", "namespace": bed.namespace},
        "spec": {"curves": curves, "meanWork": 120, "restartSeconds": 5},
    }
    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), profile)
    began = time.monotonic()
    for job in JOBS:
        await asyncio.sleep(max(0.0, began + job.at - time.monotonic()))
        folder = out / job.name
        folder.mkdir()
        pod = jax_pod(SCRIPT, folder, python, STEPS=str(job.steps), PAUSE=str(job.pause))
        spec = {"profileName": "digits", "resizePolicy": "Restart", "template": pod.template()}
        await bed.create("TrainingJob", job.name, {"gpus": {"min": 1, "max": NODES}, **spec})
        console.print(f"{job.name}: submitted, to train for {job.steps} steps", highlight=False)


def read(name: str, diary: Path, began: float) -> Training:
    """Read the losses that the job's first process wrote, in seconds from ``began``, as a list for each run."""
    lines: Sequence[Mapping[str, object]] = [json.loads(line) for line in diary.read_text().splitlines()]
    runs: dict[int, list[tuple[float, float, int]]] = {}
    for line in lines:
        if line["what"] == "trained" and line["pod"] == 0:
            at, loss, width = float(str(line["at"])), float(str(line["loss"])), int(str(line["width"]))
            runs.setdefault(int(str(line["run"])), []).append((at - began, loss, width))
    return Training(name, list(runs.values()))


def main() -> None:
    """Run the demo in out/demo-real, which is emptied first."""
    console = Console()
    if reason := node_programs.missing():
        console.print(reason, style="bold red")
        sys.exit(1)
    out = Path("out/demo-real").resolve()
    empty(out)
    asyncio.run(run(out, console))


if __name__ == "__main__":
    main()
