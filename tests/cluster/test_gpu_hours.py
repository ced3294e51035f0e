"""spec.gpuHours on a real control plane, with own nodes: a stop in time and in order, said; and a way to go on."""

from __future__ import annotations

from charterer.cluster.paths import GPU_BUDGETS, TRAINING_JOBS
from tests.cluster.test_own_nodes import KIND, create_pool, made, make_node, own_pool
from tests.testbed.bed import Bed

GPUS = 4
STOP_SECONDS = 5 + 180 + 60
"""Before the amount is used up: the grace of the test bed's jobs, the margin, and what a late plan may take."""
RUNS_SECONDS = 5.0


def _used(bed: Bed) -> float:
    record = bed.mirror.one(GPU_BUDGETS, "team")
    assert record is not None
    return float(record["status"]["gpuHours"][0]["used"])


async def test_runs_leave_own_nodes_before_an_amount_is_passed_and_go_on_when_it_is_raised(bed: Bed) -> None:
    await make_node(bed, "own-a", gpus=GPUS)
    await made(bed, "own-a")
    operator = bed.operator()
    await bed.budget(amount="0", gpuHours=[{"gpuType": KIND, "amount": "2"}])
    await create_pool(bed)
    await bed.job("train", gpus=GPUS, resizePolicy="Restart")
    await bed.running("train")
    lowered = f"{GPUS * (STOP_SECONDS + RUNS_SECONDS) / 3_600:.6f}"
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": {"gpuHours": [{"gpuType": KIND, "amount": lowered}]}})
    operator.kill()
    operator.restart()
    await bed.until(lambda: bed.state("train") == "Queued" and bed.tj("train").get("runs"))
    run = bed.tj("train")["runs"][0]
    assert run["outcome"] == "Stopped"
    assert bed.tj("train").get("failures", 0) == bed.tj("train").get("restarts", 0) == 0
    limited = bed.condition(bed.mirror.one(TRAINING_JOBS, "train", bed.namespace), "BudgetLimited")
    assert (limited["status"], limited["reason"]) == ("True", "HardLimit")
    assert f"GPU-hours of {KIND} in spec.gpuHours of GPUBudget team are used" in limited["message"]
    assert f"0.0 of 0.3 {KIND}" in bed.condition(bed.mirror.one(GPU_BUDGETS, "team"), "WithinGpuHours")["message"]
    assert _used(bed) <= float(lowered)
    assert KIND in bed.plane.kubectl("get", "gpubudgets", "-o", "wide")
    assert len(bed.rentals("Ready")) == 1, "the node is there anyway"
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": {"gpuHours": [{"gpuType": KIND, "amount": "2"}]}})
    await bed.running("train")
    assert bed.run("train") == 2
    rental = bed.rentals("Ready")[0]
    assert rental["status"]["gpuType"] == KIND
    assert [use["gpus"] for use in rental["status"]["uses"]] == [GPUS, GPUS]
    await bed.delete("TrainingJob", "train")
    await bed.delete("GPUPool", "own")
    await bed.until(lambda: own_pool(bed) is None)
