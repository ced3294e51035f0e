"""What pods report of their steps and checkpoints, in the status of their job on a real API server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.commands import charterer
from tests.cluster.test_cli import person
from tests.cluster.test_learning import Trainer
from tests.cluster.test_stuck import warned
from tests.testbed.bed import Bed


@pytest.mark.repeats  # tests/e2e/test_faults.py
async def test_a_checkpoint_that_a_stop_would_cut_off_is_a_condition_an_event_and_a_line_of_explain(
    bed: Bed, tmp_path: Path
) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")  # with a grace period of 5 s
    await bed.running("train")
    trainer = Trainer(bed, "train", tmp_path)
    parts = {"computeSeconds": 0.4, "syncSeconds": 0.05, "loadSeconds": 0.05}
    for seconds in (8.0, 10.0):
        await trainer.report(operator, times=1, checkpointSeconds=seconds, **parts)

    def told() -> Mapping[str, str]:
        return bed.condition(bed.mirror.one(TRAINING_JOBS, "train", bed.namespace), "CheckpointTooLong")

    await bed.until(lambda: told().get("status") == "True")
    assert told()["reason"] == "LongerThanGrace"
    assert "takes 9 s and the grace period is 5 s" in told()["message"]
    about = bed.mirror.one(TRAINING_JOBS, "train", bed.namespace)
    assert about is not None
    assert await warned(bed, "LongerThanGrace", about["metadata"]["uid"]) == told()["message"]
    explained = await charterer(person(bed), "explain", "tj/train", "-n", bed.namespace)
    assert f"CheckpointTooLong: {told()['message'][:40]}" in explained.out


@pytest.mark.repeats  # tests/scenarios/policy/test_lying_progress.py
async def test_progress_that_lies_ends_no_run_and_no_node_and_the_last_report_is_the_one_that_counts(
    bed: Bed, tmp_path: Path
) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", resizePolicy="Restart")
    await bed.running("train")
    (node,) = {raw["spec"]["nodeName"] for raw in bed.pods("train")}
    trainer = Trainer(bed, "train", tmp_path)
    await trainer.report(operator, times=1, fraction=1.0, step=10**15, stepSeconds=1e-6)
    await bed.until(lambda: bed.tj("train").get("progressPercent") == 100)
    answer = await trainer.report(operator, times=1, fraction=0.31, step=310)
    assert not answer.stopping
    assert (bed.run("train"), bed.state("train"), bed.tj("train").get("runs", [])) == (1, "Running", [])
    assert {raw["spec"]["nodeName"] for raw in bed.pods("train")} == {node}
    assert await bed.launched() == 1
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": {"suspend": True}})
    await bed.until(lambda: [run["outcome"] for run in bed.tj("train").get("runs", [])] == ["Stopped"])
    assert bed.tj("train")["progress"]["fraction"] == 0.31  # which is written with the end of a run


async def test_a_run_that_does_not_advance_is_stopped_recorded_and_begun_again(bed: Bed, tmp_path: Path) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("hang", stallTimeoutSeconds=2)  # though it is never resized: its owner says so
    await bed.running("hang")
    await Trainer(bed, "hang", tmp_path).report(operator, times=1, step=100)
    await bed.running_again("hang", after=1)
    (record,) = bed.tj("hang")["runs"]
    assert (record["outcome"], bed.tj("hang")["restarts"]) == ("Stalled", 1)
    assert record["message"].startswith("run 1 has not advanced for 2 s while its pods live")
    job = bed.mirror.one(TRAINING_JOBS, "hang", bed.namespace)
    assert job is not None
    assert await warned(bed, "Stalled", job["metadata"]["uid"]) == record["message"]
