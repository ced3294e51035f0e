"""Jobs in real containers, which the operator rents nodes for, resizes and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import REAL_NODES, SCRIPTS, Training
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod, jax_pod

pytestmark = REAL_NODES


@pytest.mark.repeats  # with JAX: the next test
async def test_a_plain_script_is_rented_for_resized_and_paid_to_the_cent(real_bed: RealBed, tmp_path: Path) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = TrainingPod(SCRIPTS / "plain.py", tmp_path / "plain")
    job = await Training.submit(real_bed, "plain", pod, resizePolicy="Restart")
    await job.noted("restored", run=1, pods=1)
    await job.resize(2)
    await job.noted("restored", 2, run=2, pods=2)
    await job.resize(1)
    await job.noted("restored", run=3, pods=1)
    job.enough()
    await real_bed.complete("plain")
    begins = [line["step"] for line in job.notes("restored", pod=0)]
    ends = [line["step"] for line in job.notes("end", pod=0)]
    assert begins == [0, *ends[:-1]]
    assert [line["stopped"] for line in job.notes("end", pod=0)] == [True, True, False]


async def test_a_jax_job_is_resized_and_every_rank_hears_the_stop(
    real_bed: RealBed, tmp_path: Path, jax_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = jax_pod(SCRIPTS / "regress.py", tmp_path / "jax", jax_python)
    job = await Training.submit(real_bed, "jax", pod, resizePolicy="Restart")
    await job.noted("trained", run=1, width=1)
    await job.resize(2)
    await job.noted("trained", 2, run=2, width=2)
    await job.resize(1)
    await job.noted("trained", run=3, width=1)
    job.enough()
    await real_bed.complete("jax")
    assert {line["pod"] for line in job.notes("stop", run=2)} == {0, 1}
    curve = [(line["step"], line["loss"]) for line in job.notes("trained", pod=0)]
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})
    assert [loss for _, loss in curve] == sorted((loss for _, loss in curve), reverse=True)
