"""Memory, and seconds until the first plan, with many TrainingJobs; and API writes while nothing changes.

    python -m tests.bench.scale [--jobs 10000] [--quiet-seconds 60]

The jobs are queued behind a budget of nothing, so none of them runs: what is measured is seeing and thinking. Writes
are the operator's own count (charterer_api_writes_total; its Lease is written by a connection that is not counted).
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
import urllib.request

import psutil

from charterer.cluster.paths import TRAINING_JOBS
from tests.bench._bed import measuring_bed
from tests.testbed.bed import API, Bed, group
from tests.testbed.operators import OperatorProcess


async def measure(jobs: int, quiet_seconds: float) -> None:
    """Print the figures."""
    async with measuring_bed(group("a100"), close=False) as bed:
        await bed.pool()
        await bed.budget(amount="0")
        await _create(bed, jobs)
        began = time.monotonic()
        operator = bed.operator()
        while not _metric(operator, "charterer_plan_duration_seconds_count"):  # noqa: ASYNC110 - another process's metric
            await asyncio.sleep(0.1)
        ready = time.monotonic() - began
        planned = f"{ready:.1f} s from start to the first plan"
        await _settle(operator)
        process = psutil.Process(operator.pid)
        rss = process.memory_info().rss / 2**20
        plans = _metric(operator, "charterer_plan_duration_seconds_count")
        mean = _metric(operator, "charterer_plan_duration_seconds_sum") / plans
        print(f"{jobs} TrainingJobs: {planned}, {rss:.0f} MiB, a plan takes {mean * 1000:.0f} ms (mean of {plans:.0f})")
        before, cpu = _metric(operator, "charterer_api_writes_total"), sum(process.cpu_times()[:2])
        await asyncio.sleep(quiet_seconds)
        writes = _metric(operator, "charterer_api_writes_total") - before
        busy = sum(process.cpu_times()[:2]) - cpu
        print(f"{quiet_seconds:.0f} s in which nothing changes: {writes:.0f} API writes, {busy:.1f} s of CPU")


async def _create(bed: Bed, jobs: int) -> None:
    slots = asyncio.Semaphore(32)
    container = {"name": "trainer", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    spec = {"template": {"spec": {"containers": [container]}}}

    async def create(number: int) -> None:
        metadata = {"name": f"job-{number}", "namespace": bed.namespace}
        async with slots:
            body = {"apiVersion": API, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
            await bed.kube.post(TRAINING_JOBS.all(bed.namespace), body)

    began = time.monotonic()
    await asyncio.gather(*(create(number) for number in range(jobs)))
    print(f"{jobs} TrainingJobs created in {time.monotonic() - began:.0f} s")


async def _settle(operator: OperatorProcess) -> None:
    """Until the first views of all jobs have been written."""
    last, still = -1.0, 0
    while still < 5:
        await asyncio.sleep(1.0)
        now = _metric(operator, "charterer_api_writes_total")
        still = still + 1 if now == last else 0
        last = now


def _metric(operator: OperatorProcess, name: str) -> float:
    """The sum of a metric over its labels; 0 while it cannot be read."""
    port = re.search(r"metrics on port (\d+)", operator.tail(10_000))
    if port is None:
        return 0.0
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return 0.0
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, help="TrainingJobs (10000)")
    parser.add_argument("--quiet-seconds", type=float, default=60.0, help="how long to watch nothing (60)")
    given = parser.parse_args()
    asyncio.run(measure(given.jobs, given.quiet_seconds))
