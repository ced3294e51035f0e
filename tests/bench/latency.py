"""Seconds from kubectl apply to the first instance, from a ready node to running pods, and of a hand-over.

    python -m tests.bench.latency [--times 10]

Medians over jobs of one node each, one after the other, on a control plane of its own with everything on one machine.
A fake node starts at once, so what is left is Charterer, Kubernetes and the look that is taken at the cloud.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from datetime import datetime

from charterer.cluster.paths import TRAINING_JOBS
from tests.bench._bed import measuring_bed
from tests.testbed.bed import Bed, group


async def measure(times: int) -> None:
    """Print the medians."""
    asked: list[float] = []
    placed: list[float] = []
    handed: list[float] = []
    async with measuring_bed(group("a100", startupSeconds=[0.5])) as bed:
        bed.operator()
        await bed.pool()
        await bed.budget()
        await _one(bed, "warm-up")
        for number in range(times):
            request, pods, hand_over = await _one(bed, f"job-{number}")
            asked.append(request)
            placed.append(pods)
            handed.append(hand_over)
    for name, values in (
        ("from apply to the first instance", asked),
        ("from a ready node to running pods", placed),
        ("hand-over, nothing to wait for", handed),
    ):
        print(f"{name:36} median {statistics.median(values):6.3f} s   {min(values):.3f} - {max(values):.3f}")


async def _one(bed: Bed, name: str) -> tuple[float, float, float]:
    applied = time.time()
    await bed.job(name, gpus=4, resizePolicy="Restart")
    await bed.until(lambda: bed.rentals("Ready"))
    ready = time.time()
    await bed.running(name)
    running = time.time()
    status = bed.rentals()[0]["status"]
    launched = datetime.fromisoformat(status["launchedAt"]).timestamp()
    edited = time.time()
    gpus = {"min": 2, "preferred": 2, "max": 2}
    await bed.kube.merge_patch(TRAINING_JOBS.one(name, bed.namespace), {"spec": {"gpus": gpus}})
    await bed.until(lambda: _runs(bed, name, 2) and bed.state(name) == "Running")
    handed = time.time()
    await bed.finish(name)
    await bed.complete(name)
    await bed.until(lambda: not bed.rentals())
    return launched - applied, running - ready, handed - edited


def _runs(bed: Bed, name: str, run: int) -> bool:
    own = [pod for pod in bed.pods(name) if pod["metadata"]["labels"]["charterer.dev/run"] == str(run)]
    return bool(own) and all(pod["status"].get("phase") == "Running" for pod in own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="jobs to measure (10)")
    asyncio.run(measure(parser.parse_args().times))
