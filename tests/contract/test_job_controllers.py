"""What the real controllers of JobSets and TrainJobs do with the fields that Charterer writes, at each moment."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import NODES, Resource
from tests.contract.adopted_objects import (
    JOB_SETS,
    NAMESPACE,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    AdoptedWorld,
    condition,
    job_set,
    replicated_job,
    train_job,
    training_runtime,
)
from tests.contract.runs import node
from tests.testbed.controlplane import ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses

pytestmark = [
    pytest.mark.xdist_group("job_controllers"),
    pytest.mark.repeats,  # what these programs do by themselves, on which test_target_kinds.py relies
]
MakeObject: TypeAlias = Callable[[RawObject], Awaitable[AdoptedWorld]]
Operation: TypeAlias = Mapping[str, Any]
PLACE = "charterer.dev/test"
"""Label of the node that pods are placed on."""
_RESOURCES: Mapping[str, Resource] = {"JobSet": JOB_SETS, "TrainJob": TRAIN_JOBS}
_POD = "/spec/replicatedJobs/0/template/spec/template"


@pytest.fixture
async def make(
    control_plane: ControlPlane, job_controllers: JobControllerProcesses, request: pytest.FixtureRequest
) -> AsyncIterator[MakeObject]:
    """Creates an object of a team under a name of the test's own, which is also its node's label; it goes after it."""
    name = f"o{abs(hash(request.node.name)) % 10**9}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(control_plane.kubeconfig))
        for place in (f"{name}-other", name):
            await client.post(NODES.all(), node(place))
            stack.push_async_callback(client.delete, NODES.one(place))
        await client.merge_patch(NODES.one(name), {"metadata": {"labels": {PLACE: name}}})
        await client.apply(TRAINING_RUNTIMES.one("torch", NAMESPACE), training_runtime(), "team", may_create=True)

        async def make_object(body: RawObject) -> AdoptedWorld:
            body["metadata"]["name"] = name
            resource = _RESOURCES[body["kind"]]
            world = AdoptedWorld(client, resource, name, f"jobset.sigs.k8s.io/jobset-name={name}")
            await client.post(resource.all(NAMESPACE), body, strict=True)
            stack.push_async_callback(world.dismantle)
            return world

        yield make_object


def placed(world: AdoptedWorld, run: int = 1) -> list[Operation]:
    """The scheduling fields of its pods, for the test's node."""
    scheduling = {
        "nodeSelector": {PLACE: world.name},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    labels, annotations = {"charterer.dev/run": str(run)}, {"charterer.dev/allocation": "a100-1:8"}
    if world.resource == JOB_SETS:
        return [
            *({"op": "add", "path": f"{_POD}/spec/{key}", "value": value} for key, value in scheduling.items()),
            {"op": "add", "path": f"{_POD}/metadata/labels/charterer.dev~1run", "value": str(run)},
            {"op": "add", "path": f"{_POD}/metadata/annotations", "value": annotations},
        ]
    pods = {"metadata": {"labels": labels, "annotations": annotations}, "spec": scheduling}
    job = {"name": "node", "template": {"spec": {"template": pods}}}
    patch = {
        "manager": "charterer.dev/operator",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    return [{"op": "add", "path": "/spec/runtimePatches", "value": [patch]}]


def started(world: AdoptedWorld, run: int = 1) -> list[Operation]:
    """Placed and started in one patch."""
    return [*placed(world, run), {"op": "replace", "path": "/spec/suspend", "value": False}]


def width(world: AdoptedWorld, pods: int) -> list[Operation]:
    """Another number of pods."""
    if world.resource == TRAIN_JOBS:
        return [{"op": "replace", "path": "/spec/trainer/numNodes", "value": pods}]
    fields = ("parallelism", "completions")
    return [
        {"op": "replace", "path": f"/spec/replicatedJobs/0/template/spec/{field}", "value": pods} for field in fields
    ]


async def refused(world: AdoptedWorld, operations: Sequence[Operation], words: str) -> None:
    """The change is refused in these words."""
    with pytest.raises(ApiError, match=re.escape(words)):
        await world.json_patch(*operations)


both = pytest.mark.parametrize("body", [job_set, train_job], ids=["JobSet", "TrainJob"])


@both
async def test_a_held_object_has_no_pods_and_is_placed_and_started_by_one_patch(
    make: MakeObject, body: Callable[[str], RawObject]
) -> None:
    world = await make(body(""))
    await world.says("Suspended")
    assert await world.pods() == []
    await world.json_patch(*started(world))
    pods = await world.running(2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {world.name}
    assert {pod["metadata"]["labels"]["charterer.dev/run"] for pod in pods} == {"1"}
    assert {pod["metadata"]["annotations"]["charterer.dev/allocation"] for pod in pods} == {"a100-1:8"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (job_set, "field is immutable"),
        (train_job, "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"),
    ],
    ids=["JobSet", "TrainJob"],
)
async def test_what_runs_cannot_be_placed_elsewhere(
    make: MakeObject, body: Callable[[str], RawObject], words: str
) -> None:
    world = await make(body(""))
    await world.json_patch(*started(world))
    await world.running(2)
    await refused(world, placed(world, 2), words)


@both
async def test_the_width_is_refused_held_running_and_stopped(
    make: MakeObject, body: Callable[[str], RawObject]
) -> None:
    world = await make(body(""))
    await refused(world, width(world, 3), "field is immutable")
    await world.json_patch(*started(world))
    await world.running(2)
    await refused(world, width(world, 3), "field is immutable")
    await world.suspend()
    await world.without_pods()
    await refused(world, width(world, 3), "field is immutable")


@both
async def test_that_it_is_suspended_says_nothing_of_its_pods(
    make: MakeObject, body: Callable[[str], RawObject]
) -> None:
    world = await make(body(""))
    await world.json_patch(*started(world))
    await world.running(2)
    await world.suspend()
    await world.says("Suspended")
    assert len(await world.pods()) == 2
    await world.without_pods()
    await world.accepted(*started(world, run=2))
    assert {pod["metadata"]["labels"]["charterer.dev/run"] for pod in await world.running(2)} == {"2"}


async def test_a_train_job_refuses_to_be_placed_until_its_job_set_says_that_it_has_stopped(
    make: MakeObject, job_controllers: JobControllerProcesses
) -> None:
    """The JobSet says so once its Jobs count no pod as active, which may be before the pods are gone."""
    world = await make(train_job(""))
    await world.json_patch(*started(world))
    await world.running(2)
    words = "RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"
    await world.counted_active()  # which the JobSet does some time after its pods run
    with job_controllers.halted("jobset"):
        await world.suspend()
        await refused(world, placed(world, 2), words)
    await world.without_pods()
    await world.accepted(*placed(world, 2))


async def test_a_manager_of_patches_must_have_a_domain(make: MakeObject) -> None:
    world = await make(train_job(""))
    patch = [{"op": "add", "path": "/spec/runtimePatches", "value": [{"manager": "charterer"}]}]
    await refused(world, patch, "must be a domain-prefixed path")


@both
async def test_a_lost_pod_fails_it_for_good(make: MakeObject, body: Callable[[str], RawObject]) -> None:
    world = await make(body(""))
    await world.json_patch(*started(world))
    pods = await world.running(2)
    await world.evict(pods[0])
    await world.says("Failed")


async def test_a_job_set_with_a_failure_policy_makes_its_pods_anew(make: MakeObject) -> None:
    world = await make(job_set("", failurePolicy={"maxRestarts": 3}))
    await world.json_patch(*started(world))
    before = await world.running(2)
    await world.evict(before[0])

    async def made_anew() -> bool:
        pods = {pod["metadata"]["uid"] for pod in await world.pods()}
        return len(pods) == 2 and not pods & {pod["metadata"]["uid"] for pod in before}

    await world.until(made_anew)
    raw = await world.get()
    assert raw["status"]["restarts"] == 1
    assert not condition(raw, "Failed")


@pytest.mark.parametrize(
    ("body", "word"), [(job_set, "Completed"), (train_job, "Complete")], ids=["JobSet", "TrainJob"]
)
async def test_it_is_complete_by_its_own_word_once_all_its_pods_have_succeeded(
    make: MakeObject, body: Callable[[str], RawObject], word: str
) -> None:
    world = await make(body(""))
    await world.json_patch(*started(world))
    await world.exit(0, await world.running(2))
    await world.says(word)


async def test_the_width_of_a_train_job_is_in_its_pods_environment(make: MakeObject) -> None:
    world = await make(train_job(""))
    await world.json_patch(*started(world))
    for pod in await world.running(2):
        environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert environment["PET_NNODES"] == "2"


async def test_groups_of_a_job_set_are_placed_apart(make: MakeObject) -> None:
    """A group without GPUs keeps its own template."""
    world = await make(job_set("", jobs=[replicated_job("node", 2), replicated_job("logs", 1, gpus=0)]))
    await world.json_patch(*started(world))
    pods = await world.running(3)
    by_group = {pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]: pod for pod in pods}
    assert by_group["node"]["spec"]["nodeSelector"] == {PLACE: world.name}
    assert "nodeSelector" not in by_group["logs"]["spec"]


async def test_with_its_gate_a_job_set_changes_its_width_held_and_running(
    make: MakeObject, job_controllers: JobControllerProcesses
) -> None:
    job_controllers.restart("jobset", elastic=True)
    try:
        world = await make(job_set(""))
        await world.json_patch(*width(world, 3))
        await world.json_patch(*started(world))
        await world.running(3)
        await world.json_patch(*width(world, 4))
        await world.running(4)
        await world.json_patch(*width(world, 1))
        [left] = await world.running(1)
        assert left["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
    finally:
        job_controllers.restart("jobset")
