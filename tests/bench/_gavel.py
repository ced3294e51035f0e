"""Jobs of Gavel's measurements (OSDI'20): seven applications on 1 to 8 GPUs of three types, their sizes drawn."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.workload import Submission
from demo.condense import data_dir

APPLICATIONS = (
    "ResNet-50 (batch size 64)",
    "ResNet-18 (batch size 64)",
    "Transformer (batch size 64)",
    "LM (batch size 20)",
    "Recommendation (batch size 2048)",
    "A3C",
    "CycleGAN",
)
GPU_HOURS: Mapping[str, float] = {"k80": 0.45, "p100": 1.46, "v100": 2.48}
"""GPU types, with dollars of a GPU-hour on demand (Google Cloud's list prices of that time)."""
REFERENCE = "v100"
WIDTHS = (1, 2, 4, 8)
_SIZES = 4
"""The seed of the applications' sizes."""


def need_data() -> None:
    """End with one clear line where the data is absent."""
    path = data_dir() / "gavel" / "simulation_throughputs.json"
    if not path.is_file():
        print(f"skipped: the measured data is not here: {path}; CHARTERER_DATA_DIR names the folder")
        sys.exit(0)


@cache
def throughputs() -> Mapping[str, Mapping[str, Mapping[str, float | None]]]:
    """Steps a second by GPU type, then by model and width, then by the other job on the GPU (``null``: none)."""
    found: Mapping[str, Mapping[str, Mapping[str, float | None]]] = json.loads(
        (data_dir() / "gavel" / "simulation_throughputs.json").read_text()
    )
    return found


def steps_per_second(gpu_type: str, model: str, gpus: int) -> float:
    """The speed of a model that has its GPUs to itself; 0 where it was not measured."""
    return throughputs()[gpu_type].get(str((model, gpus)), {}).get("null") or 0.0


@cache
def applications(gpu_types: Sequence[str] = (REFERENCE,)) -> Mapping[str, Application]:
    """The applications. A job takes 0.3 to 6 hours on one V100; speed is linear between measured widths."""
    rng = random.Random(_SIZES)
    found: dict[str, Application] = {}
    for name in APPLICATIONS:
        hours = math.exp(rng.uniform(math.log(0.3), math.log(6)))
        base = _speeds(REFERENCE, name)[1]
        rates = {
            gpu_type: ({gpus: speed / base / (hours * 3600) for gpus, speed in speeds.items()},)
            for gpu_type in gpu_types
            if (speeds := _speeds(gpu_type, name))
        }
        found[name] = Application(name, (1.0,), rates)
    return found


def _speeds(gpu_type: str, name: str) -> Mapping[int, float]:
    """Steps a second by width; widths that measured slower than a narrower one are left out."""
    speeds: dict[int, float] = {}
    for gpus in WIDTHS:
        speed = steps_per_second(gpu_type, name, gpus)
        if speed > max(speeds.values(), default=0.0):
            speeds[gpus] = speed
    if 2 in speeds and 8 in speeds and 4 not in speeds:
        speeds[4] = (speeds[2] * 2 + speeds[8]) / 3
    for low, high in pairwise(sorted(speeds)):
        for gpus in range(low + 1, high):
            speeds[gpus] = speeds[low] + (speeds[high] - speeds[low]) * (gpus - low) / (high - low)
    return dict(sorted(speeds.items()))


def submissions(jobs: int, seed: int, seconds: float) -> tuple[Submission, ...]:
    """Arrivals at random over ``seconds``; seed 4 goes on with the numbers of the applications' sizes."""
    rng = random.Random(_SIZES)
    for _ in APPLICATIONS:
        rng.uniform(0.0, 1.0)
    if seed != _SIZES:
        rng = random.Random(seed)
    at, found = 0.0, []
    for number in range(jobs):
        at += rng.expovariate(jobs / seconds)
        found.append(Submission(f"j{number}", at, rng.choice(APPLICATIONS), 1))
    return tuple(found)
