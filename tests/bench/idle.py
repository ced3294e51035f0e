"""Processor seconds of the operator while nothing happens: jobs that have ended, and jobs that run.

    python -m tests.bench.idle [--ended 1000] [--running 100] [--minutes 10]

The jobs that have ended are made with that status, by the administrator; the others run, each on a node of its own, and
report nothing. Printed are the share of a core, the plans and the API writes in these minutes, for the operator's usual
pace.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.loop import LoopTiming
from charterer.controller.surveys import SurveyPace
from tests.bench._bed import measuring_bed
from tests.bench._load import Load
from tests.bench.states import metric
from tests.testbed.bed import API, Bed, group

_AT_ONCE = 16
_PATIENCE = 1800.0
_SETTLED_SECONDS = 60.0


async def measure(ended: int, running: int, minutes: float) -> None:
    """Print the figures."""
    async with measuring_bed(group("a100", maxSize=running), close=False) as bed:
        await bed.pool(maxNodes=running)
        await bed.budget()
        slots = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(_create(bed, f"ended-{number}", slots, _ended()) for number in range(ended)))
        await asyncio.gather(*(_create(bed, f"run-{number}", slots, None) for number in range(running)))
        operator = bed.operator(surveys=SurveyPace(), timing=LoopTiming())
        await bed.running(*(f"run-{number}" for number in range(running)), seconds=_PATIENCE)
        await asyncio.sleep(_SETTLED_SECONDS)
        counted = ("charterer_plan_duration_seconds_count", "charterer_api_writes_total")
        before, load = [metric(operator, name) for name in counted], Load(bed, operator)
        await asyncio.sleep(60.0 * minutes)
        plans, writes = (metric(operator, name) - past for name, past in zip(counted, before, strict=True))
        spent = load.seconds()["operator"]
        print(f"{ended} jobs that have ended and {running} that run, {minutes:g} minutes in which nothing happens:")
        print(f"  {spent:.1f} s of a processor, {spent / minutes / 0.6:.1f} % of a core")
        print(f"  {plans:.0f} plans, {writes:.0f} API writes")
        for what, count in load.requests().most_common(12):
            print(f"  {count:6}  {what}", flush=True)


def _ended() -> Mapping[str, object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"finish": {"kind": "Complete", "at": now, "reason": "Completed", "message": ""}}


async def _create(bed: Bed, name: str, slots: asyncio.Semaphore, status: Mapping[str, object] | None) -> None:
    spec = {"gpus": {"min": 4, "max": 4}, "template": {"spec": {"containers": [{"name": "t", "image": "train:1"}]}}}
    metadata = {"name": name, "namespace": bed.namespace}
    body = {"apiVersion": API, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    async with slots:
        await bed.kube.post(TRAINING_JOBS.all(bed.namespace), body)
        if status is not None:
            await bed.kube.merge_patch(TRAINING_JOBS.status(name, bed.namespace), {"status": status})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ended", type=int, default=1000, help="jobs that have ended (1000)")
    parser.add_argument("--running", type=int, default=100, help="jobs that run (100)")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes in which nothing happens (10)")
    given = parser.parse_args()
    asyncio.run(measure(given.ended, given.running, given.minutes))
