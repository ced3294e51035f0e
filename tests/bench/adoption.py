"""Adopted Jobs on the test bed: seconds from create to Running beside a plain Job, and pods made before a hold.

    python -m tests.bench.adoption [JOBS]

A node with free GPUs is there in both cases. The second figure must be 0, however quickly Jobs are created.
"""

from __future__ import annotations

import asyncio
import sys
from statistics import median

from charterer.cluster.client import RawObject
from charterer.cluster.paths import JOBS, PODS
from tests.bench._bed import measuring_plane
from tests.cluster.adopted_jobs import create, delete_jobs, end_pods, plain_job, running
from tests.testbed.bed import Bed, dismantle, group, make_bed

_TRIES = 5
_AT_ONCE = 32


def _unlabelled(name: str) -> RawObject:
    """The same Job without the label; its author lets its pods onto nodes with GPUs."""
    body = {**plain_job(name, gpus=2), "metadata": {"name": name}}
    body["spec"]["template"]["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return body


async def _seconds(bed: Bed, body: RawObject) -> float:
    """Seconds from create to the first running pod; the Job ends then, and its node stays."""
    began, name = asyncio.get_running_loop().time(), body["metadata"]["name"]
    await create(bed, body)
    await bed.until(lambda: running(bed, name))
    seconds = asyncio.get_running_loop().time() - began
    await end_pods(bed, name)
    await bed.until(lambda: not running(bed, name))
    return seconds


async def _held(bed: Bed, number: int) -> tuple[int, int]:
    """How many of so many Jobs are stored suspended, and the pods that were made for them, while no operator runs."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(index: int) -> bool:
        async with slots:
            stored = await create(bed, plain_job(f"held-{index}"))
            return bool(stored["spec"]["suspend"])

    suspended = sum(await asyncio.gather(*(one(index) for index in range(number))))
    await bed.until(lambda: len(bed.mirror.all(JOBS, bed.namespace)) >= number)
    pods = (await bed.kube.list(PODS.all(bed.namespace))).items
    return suspended, sum(pod["metadata"]["name"].startswith("held-") for pod in pods)


async def _measure(bed: Bed, number: int) -> None:
    await bed.budget()
    suspended, pods = await _held(bed, number)
    print(f"{number} Jobs created {_AT_ONCE} at a time: {suspended} stored suspended, {pods} pods made before the hold")
    await delete_jobs(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("first", gpus=2))
    await bed.until(lambda: running(bed, "first"))  # the other half of its node is there for those that follow
    adopted, plain = [], []
    for index in range(_TRIES):
        adopted.append(await _seconds(bed, plain_job(f"adopted-{index}", gpus=2)))
        plain.append(await _seconds(bed, _unlabelled(f"plain-{index}")))
    ratio = median(adopted) / median(plain)
    print(f"create to Running, median of {_TRIES}: adopted {median(adopted):.2f} s, plain {median(plain):.2f} s")
    print(
        f"adopted {[round(each, 2) for each in adopted]}, plain {[round(each, 2) for each in plain]}; ratio {ratio:.1f}"
    )
    await delete_jobs(bed)


async def main() -> None:
    """Print the figures."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    async with measuring_plane() as (plane, directory):
        bed = await make_bed(plane, directory, (group("a100"),))
        try:
            await _measure(bed, number)
        finally:
            await dismantle(bed)


if __name__ == "__main__":
    asyncio.run(main())
