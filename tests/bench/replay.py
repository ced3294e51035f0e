"""Bill minus ledger over a replay of a whole measured workload on each cloud: it must be 0 micro-dollars.

A cloud that does not tell when its machines began and ended, as Azure, may have a ledger above its bill, by no more
than its page says, and never below.

    python -m tests.bench.replay [--cloud fake-counted ...] [--jobs 160] [--workload 1] [--faults]

The 160 submissions of a Pollux workload (CHARTERER_DATA_DIR or ../shared/data), eight hours in about two and a half
minutes, each at the number of GPUs its owner asked for; how long each runs is drawn by its application. The bill is
what the cloud saw. AWS, Azure and Google Cloud are our own servers of their protocols, whose clocks run twenty times as
fast; the price of AWS' spot nodes changes all the while. Karpenter is a real one, with a cloud of ours behind it. With
--faults the fake clouds throttle, err and lose answers and requests, and Azure shows lists that are a minute old, loses
answers and takes spot VMs back.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from charterer.cluster.paths import GPU_BUDGETS, TRAINING_JOBS
from tests.bench._bed import measuring_bed, measuring_plane
from tests.testbed import karpenter
from tests.testbed.aws_bed import TYPE, AwsBed, open_aws_bed
from tests.testbed.azure_bed import CHANGES, AzureBed, open_azure_bed
from tests.testbed.bed import Bed, dismantle, group
from tests.testbed.gcp_bed import open_gcp_bed
from tests.testbed.karpenter_bed import clear_claims, make_karpenter_bed
from tests.testbed.karpenter_process import KarpenterProcess

_FACTOR = 180.0
_PACE, _BEHIND = 20.0, 4 * 3600.0
_SPOT_SECONDS = 5.0
_LIST_LAG = 60.0
_FAULT_SECONDS = 2.0
_LEFT_ALONE = 8
"""So few spot VMs are not taken back, or the last jobs would never end."""
_SECONDS = {"ncf": 2, "cifar10": 6, "bert": 8, "deepspeech2": 10, "yolov3": 14, "imagenet": 25}


def _submissions(workload: int, jobs: int) -> list[tuple[str, float, str, int]]:
    folder = Path(os.environ.get("CHARTERER_DATA_DIR", "../shared/data"), "pollux", "workloads")
    path = folder / f"workload-{workload}.csv"
    if not path.exists():
        raise SystemExit(f"skipped: {path} is absent; set CHARTERER_DATA_DIR to the folder of the measured data")
    with path.open() as stream:
        rows = list(csv.DictReader(stream))[:jobs]
    return [(row["name"], float(row["time"]), row["application"], int(row["num_replicas"])) for row in rows]


async def measure(cloud: str, workload: int, jobs: int, faults: bool) -> None:
    """Replay and print the difference."""
    submissions = _submissions(workload, jobs)
    async with _CLOUDS[cloud](faults) as (bed, node_gpus):
        bed.operator()
        await bed.budget(amount="10000000")
        began = time.monotonic()
        draw = random.Random(workload)
        await asyncio.gather(*(_submit(bed, node_gpus, *row, draw.uniform(0.5, 1.5)) for row in submissions))
        await bed.until(lambda: _complete(bed) == len(submissions), 1200)
        seconds = time.monotonic() - began
        await bed.settle()
        await bed.until(lambda: not bed.rentals(), 600)
        lines, bill = await bed.bill()
        ledger = sum(bed.lifetime(raw) for raw in bed.mirror.all(GPU_BUDGETS))
        print(f"{cloud}: {len(submissions)} jobs complete in {seconds:.0f} s on {len(lines)} machines")
        above, most = ledger - bill, bed.most_above_bill()
        print(f"  bill {bill} - ledger {ledger} = {-above} micro-dollars", flush=True)
        if most:
            each, bound = above // len(lines), most // len(lines)
            print(f"  for each machine {each} above the bill, {bound} at most", flush=True)
        if not 0 <= above <= most:
            raise SystemExit("FAILED: the ledger is not what the cloud's page promises")


@asynccontextmanager
async def _fake(orders: str, faults: bool) -> AsyncIterator[tuple[Bed, int]]:
    sold = group("a100", orders=orders, startupSeconds="K80", startupScale=0.02, maxSize=100, listedSeconds=60)
    async with measuring_bed(sold) as bed:
        if faults:
            for kind in ("throttle", "error", "lost-answer", "lost-request"):
                fault = {"match": {"path": "/v1/*"}, "times": None, "probability": 0.02, "kind": kind}
                await bed.cloud.admin("POST", "/faults", fault)
        await bed.pool(maxNodes=100)
        yield bed, 4


@asynccontextmanager
async def _aws(is_group: bool, faults: bool) -> AsyncIterator[tuple[Bed, int]]:
    async with (
        measuring_plane() as (plane, directory),
        open_aws_bed(plane, directory, pace=_PACE, behind_seconds=_BEHIND) as bed,
    ):
        await bed.aws_pool(group=is_group, spot=not is_group, maxNodes=100)
        changing = asyncio.create_task(_change_prices(bed))
        try:
            yield bed, 8
            await bed.close()
        finally:
            changing.cancel()


async def _change_prices(bed: AwsBed) -> None:
    for dollars in itertools.cycle(("10.25", "9.75", "11.125", "8.999999")):
        await asyncio.sleep(_SPOT_SECONDS)
        for zone in ("us-east-1a", "us-east-1b"):
            bed.account.set_spot_price(TYPE, zone, dollars)


@asynccontextmanager
async def _gcp(is_group: bool, faults: bool) -> AsyncIterator[tuple[Bed, int]]:
    async with (
        measuring_plane() as (plane, directory),
        open_gcp_bed(plane, directory, pace=_PACE, behind_seconds=_BEHIND) as bed,
    ):
        await bed.gcp_pool(group=is_group, spot=not is_group, maxNodes=100)
        yield bed, 8
        await bed.close()


@asynccontextmanager
async def _azure(kind: str, faults: bool) -> AsyncIterator[tuple[Bed, int]]:
    async with (
        measuring_plane() as (plane, directory),
        open_azure_bed(plane, directory, pace=_PACE, behind_seconds=_BEHIND) as bed,
    ):
        await bed.azure_pool(kind, spot=faults, maxNodes=100)
        losing = asyncio.create_task(_disturb(bed) if faults else asyncio.sleep(0))
        try:
            yield bed, 8
            losing.cancel()
            bed.subscription.clock.advance(_BEHIND)  # a pool goes when a list is younger than its deletion
            await bed.close()
        finally:
            losing.cancel()


async def _disturb(bed: AzureBed) -> None:
    """Let lists be a minute old, lose answers to changes before or after they took effect, and take VMs back."""
    bed.subscription.list_lag = _LIST_LAG
    for change, takes_effect in itertools.cycle(itertools.product(CHANGES, (True, False))):
        await asyncio.sleep(_FAULT_SECONDS)
        with bed.subscription.lock:
            bed.subscription.faults.planned.clear()
            bed.subscription.faults.lose_answer(change, takes_effect=takes_effect)
            if (change, takes_effect) == (CHANGES[0], True) and len(running := bed.alive()) > _LEFT_ALONE:
                bed.subscription.evict(running[0].id)


@asynccontextmanager
async def _karpenter(faults: bool) -> AsyncIterator[tuple[Bed, int]]:
    files = karpenter.find()
    if files is None:
        raise SystemExit("skipped: Karpenter has not been built: run `make karpenter`")
    async with measuring_plane() as (plane, directory):
        with KarpenterProcess.start(plane, files, directory / "karpenter") as running:
            bed = await make_karpenter_bed(plane, directory, running)
            try:
                await bed.claim_pool(max_nodes=100)
                yield bed, 8
                await bed.close()
            finally:
                await clear_claims(bed)
                await dismantle(bed)


_CLOUDS: Mapping[str, Callable[[bool], AbstractAsyncContextManager[tuple[Bed, int]]]] = {
    "fake-counted": partial(_fake, "counted"),
    "fake-named": partial(_fake, "named"),
    "fake-replying": partial(_fake, "replying"),
    "aws-fleet": partial(_aws, False),
    "aws-group": partial(_aws, True),
    "azure-uniform": partial(_azure, "uniform"),
    "azure-flexible": partial(_azure, "flexible"),
    "azure-aks": partial(_azure, "aks"),
    "gcp-template": partial(_gcp, False),
    "gcp-group": partial(_gcp, True),
    "karpenter": _karpenter,
}


def _complete(bed: Bed) -> int:
    jobs = bed.mirror.all(TRAINING_JOBS, bed.namespace)
    return sum((raw.get("status") or {}).get("state") == "Complete" for raw in jobs)


async def _submit(bed: Bed, node_gpus: int, name: str, at: float, application: str, asked: int, spread: float) -> None:
    await asyncio.sleep(at / _FACTOR)
    gpus = 2 ** (asked - 1).bit_length() if asked < node_gpus else -(-asked // node_gpus) * node_gpus
    lasts = f"{_SECONDS[application] * spread:.1f}s"
    annotations = {"testbed.charterer.dev/complete-after": lasts}
    await bed.job(name, gpus=gpus, annotations=annotations, spotPolicy="Allowed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", action="append", choices=tuple(_CLOUDS), help="which one, may be repeated (all)")
    parser.add_argument("--jobs", type=int, default=160, help="the first so many of the workload (160)")
    parser.add_argument("--workload", type=int, default=1, choices=(1, 2, 3, 4), help="which one (1)")
    parser.add_argument("--faults", action="store_true", help="fake clouds, and Azure, that err")
    given = parser.parse_args()
    for each in given.cloud or _CLOUDS:
        asyncio.run(measure(each, given.workload, given.jobs, given.faults))
