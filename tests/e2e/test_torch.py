"""PyTorch in containers on real nodes: resized by restarts under torchrun, and in place.

`make e2e` and `make test-torch` run these; `make test` does not.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.support import REAL_NODES, SCRIPTS, Training
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import torch_pod

pytestmark = REAL_NODES


async def test_ddp_under_torchrun_is_resized_and_every_rank_hears_the_stop(
    real_bed: RealBed, tmp_path: Path, torch_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = torch_pod(SCRIPTS / "regress_torch.py", tmp_path / "ddp", torch_python, torchrun=True)
    job = await Training.submit(real_bed, "ddp", pod, resizePolicy="Restart")
    for run, pods in enumerate((1, 2, 1), 1):
        if run > 1:
            await job.resize(pods)
        await job.noted("trained", pods, run=run, width=pods)
    job.enough()
    await real_bed.complete("ddp")
    assert {line["pod"] for line in job.notes("stop", run=2)} == {0, 1}
    assert [run["outcome"] for run in real_bed.tj("ddp")["runs"][:2]] == ["Stopped", "Stopped"]
    saved = [line["step"] for line in job.notes("stop", pod=0)]
    assert [line["step"] for line in job.notes("restored", pod=0)] == [0, *saved[:-1]], "steps were lost or repeated"
    curve = [line["loss"] for line in job.notes("trained", pod=0)]
    assert curve[-1] < 0.8 * curve[0], "it did not learn"


async def test_a_torch_process_trains_on_while_another_joins_and_leaves_it(
    real_bed: RealBed, tmp_path: Path, torch_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = torch_pod(SCRIPTS / "in_place_torch.py", tmp_path / "place", torch_python, torchrun=False)
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
    assert [len(job.notes("begun", pod=index)) for index in (0, 1)] == [1, 1], "a process was started again"
    steps = [line["step"] for line in job.notes("trained", pod=0)]
    assert steps == sorted(set(steps)), "a step was lost or made twice"
    curve = [line["loss"] for line in job.notes("trained", pod=0)]
    assert curve[-1] < 0.8 * curve[0], "it did not learn"
