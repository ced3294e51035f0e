"""Kueue's AdmissionCheck: queued Jobs run on a budget, whatever Kueue does with each answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charterer.cluster.paths import TRAINING_JOBS
from tests import outcome
from tests.testbed.bed import group
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.bed import KueueBed, install_kueue, open_kueue_bed
from tests.testbed.kueue.stand_in import holds


@pytest.fixture(scope="module")
def with_kueue(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with Kueue's kinds and Charterer's check."""
    asyncio.run(install_kueue(control_plane))
    return control_plane


@pytest.fixture
async def kueue_bed(
    with_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KueueBed]:
    """A bed with the queue ``research``, whose check an operator answers."""
    async with open_kueue_bed(with_kueue, tmp_path, [group("a100")]) as made:
        await made.queue()
        yield made
        if not outcome.failed(request.node):
            await made.close()


async def test_what_no_budget_pays_for_is_told_and_what_needs_no_rented_node_is_let_through(
    kueue_bed: KueueBed,
) -> None:
    bed = kueue_bed
    bed.operator()
    await bed.queued("unpaid", 1)
    await bed.queued("plain", 1, gpus=0)
    await bed.until(lambda: bed.job_pods("plain"))
    await bed.until(lambda: f"no GPUBudget selects namespace {bed.namespace}" in bed.check("unpaid").get("message", ""))
    assert bed.check("unpaid")["state"] == "Pending"
    await bed.budget(mode="Observe")
    await bed.until(lambda: bed.job_pods("unpaid"))
    assert bed.check("unpaid")["message"] == "GPUBudget team observes, and holds nothing"
    await bed.delete_jobs()


async def test_a_queued_job_runs_to_its_end_on_rented_nodes_and_its_ledger_is_the_bill(kueue_bed: KueueBed) -> None:
    bed = kueue_bed
    bed.operator()
    await bed.budget()
    await bed.pool()
    await bed.queued("sft", 2)
    await bed.until(lambda: bed.pods_run("sft", 2))
    (shadow,) = bed.mirror.all(TRAINING_JOBS, bed.namespace)
    assert shadow["spec"]["targetRef"]["kind"] == "Workload"
    pod = bed.job_pods("sft")[0]
    assert pod["metadata"]["labels"]["charterer.dev/run"] == "1"
    await bed.end("sft")
    await bed.until(lambda: holds(bed.queued_job("sft"), "Complete"))
    await bed.until(lambda: bed.state(shadow["metadata"]["name"]) == "Complete")
    await bed.delete_jobs()
