"""Seconds until the jobs of a long queue, created at once, show a State, and until the end of a job is shown.

    python -m tests.bench.queue [--jobs 3000] [--seconds 150]

A few of the jobs run, for a second each, on ten nodes; the others wait. Requests are the API server's own count, of the
kinds that nobody but the operator asks for while it is measured. The mirror, which follows every object, is in the same
process as the jobs' creation, and takes its share of the processors.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import time
from collections import Counter

import psutil

from charterer.cluster.client import RawObject
from charterer.cluster.lease import LeaseTimes
from charterer.cluster.paths import TRAINING_JOBS
from tests.bench._bed import measuring_bed
from tests.testbed.bed import API, Bed, group

_COUNTED = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Watched:
    """When each job was first seen, first showed a State, had its end on record, and showed it: seconds."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self.created: dict[str, float] = {}
        self.shown: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.told: dict[str, float] = {}

    def look(self) -> bool:
        """Take note of what every job shows now."""
        now = time.monotonic()
        for raw in self._bed.mirror.all(TRAINING_JOBS):
            name, status = raw["metadata"]["name"], raw.get("status") or {}
            self.created.setdefault(name, now)
            if "state" in status:
                self.shown.setdefault(name, now)
            if "finish" in status:
                self.ended.setdefault(name, now)
            if status.get("state") == "Complete":
                self.told.setdefault(name, now)
        return False


async def measure(jobs: int, seconds: float) -> None:
    """Print the figures."""
    async with measuring_bed(group("a100"), close=False) as bed:
        operator = bed.operator(lease=LeaseTimes())
        await bed.pool()
        await bed.budget()
        await bed.job("first", annotations={"testbed.charterer.dev/complete-after": "1s"})
        await bed.complete("first")
        before, process = await _requests(bed), psutil.Process(operator.pid)
        cpu = sum(process.cpu_times()[:2])
        seen, began = Watched(bed), time.monotonic()
        watching = asyncio.create_task(_look(seen))
        await _create(bed, jobs)
        print(f"{jobs} TrainingJobs created in {time.monotonic() - began:.0f} s")
        while len(seen.shown) <= jobs and time.monotonic() - began < seconds:  # noqa: ASYNC110 - another task looks
            await asyncio.sleep(0.2)
        all_shown, asked = time.monotonic() - began, await _requests(bed)
        print(
            f"a State: half after {_until(seen.shown, jobs // 2, began)}, all after {_until(seen.shown, jobs, began)}"
        )
        await asyncio.sleep(max(began + seconds - time.monotonic(), 0))
        watching.cancel()
        late = [at - seen.ended[name] for name, at in seen.told.items() if name in seen.ended]
        print(
            f"in {seconds:.0f} s {len(seen.ended) - 1} jobs ended on record, {len(seen.told) - 1} of them shown; "
            f"late by {statistics.median(late):.1f} s (median), {max(late):.1f} s (most)"
        )
        print(f"the operator took {sum(process.cpu_times()[:2]) - cpu:.0f} s of processor in {seconds:.0f} s")
        print(f"requests until all showed a State ({all_shown:.0f} s), for each job:")
        for what, count in sorted((asked - before).items()):
            print(f"  {what:40} {count / jobs:6.2f}")


async def _look(seen: Watched) -> None:
    while True:
        seen.look()
        await asyncio.sleep(0.25)


async def _create(bed: Bed, jobs: int) -> None:
    slots = asyncio.Semaphore(32)
    container = {"name": "trainer", "image": "train:1"}
    annotations = {"testbed.charterer.dev/complete-after": "1s"}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}

    async def create(number: int) -> None:
        metadata = {"name": f"job-{number}", "namespace": bed.namespace}
        async with slots:
            spec = {"gpus": {"min": 4, "max": 4}, "template": template}
            body: RawObject = {"apiVersion": API, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
            await bed.kube.post(TRAINING_JOBS.all(bed.namespace), body)

    await asyncio.gather(*(create(number) for number in range(jobs)))


async def _requests(bed: Bed) -> Counter[str]:
    """Requests so far for TrainingJobs and their statuses, and dry runs, by verb and resource."""
    counted: Counter[str] = Counter()
    async for line in bed.kube.lines("/metrics", query={}):
        if match := _COUNTED.match(line):
            labels = dict(_LABEL.findall(match[1]))
            resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
            if labels["verb"] not in ("WATCH", "LIST") and (
                resource.startswith("trainingjobs") or (resource == "jobs" and labels["dry_run"])
            ):
                counted[f"{labels['verb']} {resource}{' (dry run)' * bool(labels['dry_run'])}"] += int(float(match[2]))
    return counted


def _until(times: dict[str, float], number: int, began: float) -> str:
    """Seconds until so many had come."""
    return f"{sorted(times.values())[number - 1] - began:.0f} s" if len(times) >= number else "(not in that time)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3_000, help="TrainingJobs (3000)")
    parser.add_argument("--seconds", type=float, default=150.0, help="how long to measure (150)")
    given = parser.parse_args()
    asyncio.run(measure(given.jobs, given.seconds))
