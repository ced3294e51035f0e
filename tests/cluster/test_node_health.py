"""Conditions by which other programs say that GPUs of a Node are broken, written on Nodes of a real API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pytest

from charterer.cluster.paths import EVENTS, NODES, TRAINING_JOBS
from tests.cluster.test_own_nodes import create_pool, made, make_node, nodes_of, own_pool
from tests.testbed.bed import Bed, group

BROKEN = "GPUMissing"
DOUBTFUL = "GpuThermalWatch"
UNKNOWN = "ExampleAcceleratorSick"
"""A type that no table of Charterer has."""


def says(bed: Bed, node: str, kind: str, status: str) -> None:
    """Another program writes this condition on the Node, by its status, as those programs do."""
    condition = {"type": kind, "status": status, "reason": "Tested", "message": "as a node agent writes it"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    bed.plane.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "--patch", patch)


def node_of(bed: Bed, job: str) -> str:
    """The Node of the pods of the job's present run."""
    run = str(bed.run(job))
    (name,) = {
        pod["spec"]["nodeName"] for pod in bed.pods(job) if pod["metadata"]["labels"]["charterer.dev/run"] == run
    }
    return str(name)


def is_told(bed: Bed, words: str) -> bool:
    """Whether an Event about a TrainingJob contains these words."""
    events = bed.plane.call("GET", EVENTS.all(bed.namespace))["items"]
    return any(event["regarding"]["kind"] == "TrainingJob" and words in event["note"] for event in events)


def take_part(bed: Bed, status: str) -> Mapping[str, str]:
    """The own pool's condition NodesTakePart once it has this status."""
    said = bed.condition(own_pool(bed), "NodesTakePart")
    return said if said.get("status") == status else {}


@pytest.mark.groups(group("a100", hourlyPrice="1"))
async def test_a_job_leaves_a_node_with_broken_gpus_which_is_replaced_and_told(bed: Bed) -> None:
    """Conditions that no table knows, that are fine, or that are only a doubt move nothing; one written twice moves
    the job once.
    """
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    first = node_of(bed, "train")
    for kind, status in ((UNKNOWN, "True"), (BROKEN, "False"), (DOUBTFUL, "True")):
        says(bed, first, kind, status)
    await bed.job("after")
    await bed.running("after")
    assert (bed.run("train"), node_of(bed, "train")) == (1, first)
    says(bed, first, BROKEN, "True")
    says(bed, first, BROKEN, "True")
    await bed.running_again("train", 1)
    assert node_of(bed, "train") != first
    (record,) = bed.tj("train")["runs"]
    assert record["outcome"] == "Stopped"  # in order, at a checkpoint
    assert bed.tj("train").get("failures", 0) == 0
    await bed.until(lambda: is_told(bed, f"condition {BROKEN} on Node {first}"))
    await bed.until(lambda: bed.mirror.one(NODES, first) is None)
    assert bed.run("train") == 2


@pytest.mark.groups(group("a100", hourlyPrice="1", maxSize=1))
async def test_a_job_waits_for_the_one_machine_of_its_cloud_even_if_the_operator_dies_meanwhile(bed: Bed) -> None:
    """The cloud has no other machine while the broken one is there. A new operator goes on where the other died."""
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    first = node_of(bed, "train")
    says(bed, first, BROKEN, "True")
    await bed.until(lambda: bed.rentals("Draining") or bed.run("train") != 1)
    operator.kill()
    await operator.death()
    operator.restart()
    await bed.running_again("train", 1)
    assert node_of(bed, "train") != first
    assert await bed.launched() == 2


async def test_an_own_node_with_broken_gpus_is_not_used_until_the_condition_goes_and_stays_as_it_was(bed: Bed) -> None:
    """However often the condition comes and goes, nothing is written on the Node."""
    await make_node(bed, "own-a")
    await make_node(bed, "own-b")
    before = await made(bed, "own-a", "own-b")
    bed.operator()
    await bed.budget(amount="0")
    await create_pool(bed)
    await bed.job("train")
    await bed.running("train")
    first = node_of(bed, "train")
    says(bed, first, BROKEN, "True")
    await bed.running_again("train", 1)
    second = node_of(bed, "train")
    assert {first, second} == {"own-a", "own-b"}
    said = await bed.until(lambda: take_part(bed, "False"))
    assert said["reason"] == "BrokenGpus"
    assert f"GPUs of Node {first} are broken (condition {BROKEN})" in said["message"]
    await bed.until(lambda: [raw["status"]["node"] for raw in bed.rentals("Ready")] == [second])
    await bed.job("waits")
    await bed.until(lambda: bed.condition(bed.mirror.one(TRAINING_JOBS, "waits", bed.namespace), "CapacityAvailable"))
    for broken, takes_part in (("False", "True"), ("True", "False"), ("False", "True")):
        says(bed, first, BROKEN, broken)
        await bed.until(partial(take_part, bed, takes_part))
    await bed.running("waits")
    assert node_of(bed, "waits") == first
    assert (bed.run("train"), node_of(bed, "train")) == (2, second)
    for job in ("train", "waits"):
        await bed.finish(job)
    await bed.complete("train", "waits")
    await bed.delete("GPUPool", "own")
    await bed.until(lambda: own_pool(bed) is None and nodes_of(bed) == before)
