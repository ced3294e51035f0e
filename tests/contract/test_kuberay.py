"""What the real KubeRay does with the fields that Charterer writes, at each moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from charterer.cluster.client import Client, RawObject
from charterer.cluster.paths import NODES
from tests.contract.adopted_objects import NAMESPACE, AdoptedWorld, ray_job
from tests.contract.runs import node
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import RAY_CLUSTERS, RAY_JOBS, entrypoints

pytestmark = [
    pytest.mark.xdist_group("job_controllers"),
    pytest.mark.repeats,  # what KubeRay does by itself, on which test_target_kinds.py relies
]
MakeRayJob: TypeAlias = Callable[..., Awaitable[AdoptedWorld]]
PLACE = "charterer.dev/test"
_GROUP = "/spec/rayClusterSpec/workerGroupSpecs/0"


@pytest.fixture
async def make(
    control_plane: ControlPlane, kuberay: KubeRayProcess, request: pytest.FixtureRequest
) -> AsyncIterator[MakeRayJob]:
    """Creates a RayJob under a name of the test's own, which is also its node's label; it goes after it."""
    name = f"o{abs(hash(request.node.name)) % 10**9}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(control_plane.kubeconfig))
        await stack.enter_async_context(entrypoints(client, NAMESPACE, kuberay.dashboard))
        await client.post(NODES.all(), node(name))
        stack.push_async_callback(client.delete, NODES.one(name))
        await client.merge_patch(NODES.one(name), {"metadata": {"labels": {PLACE: name}}})

        async def make_object(**spec: Any) -> AdoptedWorld:
            world = AdoptedWorld(client, RAY_JOBS, name, "ray.io/node-type=worker")
            await client.post(RAY_JOBS.all(NAMESPACE), ray_job(name, **spec), strict=True)
            stack.push_async_callback(world.dismantle)
            return world

        yield make_object


def started(world: AdoptedWorld) -> Sequence[Mapping[str, Any]]:
    """Its workers are placed on the test's node, and it starts."""
    return [
        {"op": "add", "path": f"{_GROUP}/template/spec/nodeSelector", "value": {PLACE: world.name}},
        {"op": "replace", "path": "/spec/suspend", "value": False},
    ]


async def clusters_of(world: AdoptedWorld) -> list[str]:
    """The names of the RayJob's RayClusters."""
    listed = (await world.client.list(RAY_CLUSTERS.all(NAMESPACE))).items
    return [raw["metadata"]["name"] for raw in listed if raw["metadata"]["name"].startswith(f"{world.name}-")]


async def says(world: AdoptedWorld, word: str) -> RawObject:
    """The RayJob, once that is its state."""

    async def look() -> RawObject:
        raw = await world.get()
        return raw if (raw.get("status") or {}).get("jobDeploymentStatus") == word else {}

    return await world.until(look)


async def resized(world: AdoptedWorld, replicas: int, ends: Sequence[str] = ()) -> None:
    """Change the width of the running RayCluster."""
    cluster = (await world.get())["status"]["rayClusterName"]
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas}]
    if ends:
        strategy = {"workersToDelete": list(ends)}
        patch.append({"op": "add", "path": "/spec/workerGroupSpecs/0/scaleStrategy", "value": strategy})
    await world.client.json_patch(RAY_CLUSTERS.one(cluster, NAMESPACE), patch)


async def test_a_held_ray_job_has_no_cluster_and_starts_in_one_patch(make: MakeRayJob) -> None:
    world = await make()
    await says(world, "Suspended")
    assert await clusters_of(world) == []
    await world.json_patch(*started(world))
    assert {pod["spec"]["nodeSelector"][PLACE] for pod in await world.running(2)} == {world.name}
    await says(world, "Running")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"shutdownAfterJobFinishes": False}, "shutdownAfterJobFinishes set to false is not allowed to be suspended"),
        ({"clusterSelector": {"ray.io/cluster": "mine"}}, "ClusterSelector mode doesn't support the suspend"),
    ],
    ids=["cluster stays", "cluster of others"],
)
async def test_a_ray_job_that_cannot_be_held_says_so(make: MakeRayJob, spec: RawObject, words: str) -> None:
    raw = await says(await make(**spec), "ValidationFailed")
    assert words in raw["status"]["message"]


async def test_suspended_it_has_no_cluster_while_its_pods_still_run(make: MakeRayJob) -> None:
    world = await make()
    await world.json_patch(*started(world))
    await world.running(2)
    cluster = (await says(world, "Running"))["status"]["rayClusterName"]
    await world.suspend()
    raw = await says(world, "Suspended")
    assert not raw["status"].get("rayClusterName")
    assert len(await world.pods()) == 2
    await world.without_pods()
    await world.suspend(False)
    assert (await says(world, "Initializing"))["status"]["rayClusterName"] != cluster


async def test_the_running_cluster_is_resized_and_its_ray_jobs_own_spec_ignored(make: MakeRayJob) -> None:
    world = await make()
    await world.json_patch(*started(world))
    before = await world.running(2)
    await says(world, "Running")
    await world.json_patch({"op": "replace", "path": f"{_GROUP}/replicas", "value": 1})
    await resized(world, 3)
    pods = await world.running(3)
    assert {pod["metadata"]["uid"] for pod in before} < {pod["metadata"]["uid"] for pod in pods}
    ends = pods[1]["metadata"]["name"]
    await resized(world, 2, [ends])
    left = {pod["metadata"]["name"] for pod in await world.running(2)}
    assert left == {pod["metadata"]["name"] for pod in pods} - {ends}


async def test_a_lost_worker_is_replaced_and_the_others_run_on(make: MakeRayJob) -> None:
    world = await make()
    await world.json_patch(*started(world))
    lost, kept = await world.running(2)
    await world.evict(lost)

    async def replaced() -> set[str]:
        uids = {pod["metadata"]["uid"] for pod in await world.pods()}
        return uids if len(uids) == 2 and lost["metadata"]["uid"] not in uids else set()

    assert kept["metadata"]["uid"] in await world.until(replaced)


@pytest.mark.parametrize(("code", "word"), [(0, "Complete"), (1, "Failed")])
async def test_it_ends_as_its_entrypoint_does(make: MakeRayJob, code: int, word: str) -> None:
    world = await make()
    await world.json_patch(*started(world))
    await world.running(2)
    await world.client.merge_patch(world.path, {"metadata": {"annotations": {EXIT_CODE: str(code)}}})
    await says(world, word)
    await world.without_pods()


async def test_an_interactive_ray_job_is_not_stopped_by_its_suspend(make: MakeRayJob) -> None:
    """It waits for a person to submit: Charterer does not adopt it."""
    world = await make(submissionMode="InteractiveMode")
    await world.json_patch(*started(world))
    await world.running(2)
    await says(world, "Waiting")
    await world.suspend()
    later = AdoptedWorld(world.client, RAY_JOBS, f"{world.name}x", "ray.io/node-type=worker")
    await world.client.post(RAY_JOBS.all(NAMESPACE), ray_job(later.name))
    await says(later, "Suspended")  # KubeRay acts on one RayJob after the other
    await world.client.delete(later.path)
    assert len(await world.running(2)) == 2
    assert await clusters_of(world)
