"""The main job on a real control plane: jobs run on rented nodes, and everything rented is given back and paid."""

from __future__ import annotations

import os
from functools import partial

import pytest

from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, NODES, TRAINING_JOBS, Resource
from tests.testbed.bed import Bed


async def test_a_job_runs_on_a_rented_node_until_it_completes_and_the_node_goes_back(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=4)
    await bed.running("train")
    assert len(await bed.instances()) == 1
    assert bed.tj("train")["gpus"] == 4
    await bed.finish("train")
    await bed.complete("train")
    await bed.given_back()
    assert await bed.launched() == 1


@pytest.mark.repeats  # as its image does in tests/e2e/test_operator_pod.py
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a process another uid")
async def test_an_operator_runs_as_a_user_without_a_name(bed: Bed) -> None:
    bed.operator(nameless=True)
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=4)
    await bed.running("train")
    await bed.finish("train")
    await bed.complete("train")


@pytest.mark.repeats  # test_whole_nodes.py; the choice: tests/scenarios
async def test_small_jobs_share_a_node(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    for name in ("one", "two", "three", "four"):
        await bed.job(name, gpus=1)
    await bed.running("one", "two", "three", "four")
    nodes = {pod["spec"]["nodeName"] for name in ("one", "two", "three", "four") for pod in bed.pods(name)}
    assert len(nodes) == 1


@pytest.mark.repeats  # test_rules_runs.py, of placement
async def test_a_job_wider_than_a_node_gets_one_pod_on_each_of_its_nodes(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("wide", gpus=8)
    await bed.running("wide")
    pods = bed.pods("wide")
    assert [pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods] == ["4", "4"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2


@pytest.mark.repeats  # as the next test, and the end of every test
async def test_deleting_a_running_job_frees_its_nodes(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    await bed.delete("TrainingJob", "train")
    await bed.until(lambda: not bed.pods("train") and not bed.mirror.all(NODES))
    await bed.given_back()


async def test_a_job_deleted_without_its_dependents_is_stopped_and_frees_its_nodes_all_the_same(bed: Bed) -> None:
    """So it is too while the garbage collector does not work."""
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    await bed.kube.delete(TRAINING_JOBS.one("train", bed.namespace), propagation="Orphan")
    await bed.until(lambda: not bed.pods("train") and not bed.mirror.all(NODES))
    await bed.given_back()
    (left,) = bed.runs("train")
    assert left["spec"]["suspend"] is True


@pytest.mark.repeats  # test_rules_runs.py, of exits with 0
async def test_a_suspended_job_stops_gives_its_node_back_and_goes_on_in_a_new_run(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    path = TRAINING_JOBS.one("train", bed.namespace)
    await bed.kube.merge_patch(path, {"spec": {"suspend": True}})
    await bed.until(lambda: bed.state("train") == "Suspended")
    await bed.given_back()
    assert bed.tj("train")["runs"][0]["outcome"] == "Stopped"
    await bed.kube.merge_patch(path, {"spec": {"suspend": False}})
    await bed.running("train")
    assert bed.run("train") == 2


@pytest.mark.repeats  # test_rules_runs.py, of exits with 0
async def test_a_job_edited_while_it_runs_is_resized(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", resizePolicy="Restart")
    await bed.running("train")
    gpus = {"min": 1, "preferred": 2, "max": 2}
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": {"gpus": gpus}})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running")
    assert bed.tj("train")["runs"][0]["outcome"] == "Stopped"


async def test_a_budget_and_a_pool_in_use_wait_until_they_are_drained_and_say_so(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", annotations={"testbed.charterer.dev/stop-delay": "2s"})
    await bed.running("train")
    await bed.delete("GPUPool", "a100")
    await bed.delete("GPUBudget", "team")
    for resource, name in ((GPU_POOLS, "a100"), (GPU_BUDGETS, "team")):
        await bed.until(partial(_says, bed, resource, name, "Draining"))
    await bed.given_back()
    await bed.until(lambda: not bed.mirror.all(GPU_POOLS) and not bed.mirror.all(GPU_BUDGETS))


async def test_mode_observe_rents_and_changes_nothing_and_reports_what_it_would_do(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget(mode="Observe")
    await bed.job("train")
    await bed.until(lambda: "would rent 1 more node" in _message(bed, GPU_BUDGETS, "team"))
    assert not bed.rentals()
    assert not bed.runs("train")
    assert await bed.launched() == 0


def _says(bed: Bed, resource: Resource, name: str, reason: str) -> bool:
    return bed.condition(bed.mirror.one(resource, name), "Ready").get("reason") == reason


def _message(bed: Bed, resource: Resource, name: str) -> str:
    return bed.condition(bed.mirror.one(resource, name), "Ready").get("message", "")
