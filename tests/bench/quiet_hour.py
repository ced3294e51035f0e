"""An hour without a fault on real nodes: findings, moves and replaced nodes, which should be none; memory; the bill.

    python -m tests.bench.quiet_hour [--minutes 60]

Two JAX jobs of one class train with two pods each on real kubelets. A step computes for half a second (mostly a pause,
as if a GPU computed) and waits for the other rank. Printed are all conditions that say what holds a job up, Warnings,
changes of width, nodes replaced and rented, operator and trainers in MiB five minutes after the start and at the end,
and ledger and bill. Other work on the machine makes it harder; its load is printed. `tests/e2e/test_faults.py` shows
that faults of such jobs are told. It needs root (`make nodes training`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from charterer.cluster.paths import EVENTS, GPU_BUDGETS, TRAINING_JOBS
from charterer.domain.reports import BottleneckKind
from tests.bench._real_bed import real_bench_bed
from tests.e2e.support import SCRIPTS, Training
from tests.testbed import cgroups, node_programs
from tests.testbed.frameworks import JAX
from tests.testbed.operators import OperatorProcess
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import jax_pod

JOBS, PODS = ("first", "second"), 2
SCRIPT = SCRIPTS / "regress.py"
_MEBI = 1 << 20
_WARM_SECONDS = 300.0
_LOOK_SECONDS = 5.0


@dataclass(slots=True)
class Seen:
    """What was seen: ``memory`` in MiB by who has it, one value a look, after the first five minutes."""

    findings: set[str] = field(default_factory=set)
    memory: dict[str, list[float]] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)

    def look(self, bed: RealBed, operator: OperatorProcess, warm: bool) -> None:
        """Look once."""
        self.loads.append(os.getloadavg()[0])
        for name in JOBS:
            raw = bed.mirror.one(TRAINING_JOBS, name, bed.namespace)
            conditions = [bed.condition(raw, kind) for kind in BottleneckKind]
            told = [condition for condition in conditions if condition.get("status") == "True"]
            self.findings |= {f"{name}: {condition['type']}: {condition['message']}" for condition in told}
        if warm:
            for who, resident in {"operator": _resident(operator.pid), **_trainers(bed)}.items():
                self.memory.setdefault(who, []).append(resident / _MEBI)


def _resident(pid: int) -> int:
    resident: int = psutil.Process(pid).memory_info().rss
    return resident


def _trainers(bed: RealBed) -> Mapping[str, int]:
    """Bytes of each trainer, by its node."""
    found = {}
    for node in bed.cluster.nodes.values():
        for pid in cgroups.processes(node.cgroup):
            if any(part.endswith(f"/{SCRIPT.name}") for part in psutil.Process(pid).cmdline()):
                found[f"trainer on {node.name}"] = _resident(pid)
    return found


async def watch(bed: RealBed, operator: OperatorProcess, seconds: float) -> Seen:
    """Look for that long."""
    seen, begin = Seen(), time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        seen.look(bed, operator, passed >= min(_WARM_SECONDS, seconds / 2))
        await asyncio.sleep(_LOOK_SECONDS)
    return seen


async def warnings(bed: RealBed) -> set[str]:
    """What Events of type Warning in the jobs' namespace say."""
    events = (await bed.kube.list(EVENTS.all(bed.namespace))).items
    return {
        f"{raw['regarding']['kind']} {raw['regarding']['name']}: {raw['reason']}: {raw.get('note', '')}"
        for raw in events
        if raw["type"] == "Warning"
    }


async def measure(bed: RealBed, folder: Path, minutes: float) -> None:
    """Train for so long, and print."""
    operator = bed.operator()
    await bed.pool(maxNodes=2 * len(JOBS) * PODS)
    await bed.budget()
    python = JAX.ensure()
    jobs = []
    for name in JOBS:
        pod = jax_pod(SCRIPT, folder / name, python, PAUSE="1")
        jobs.append(await Training.submit(bed, name, pod, PODS, profileName="regress", resizePolicy="Restart"))
    for job in jobs:
        await job.noted("trained", PODS, run=1)
    print(f"all pods train at {time.strftime('%H:%M:%S')}", flush=True)
    seen = await watch(bed, operator, 60 * minutes)
    told = await warnings(bed)
    for job in jobs:
        job.enough()
    await bed.complete(*JOBS)
    for job in jobs:
        status = bed.tj(job.name)
        counts = ", ".join(f"{key} {status.get(key, 0)}" for key in ("restarts", "failures", "nodesReplaced"))
        moves = len(status.get("moves") or ())
        print(f"{job.name}: {job.notes('end')[-1]['step']} steps, runs {status['lastRun']}, moves {moves}, {counts}")
    print(f"findings: {len(seen.findings)}", *sorted(seen.findings), sep="\n  ")
    print(f"Warnings: {len(told)}", *sorted(told), sep="\n  ")
    print(f"nodes rented: {await bed.launched()} for {len(JOBS) * PODS} pods")
    for who, resident in sorted(seen.memory.items()):
        first, last = (median(part) for part in (resident[:12], resident[-12:]))
        print(f"{who}: {first:.1f} MiB at first, {last:.1f} at the end, {max(resident):.1f} at most")
    print(f"load averages {min(seen.loads):.1f} to {max(seen.loads):.1f}, median {median(seen.loads):.1f}")
    await bed.until(lambda: not bed.rentals(), 120)
    ledger = sum(bed.lifetime(raw) for raw in bed.mirror.all(GPU_BUDGETS))
    print(f"ledger - bill: {ledger} - {(await bed.bill())[1]} micro-dollars")
    await bed.close()


async def run(minutes: float) -> None:
    """Open a cluster of real nodes, and measure."""
    async with real_bench_bed(8) as (bed, jobs):
        await measure(bed, jobs, minutes)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="for how long (60)")
    arguments = parser.parse_args()
    if reason := node_programs.missing():
        sys.exit(reason)
    asyncio.run(run(arguments.minutes))


if __name__ == "__main__":
    main()
