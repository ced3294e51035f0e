"""Bill minus ledger over a replay of a whole measured workload: it must be 0 micro-dollars.

    python -m tests.bench.replay [--jobs 160] [--workload 1] [--faults]

The 160 submissions of a Pollux workload (CHARTERER_DATA_DIR or ../shared/data), eight hours in about two and a half
minutes, each at the number of GPUs its owner asked for; how long each runs is drawn by its application. With --faults
the cloud throttles, errs and loses answers and requests all the while.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import random
import time
from pathlib import Path

from charterer.cluster.paths import GPU_BUDGETS, TRAINING_JOBS
from tests.bench._bed import measuring_bed
from tests.testbed.bed import Bed, group

_FACTOR = 180.0
_SECONDS = {"ncf": 2, "cifar10": 6, "bert": 8, "deepspeech2": 10, "yolov3": 14, "imagenet": 25}


def _submissions(workload: int, jobs: int) -> list[tuple[str, float, str, int]]:
    folder = Path(os.environ.get("CHARTERER_DATA_DIR", "../shared/data"), "pollux", "workloads")
    path = folder / f"workload-{workload}.csv"
    if not path.exists():
        raise SystemExit(f"skipped: {path} is absent; set CHARTERER_DATA_DIR to the folder of the measured data")
    with path.open() as stream:
        rows = list(csv.DictReader(stream))[:jobs]
    return [(row["name"], float(row["time"]), row["application"], int(row["num_replicas"])) for row in rows]


async def measure(workload: int, jobs: int, faults: bool) -> None:
    """Replay and print the difference."""
    submissions = _submissions(workload, jobs)
    async with measuring_bed(
        group("a100", startupSeconds="K80", startupScale=0.02, maxSize=100, listedSeconds=60)
    ) as bed:
        if faults:
            for kind in ("throttle", "error", "lost-answer", "lost-request"):
                fault = {"match": {"path": "/v1/*"}, "times": None, "probability": 0.02, "kind": kind}
                await bed.cloud.admin("POST", "/faults", fault)
        bed.operator()
        await bed.pool(maxNodes=100)
        await bed.budget(amount="10000000")
        began = time.monotonic()
        draw = random.Random(workload)
        await asyncio.gather(*(_submit(bed, *row, draw.uniform(0.5, 1.5)) for row in submissions))
        await bed.until(lambda: _complete(bed) == len(submissions) and not bed.rentals(), 600)
        seconds = time.monotonic() - began
        lines, bill = await bed.cloud.bill()
        ledger = sum(bed.lifetime(raw) for raw in bed.mirror.all(GPU_BUDGETS))
        print(f"{len(submissions)} jobs complete in {seconds:.0f} s on {len(lines)} machines")
        print(f"bill {bill} - ledger {ledger} = {bill - ledger} micro-dollars")


def _complete(bed: Bed) -> int:
    jobs = bed.mirror.all(TRAINING_JOBS, bed.namespace)
    return sum((raw.get("status") or {}).get("state") == "Complete" for raw in jobs)


async def _submit(bed: Bed, name: str, at: float, application: str, asked: int, spread: float) -> None:
    await asyncio.sleep(at / _FACTOR)
    gpus = asked if asked < 4 else -(-asked // 4) * 4
    lasts = f"{_SECONDS[application] * spread:.1f}s"
    await bed.job(name, gpus=2 if gpus == 3 else gpus, annotations={"testbed.charterer.dev/complete-after": lasts})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=160, help="the first so many of the workload (160)")
    parser.add_argument("--workload", type=int, default=1, choices=(1, 2, 3, 4), help="which one (1)")
    parser.add_argument("--faults", action="store_true", help="a cloud that errs")
    given = parser.parse_args()
    asyncio.run(measure(given.workload, given.jobs, given.faults))
