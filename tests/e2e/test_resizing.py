"""Jobs in real containers, which the operator rents nodes for, resizes and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import SCRIPTS, Training
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod

pytestmark = pytest.mark.real_nodes


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
