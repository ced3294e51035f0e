"""Faults in real processes: a CPU, a network and a disk that are slow, a rank that hangs, a disk that is full."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.outcome import Executor
from charterer.domain.reports import BottleneckKind
from charterer.estimate import bottlenecks
from tests.e2e.support import REAL_NODES, Training, parts_pod
from tests.testbed.node_host import small_disk
from tests.testbed.nodes import RealNode
from tests.testbed.real_bed import RealBed

pytestmark = REAL_NODES
FOUND_SECONDS = 720
REPORT_SECONDS = 1
"""For a finding it takes 28 reports, which at the usual pace is five minutes. A step takes half a second."""
SAVE_EVERY = "20"
"""Steps, of which each takes more than a second on a slow network; two checkpoints show that they are too long. While a
checkpoint is written the other pod's sum arrives, so the next step does not wait: with 10 steps three of 30 reports say
so, and the finding takes 28."""
PRICE = re.compile(r"\$\d+\.\d\d an hour")


def node_of(bed: RealBed, job: str, pod: int) -> RealNode:
    """The node on which that pod of the job's first run is."""
    (raw,) = [raw for raw in bed.pods(job) if raw["metadata"]["name"].startswith(f"{job}-r1-{pod}-")]
    return bed.cluster.nodes[raw["spec"]["nodeName"]]


def held_up(bed: RealBed, job: str) -> Mapping[str, str]:
    """What its conditions say of bottlenecks, by type."""
    raw = bed.mirror.one(TRAINING_JOBS, job, bed.namespace)
    return {kind: found["message"] for kind in BottleneckKind if (found := bed.condition(raw, kind)).get("message")}


@dataclass(frozen=True, slots=True)
class EachReportCounts:
    """In the operator's process all reports are evidence, however soon after the one before they come."""

    def around(self, executor: Executor) -> Executor:
        """The executor as it is."""
        setattr(bottlenecks, "_LEAST_SECONDS", 0.0)  # noqa: B010 - it is Final
        return executor


async def test_a_throttled_node_is_replaced_and_a_slow_network_and_disk_are_told_with_their_price(
    real_bed: RealBed, tmp_path: Path
) -> None:
    real_bed.operator(report_seconds=REPORT_SECONDS, killer=EachReportCounts())
    await real_bed.pool(maxNodes=5)
    await real_bed.budget()
    throttled = await Training.submit(
        real_bed, "throttled", parts_pod(tmp_path / "throttled"), gpus=2, resizePolicy="Restart"
    )
    pod = parts_pod(tmp_path / "waits", grace_seconds=1, SAVE_EVERY=SAVE_EVERY)
    waits = await Training.submit(real_bed, "waits", pod, gpus=2, resizePolicy="Restart")
    for job in (throttled, waits):
        await job.noted("trained", 2)
    slow, far = node_of(real_bed, "throttled", 1), node_of(real_bed, "waits", 0)
    (rental,) = [raw["metadata"]["name"] for raw in real_bed.rentals() if raw["status"].get("node") == slow.name]
    slow.throttle(cores=0.015)
    far.slow_network(bits_per_second=2_500_000)
    far.slow_disk(tmp_path, bytes_per_second=500_000)
    told: dict[str, dict[str, str]] = {"throttled": {}, "waits": {}}

    def all_found() -> bool:
        for job, messages in told.items():
            messages.update(held_up(real_bed, job))
        return (len(told["throttled"]), len(told["waits"])) == (1, 3)

    await real_bed.until(all_found, FOUND_SECONDS)
    (slow_worker,) = told["throttled"].values()
    assert slow_worker.startswith(f"pod 1 of run 1 on GPURental {rental} computes ")
    assert told["throttled"].keys() == {BottleneckKind.SLOW_WORKER}
    waiting = told["waits"]
    assert waiting[BottleneckKind.INPUT_STARVED].startswith("pod 0 of run 1 on GPURental ")
    assert waiting[BottleneckKind.SYNC_BOUND].startswith("all ranks wait for each other in ")
    assert "and the grace period is 1 s" in waiting[BottleneckKind.CHECKPOINT_TOO_LONG]
    assert all(PRICE.search(message) for message in (slow_worker, *waiting.values()))

    await throttled.noted("restored", 2, run=2)
    status = real_bed.tj("throttled")
    assert [run["outcome"] for run in status["runs"]] == ["Stopped"]
    assert status["nodesReplaced"] == 1
    assert rental not in {place["rental"] for place in status["allocation"]["placements"]}
    for job in (throttled, waits):
        job.enough()
    await real_bed.complete("throttled", "waits")


@pytest.mark.repeats  # on simulated nodes: tests/cluster/test_bottlenecks.py
async def test_a_sum_that_one_rank_never_enters_ends_the_run_and_the_next_goes_on_from_its_checkpoint(
    real_bed: RealBed, tmp_path: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = parts_pod(tmp_path / "hangs", grace_seconds=1, SAVE_EVERY="5")
    job = await Training.submit(real_bed, "hangs", pod, gpus=2, resizePolicy="Restart", stallTimeoutSeconds=25)
    await job.noted("saved", 2)
    (job.folder / "hang").write_text("1")
    (run,) = await job.ended_runs()
    assert run["outcome"] == "Stalled"
    assert run["message"].startswith("run 1 has not advanced for 25 s while its pods live")
    saved = job.notes("saved", run=1)[-1]["step"]
    begins = await job.noted("restored", 2, run=2)
    assert {line["step"] for line in begins} == {saved}
    await job.noted("saved", run=2)
    job.enough()
    await real_bed.complete("hangs")
    assert (real_bed.tj("hangs")["restarts"], real_bed.tj("hangs").get("failures", 0)) == (1, 0)


@pytest.mark.repeats  # tests/unit/trainer/test_checkpoints.py; tests/cluster/test_faults.py
async def test_a_disk_that_is_full_costs_the_steps_since_the_last_checkpoint_and_says_so(
    real_bed: RealBed, tmp_path: Path
) -> None:
    with small_disk("full", kilobytes=3_600) as disk:  # room for three checkpoints
        real_bed.operator()
        await real_bed.pool(maxNodes=1)
        await real_bed.budget()
        pod = parts_pod(tmp_path / "full", saves=disk, SAVE_EVERY="5")
        job = await Training.submit(real_bed, "full", pod, resizePolicy="Restart")
        (run,) = await job.ended_runs()
        assert run["outcome"] == "Failed"
        assert "No space left on device" in run["message"]
        there = sorted(path.name for path in disk.glob("[!.]*"))
        assert there == ["step-000005.json", "step-000010.json", "step-000015.json"]
        for name in there[:2]:  # its owner makes room
            (disk / name).unlink()
        (begin,) = await job.noted("restored", run=2)
        assert begin["step"] == 15
        await job.noted("saved", run=2)
        job.enough()
        await real_bed.complete("full")
