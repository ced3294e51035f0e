"""A class never seen is searched for its width by real JAX jobs, one after the other, beside the best fixed width.

    python -m tests.bench.search_real [--steps 400] [--jobs 3] [--rate 2]

Each job may have one to three pods of one GPU on real kubelets, asks for one, and is restarted to change. A step takes
0.6 s divided by the pods and 0.3 s more, mostly a pause, as if a GPU computed; exchange, checkpoints and restarts are
real. An hour of a job is worth ``--rate`` GPU-hours. Then all widths train at the same time; printed are time and
GPU-hours of each job, its sum in GPU-hours (rate·time + GPU-hours) ÷ that of the best fixed width, and after each job
how far the profile's seconds of a step were off at widths that it had not measured. Time is from the first container's
start to the last step. It needs root (`make nodes training`); other work on the machine makes restarts slower.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charterer.cluster.paths import SPEEDUP_PROFILES
from tests.bench._real_bed import real_bench_bed
from tests.e2e.support import SCRIPTS, Training
from tests.testbed import node_programs
from tests.testbed.frameworks import JAX
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod, jax_pod

WIDTHS = (1, 2, 3)
PRICE = 3.6
"""Dollars for an hour of a node of one GPU."""
CLASS = "regress"
_HOUR = 3600.0
_JOB_SECONDS = 1500.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a job: seconds of time and of GPUs, and its widths in order."""

    seconds: float
    gpu_seconds: float
    widths: Sequence[int]

    def total(self, rate: float) -> float:
        """In GPU-seconds, at so many GPU-hours for an hour of the job."""
        return rate * self.seconds + self.gpu_seconds


def usage(job: Training) -> Usage:
    """Of a job that is complete; each run has its GPUs from its first container's start to its last end."""
    widths, gpu_seconds = [], 0.0
    for run in sorted({line["run"] for line in job.notes("started")}):
        begins = [line["at"] for line in job.notes("started", run=run)]
        ends = [line["at"] for line in job.notes("end", run=run)]
        widths.append(len({line["pod"] for line in job.notes("started", run=run)}))
        gpu_seconds += widths[-1] * (max(ends) - min(begins))
    begin, end = job.notes("started")[0]["at"], max(line["at"] for line in job.notes("end"))
    return Usage(end - begin, gpu_seconds, widths)


def step_seconds(job: Training) -> float:
    """Mean seconds of a step between the first and the last noted step of a job of one run."""
    first, *_, last = job.notes("trained", pod=0)
    return float(last["at"] - first["at"]) / float(last["step"] - first["step"])


def learned(bed: RealBed) -> Mapping[int, Mapping[str, Any]]:
    """What the profile says now, by width: the last phase."""
    raw = bed.mirror.one(SPEEDUP_PROFILES, CLASS, bed.namespace) or {}
    phases = ((raw.get("status") or {}).get("learned") or {}).get("phases") or [{"widths": []}]
    return {width["gpus"]: width for width in phases[-1]["widths"]}


async def measure(bed: RealBed, folder: Path, steps: int, jobs: int, rate: float) -> None:
    """Run the jobs, then the widths, and print."""
    bed.operator()
    await bed.pool(maxNodes=sum(WIDTHS))
    await bed.budget(maxPaysPerHourSaved=f"{rate * PRICE:.2f}")
    python = JAX.ensure()

    def pod(name: str) -> TrainingPod:
        return jax_pod(SCRIPTS / "regress.py", folder / name, python, STEPS=str(steps), PAUSE="0.6", PAUSE_EACH="0.3")

    searched: list[Usage] = []
    known: list[Mapping[int, Mapping[str, Any]]] = []
    for number in range(1, jobs + 1):
        name = f"searched-{number}"
        widths = min(WIDTHS), max(WIDTHS)
        job = await Training.submit(bed, name, pod(name), *widths, profileName=CLASS, resizePolicy="Restart")
        await bed.complete(name, seconds=_JOB_SECONDS)
        searched.append(usage(job))
        known.append(learned(bed))
        print(f"job {number}: widths {searched[-1].widths}", flush=True)
    fixed = [await Training.submit(bed, f"fixed-{width}", pod(f"fixed-{width}"), gpus=width) for width in WIDTHS]
    await bed.complete(*(job.name for job in fixed), seconds=_JOB_SECONDS)
    found = {width: (usage(job), step_seconds(job)) for width, job in zip(WIDTHS, fixed, strict=True)}
    show(searched, known, found, rate)
    await bed.close()


def show(
    searched: Sequence[Usage],
    known: Sequence[Mapping[int, Mapping[str, Any]]],
    fixed: Mapping[int, tuple[Usage, float]],
    rate: float,
) -> None:
    """Print the fixed widths, the jobs beside the best of them, and the errors of the profile."""
    best = min(fixed, key=lambda width: fixed[width][0].total(rate))
    for width, (used, seconds) in fixed.items():
        print(f"fixed width {width}: {_words(used, fixed[best][0], rate)}, a step {seconds:.3f} s")
    for number, (used, widths) in enumerate(zip(searched, known, strict=True), 1):
        print(f"job {number}, widths {used.widths}: {_words(used, fixed[best][0], rate)}")
        for width, said in widths.items():
            if width in fixed:
                error = said["stepSeconds"] / fixed[width][1] - 1.0
                print(f"  width {width}, {said['source']}: a step {said['stepSeconds']:.3f} s, {error:+.1%}")
    print(f"load average {os.getloadavg()[2]:.1f} over the last quarter of an hour")


def _words(used: Usage, best: Usage, rate: float) -> str:
    total = used.total(rate) / best.total(rate)
    return f"{used.seconds:.0f} s, {used.gpu_seconds / _HOUR:.3f} GPU-hours, {total:.2f} of the best fixed width's sum"


async def run(steps: int, jobs: int, rate: float) -> None:
    """Open a cluster of real nodes, and measure."""
    async with real_bench_bed(8, PRICE) as (bed, folder):
        await measure(bed, folder, steps, jobs, rate)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="steps of a job (400)")
    parser.add_argument("--jobs", type=int, default=3, help="jobs one after the other (3)")
    parser.add_argument("--rate", type=float, default=2.0, help="GPU-hours that an hour of a job is worth (2)")
    arguments = parser.parse_args()
    if reason := node_programs.missing():
        sys.exit(reason)
    asyncio.run(run(arguments.steps, arguments.jobs, arguments.rate))


if __name__ == "__main__":
    main()
