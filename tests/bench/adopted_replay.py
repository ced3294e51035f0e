"""The demo's jobs as TrainingJobs, as labelled plain Jobs and as TrainJobs: bill minus ledger, and completion times.

    python -m tests.bench.adopted_replay [--pace 30] [--jobs 28|160] [--only training-jobs ...]

Three runs, each on a control plane of its own, with the demo's pools, budget, profiles and fake cloud. In all of them a
job's pods end when its work is done at the speed that was measured for its width, and it goes on from a checkpoint:

- training-jobs: 1 to 32 GPUs, restarted at another width, spot allowed, as in the demo. Only they report progress.
- plain-jobs: Indexed Jobs with the adoption label, of pods of one GPU; annotations ask for the same.
- train-jobs: TrainJobs with the label, under the real controllers (`make job-controllers`), at the number of GPUs that
  the owner asked for, which is what the others prefer. Their width is fixed, and they get no spot nodes.

A run takes 90 / pace minutes for the 28 jobs of the demo's hour, 9 h / pace for all 160. Times are the workload's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

from charterer.cluster.paths import GPU_BUDGETS
from demo import scenario
from demo.columns import Column, really_run
from demo.kube import Access, Kube
from demo.replay import TRAINING_JOBS, Kind, Replay
from demo.scenario import NAMESPACE, Scenario, workload
from tests.bench import _adopted_jobs, versus_karpenter
from tests.bench._bed import measuring_plane
from tests.bench._plain_jobs import ended
from tests.testbed import ports
from tests.testbed.bed import Bed, dismantle, make_bed

_KINDS = {"training-jobs": TRAINING_JOBS, "plain-jobs": _adopted_jobs.PLAIN, "train-jobs": _adopted_jobs.TRAIN}
_TAIL_SECONDS = 900.0
"""Seconds after the last submission in which all jobs have to end."""


@asynccontextmanager
async def _bed(of: Scenario, name: str) -> AsyncIterator[Bed]:
    """The demo's objects, and an operator that has seen them."""
    async with measuring_plane() as (plane, directory):
        controllers = _adopted_jobs.controllers(plane, directory / "job-controllers")
        with controllers if name == "train-jobs" else nullcontext():
            bed = await make_bed(plane, directory, scenario.sold(of)["groups"])
            bed.namespace = NAMESPACE
            try:
                objects = [*scenario.load("namespace"), scenario.budget(of, datetime.now(UTC))]
                objects += [*scenario.pools(of, bed.cloud.url), *scenario.profiles(of)]
                objects += [_adopted_jobs.RUNTIME] if name == "train-jobs" else []
                await bed.apply_yaml(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
                port = ports.reserve()
                bed.operator(progress_port=port, progress_url=f"https://localhost:{port}")
                await bed.until(lambda: any(raw.get("status") for raw in bed.mirror.all(GPU_BUDGETS)))
                yield bed
            finally:
                await dismantle(bed)


async def measure(of: Scenario, name: str) -> Column:
    """Replay the jobs as that kind, and print the difference of bill and ledger once the last node has ended."""
    kind = _KINDS[name]
    async with _bed(of, name) as bed, Kube(Access.of(bed.plane.kubeconfig)) as kube:
        replay = Replay(kube, of, kind)
        try:
            async with asyncio.timeout(of.pace.demo_seconds(of.window[1] - of.window[0]) + _TAIL_SECONDS):
                await replay.run()
        except TimeoutError:
            late = [job for job, replayed in replay.jobs.items() if not replayed.finished]
            raise SystemExit(f"FAILED: {', '.join(late)} did not end\n{bed.describe()}") from None
        await bed.until(lambda: not bed.rentals(), 300)
        lines, bill = await bed.bill()
        ledger = sum(bed.lifetime(raw) for raw in bed.mirror.all(GPU_BUDGETS))
        complete = await _complete(kube, kind)
    print(f"{name}: {complete} of {len(replay.jobs)} jobs complete by their own word, on {len(lines)} machines")
    print(f"  bill {bill} - ledger {ledger} = {bill - ledger} micro-dollars", flush=True)
    if complete != len(replay.jobs) or bill != ledger:
        raise SystemExit("FAILED: not all jobs completed, or the ledger is not the bill")
    return really_run(replay.jobs, (), bill / 1e6, len(lines))


async def _complete(kube: Kube, kind: Kind) -> int:
    """How many of the objects that were created say that they are complete."""
    return sum(ended(raw) == "" for raw in await kube.items(kind.path))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pace", type=int, default=30, help="seconds of the workload in one second (30)")
    parser.add_argument("--jobs", type=int, choices=(28, 160), default=28, help="an hour of the workload, or all (28)")
    parser.add_argument("--only", action="append", choices=tuple(_KINDS), help="which kind, may be repeated (all)")
    asked = parser.parse_args()
    wanted = [name for name in _KINDS if name in (asked.only or _KINDS)]
    columns = {name: asyncio.run(measure(workload(asked.pace, asked.jobs), name)) for name in wanted}
    print(versus_karpenter.table(columns))
