"""A job whose pods come and go while its processes train on."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.support import REAL_NODES, SCRIPTS, Training
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import jax_pod

pytestmark = REAL_NODES


async def test_a_process_trains_on_while_another_joins_and_leaves_it(
    real_bed: RealBed, tmp_path: Path, jax_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = jax_pod(SCRIPTS / "in_place.py", tmp_path / "place", jax_python)
    job = await Training.submit(real_bed, "place", pod, resizePolicy="InPlace")
    await job.noted("trained", width=1)
    await job.until(lambda: (real_bed.tj("place").get("group") or {}).get("formed") == 1)
    await job.resize(2)
    await job.noted("trained", width=2)
    await job.until(lambda: "resizedFrom" not in real_bed.tj("place"))
    await job.resize(1)
    await job.noted("trained", width=1, generation=3)
    await real_bed.until(lambda: len(real_bed.pods("place")) == 1)
    job.enough()
    await real_bed.complete("place")
    assert len(job.notes("begun", pod=0)) == 1, "the first process was started again"
    assert len(job.notes("begun", pod=1)) == 1
    curve = [(line["step"], line["loss"], line["width"]) for line in job.notes("trained", pod=0)]
    assert [step for step, *_ in curve] == sorted({step for step, *_ in curve}), "a step was lost or made twice"
    assert {width for *_, width in curve} == {1, 2}
    assert curve[-1][1] < 0.5 * curve[0][1], "it did not learn"
