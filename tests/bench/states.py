"""Seconds until each of many jobs on many pools shows a State; API writes for each job that ends, by what is written.

    python -m tests.bench.states [--jobs 1000] [--pools 300] [--ends 100]

Each pool has room for one node, and each job asks for a whole node: as many jobs as there are pools start while the
others wait. The operator is there before the jobs, and surveys and turns have its usual pace. Writes are the
operator's own count, from the first of so many jobs that end, four a second, until the last machine is forgotten;
nothing else waits or runs.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence

from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.loop import LoopTiming
from charterer.controller.surveys import SurveyPace
from tests.bench._bed import measuring_bed
from tests.bench._load import Load
from tests.testbed.bed import API, Bed, group
from tests.testbed.operators import OperatorProcess

_AT_ONCE = 16
_EVERY = 0.25
_ENDS_A_SECOND = 4.0
_PATIENCE = 900.0
_SETTLED_SECONDS = 3.0
_LISTED_SECONDS = 40
"""So long does the cloud list an ended machine: for longer than the operator's surveys are apart."""
_MOST_REQUESTS = 30
_WRITE = re.compile(r'charterer_api_writes_total\{resource="([^"]*)",verb="([^"]*)"\} (\S+)')


async def first_states(jobs: int, pools: int) -> None:
    """Print how long it takes until half, nearly all and all of them show a State."""
    names = [f"p{number}" for number in range(pools)]
    async with measuring_bed(*[group(name, maxSize=1) for name in names], close=False) as bed:
        operator = await _ground(bed, names, max_nodes=1)
        load = Load(bed, operator)
        took = await _until_all_show_a_state(bed, jobs)
        written = _writes(operator)
        spent, plans = (metric(operator, f"charterer_plan_duration_seconds_{what}") for what in ("sum", "count"))
        half, most, last = (f"{_at(took, part):.0f} s" for part in (0.5, 0.95, 1.0))
        print(f"{jobs} jobs on {pools} pools: a State after {half} (half), {most} (95 %), {last} (all)")
        running, number = sum(bed.state(name) == "Running" for name in _names(jobs)), sum(written.values())
        busy = ", ".join(f"{name} {seconds:.0f}" for name, seconds in load.seconds().most_common())
        print(f"  by then {running} run; {number} writes of the operator; seconds of a processor: {busy}")
        print(f"  {plans:.0f} plans that took {spent / max(plans, 1.0):.2f} s each on the clock")
        for what, count in load.requests().most_common(_MOST_REQUESTS):
            print(f"  {count:6}  {what}", flush=True)


async def writes_of_ends(jobs: int) -> None:
    """Print the API writes for each of so many jobs that end, each with its node."""
    pools = [f"p{number}" for number in range(max(jobs // 10, 1))]
    async with measuring_bed(*[group(name, listedSeconds=_LISTED_SECONDS) for name in pools]) as bed:
        operator = await _ground(bed, pools, max_nodes=20)
        await _create(bed, jobs, {})
        await bed.running(*_names(jobs), seconds=_PATIENCE)
        await bed.until(lambda: all(bed.pods(name) for name in _names(jobs)), _PATIENCE)
        before, began = await _settled(operator), time.monotonic()
        for name in _names(jobs):
            await bed.finish(name)
            await asyncio.sleep(1.0 / _ENDS_A_SECOND)
        await bed.until(lambda: not bed.rentals(), _PATIENCE)
        taken = await _settled(operator)
        taken.subtract(before)
        print(
            f"{jobs} jobs that end within {time.monotonic() - began:.0f} s: "
            f"{sum(taken.values()) / jobs:.1f} API writes for each"
        )
        for what, number in taken.most_common():
            if number:
                print(f"  {number / jobs:6.2f}  {what}")


async def _ground(bed: Bed, pools: Sequence[str], *, max_nodes: int) -> OperatorProcess:
    for name in pools:
        await bed.pool(name, maxNodes=max_nodes)
    await bed.budget()
    operator = bed.operator(surveys=SurveyPace(), timing=LoopTiming())
    await bed.until(lambda: metric(operator, "charterer_plan_duration_seconds_count") > 0, _PATIENCE)
    return operator


async def _until_all_show_a_state(bed: Bed, jobs: int) -> Sequence[float]:
    """Seconds of each job from its creation to its first State, in order."""
    created: dict[str, float] = {}
    shown: dict[str, float] = {}
    creating = asyncio.create_task(_create(bed, jobs, created))
    async with asyncio.timeout(_PATIENCE):
        while len(shown) < jobs:
            await asyncio.sleep(_EVERY)
            now = time.monotonic()
            shown |= {name: now for name in created if name not in shown and bed.state(name)}
    await creating
    return sorted(shown[name] - created[name] for name in shown)


async def _create(bed: Bed, jobs: int, created: dict[str, float]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)
    container = {"name": "trainer", "image": "train:1"}
    spec = {"gpus": {"min": 4, "max": 4}, "template": {"spec": {"containers": [container]}}}

    async def create(name: str) -> None:
        body = {"apiVersion": API, "kind": "TrainingJob", "metadata": {"name": name, "namespace": bed.namespace}}
        async with slots:
            await bed.kube.post(TRAINING_JOBS.all(bed.namespace), {**body, "spec": spec})
            created[name] = time.monotonic()

    await asyncio.gather(*(create(name) for name in _names(jobs)))


def _names(jobs: int) -> Sequence[str]:
    return [f"job-{number}" for number in range(jobs)]


def _at(sorted_seconds: Sequence[float], part: float) -> float:
    return sorted_seconds[int(part * (len(sorted_seconds) - 1))]


def _scraped(operator: OperatorProcess) -> str:
    port = re.search(r"metrics on port (\d+)", operator.tail(100_000))
    if port is None:
        return ""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=60) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def _writes(operator: OperatorProcess) -> Counter[str]:
    """API writes so far, by verb and resource."""
    found: Mapping[str, float] = {f"{verb} {name}": float(n) for name, verb, n in _WRITE.findall(_scraped(operator))}
    return Counter({what: round(number) for what, number in found.items()})


async def _settled(operator: OperatorProcess) -> Counter[str]:
    """API writes so far, once no Event waits to be sent any more and no word to be shown."""
    written = Counter[str]()
    while (now := _writes(operator)) != written:
        written = now
        await asyncio.sleep(_SETTLED_SECONDS)
    return written


def metric(operator: OperatorProcess, name: str) -> float:
    """The sum of a metric of the operator over its labels; 0 while it cannot be read."""
    lines = _scraped(operator).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="TrainingJobs (1000); 0: only those that end")
    parser.add_argument("--pools", type=int, default=300, help="GPUPools (300)")
    parser.add_argument("--ends", type=int, default=100, help="jobs that end (100); 0: only States")
    given = parser.parse_args()
    if given.jobs:
        asyncio.run(first_states(given.jobs, given.pools))
    if given.ends:
        asyncio.run(writes_of_ends(given.ends))
