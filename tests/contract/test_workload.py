"""What every kind of run object must do, checked against a real API server with the controllers that act on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from charterer.cluster.client import Client
from charterer.cluster.errors import BadRequest
from charterer.cluster.paths import NODES
from charterer.domain.job import RESTART_EXIT_CODE
from charterer.domain.pod import PodPhase, run_name
from charterer.workloads import INDEXED_JOB, NotATemplate, Workload
from tests.cluster.crd_cases import install_crds
from tests.contract.runs import NAMESPACE, RunWorld, allocation, node, training_job
from tests.testbed.controlplane import ControlPlane

MakeWorld: TypeAlias = Callable[..., Awaitable[RunWorld]]


@pytest.fixture(params=[INDEXED_JOB], ids=["indexed-job"])
def workload(request: pytest.FixtureRequest) -> Workload:
    """The implementations that keep this contract."""
    implementation: Workload = request.param
    return implementation


@pytest.fixture
async def make(
    control_plane: ControlPlane, workload: Workload, request: pytest.FixtureRequest
) -> AsyncIterator[MakeWorld]:
    """Makes a TrainingJob with these fields of its spec, and a node for its first run beside one that is not for it."""
    install_crds(control_plane)
    name = f"w{abs(hash(request.node.name)) % 10**9}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(control_plane.kubeconfig))
        for place in (f"{name}-other", name):
            await client.post(NODES.all(), node(place))
            stack.push_async_callback(client.delete, NODES.one(place))

        async def world(job: str = name, **spec: Any) -> RunWorld:
            made = await RunWorld.make(client, workload, training_job(job, **spec), name)
            stack.push_async_callback(made.dismantle)
            return made

        yield world


@pytest.mark.parametrize("policy", ["Never", "Restart", "InPlace"])
async def test_a_new_run_is_accepted_as_it_is_and_suspended(make: MakeWorld, policy: str) -> None:
    world = await make(resizePolicy=policy)
    run = await world.create(allocation(2))
    assert (run.name, run.number, run.completions) == (run_name(world.job.name, 1), 1, 2)
    assert run.suspended
    [owner] = world.manifest(allocation(2))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainingJob", world.job.id, True)
    await asyncio.sleep(0.5)
    assert not await world.raw_pods()


async def test_a_resumed_run_has_a_pod_for_each_placement_on_the_placements_nodes_only(make: MakeWorld) -> None:
    world = await make()
    run = await world.started(3)
    assert not run.suspended
    assert [pod.index for pod in run.pods] == [0, 1, 2]
    assert {(pod.run, pod.node, pod.gpus) for pod in run.pods} == {(1, world.node, 2)}
    assert {pod.allocation for pod in run.pods} == {allocation(3).annotation}


async def test_pods_have_host_names_that_the_service_resolves(make: MakeWorld) -> None:
    world = await make("j" * 45)
    await world.started(2)
    service = world.workload.service(world.job)
    assert service["spec"]["publishNotReadyAddresses"]
    for index, pod in enumerate(sorted(await world.raw_pods(), key=lambda pod: str(pod["spec"]["hostname"]))):
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        assert pod["spec"]["hostname"] == f"{run_name(world.job.name, 1)}-{index}"
        assert len(pod["spec"]["hostname"]) <= 63
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


async def test_a_suspended_run_loses_its_pods_and_has_neither_completed_nor_failed(make: MakeWorld) -> None:
    world = await make()
    run = await world.patch(await world.started(2), world.workload.suspend())
    assert run.suspended
    run = await world.until(run, lambda seen: not any(pod.live for pod in seen.pods))
    assert (run.complete, run.failed) == (None, None)


async def test_a_run_is_complete_when_every_index_has_succeeded(make: MakeWorld) -> None:
    world = await make()
    run = await world.started(2)
    assert run.unproven == (0, 1)
    await world.exit(run, [1], 0)
    run = await world.until(run, lambda seen: seen.unproven == (0,))
    assert run.complete is None
    await world.exit(run, [0], 0)
    run = await world.until(run, lambda seen: seen.complete is not None)
    assert (run.unproven, run.failed) == ((), None)


async def test_a_run_with_a_failed_pod_fails_by_itself_and_starts_no_other(make: MakeWorld) -> None:
    world = await make()
    run = await world.started(2)
    await world.exit(run, [1], 7)
    run = await world.until(run, lambda seen: seen.failed is not None and not any(pod.live for pod in seen.pods))
    assert not run.failed_by_disruption
    [failed] = [pod for pod in run.pods if pod.index == 1]
    assert (failed.phase, failed.exit_code) == (PodPhase.FAILED, 7)


async def test_an_evicted_pod_ends_the_run_which_says_that_it_was_disrupted(make: MakeWorld) -> None:
    world = await make(resizePolicy="Restart")
    run = await world.started(2)
    await world.evict(run.pods[0].name)
    run = await world.until(run, lambda seen: seen.failed is not None)
    assert run.failed_by_disruption


async def test_an_evicted_pod_proves_nothing_though_it_exits_with_0(make: MakeWorld) -> None:
    template = {
        "metadata": {"annotations": {"testbed.charterer.dev/stop-exit-code": "0"}},
        "spec": {"containers": [{"name": "trainer", "image": "acme/sft:1"}]},
    }
    world = await make(resizePolicy="InPlace", template=template)
    run = await world.started(2)
    await world.evict(run.pods[0].name)
    await world.exit(run, [1], 0)
    run = await world.until(run, lambda seen: 1 not in seen.unproven)
    assert run.unproven == (0,)


async def test_a_run_that_may_change_in_place_survives_an_eviction(make: MakeWorld) -> None:
    world = await make(resizePolicy="InPlace")
    run = await world.started(2)
    await world.evict(run.pods[1].name)
    await asyncio.sleep(1.0)
    run = await world.until(run, lambda seen: any(pod.index == 0 and pod.ready for pod in seen.pods))
    assert run.failed is None


async def test_a_run_is_resized_in_place_and_keeps_its_lowest_indices(make: MakeWorld) -> None:
    world = await make(resizePolicy="InPlace")
    run = await world.started(2)
    first = run.pods[0].uid
    run = await world.patch(run, world.workload.resize(run, 3, 0))
    assert run.completions == 3
    run = await world.until(run, lambda seen: sum(pod.ready for pod in seen.pods) == 3)
    await world.patch(run, world.workload.resize(run, 1, 0))
    run = await world.until(run, lambda seen: [pod.index for pod in seen.pods if pod.live] == [0])
    assert run.pods[0].uid == first


async def test_pods_that_join_a_run_may_fail_until_they_are_no_part_of_it_and_others_may_not(make: MakeWorld) -> None:
    world = await make(resizePolicy="InPlace")
    run = await world.started(1)
    run = await world.patch(run, world.workload.resize(run, 2, 100))
    assert run.retries == 100
    run = await world.until(run, lambda seen: sum(pod.ready for pod in seen.pods) == 2)
    await world.exit(run, [1], 1)
    run = await world.until(run, lambda seen: seen.failed_pods == 1)
    assert (run.failed, run.retries) == (None, 99)
    run = await world.patch(run, world.workload.resize(run, 1, 0))
    assert run.retries == 0
    run = await world.until(run, lambda seen: [pod.index for pod in seen.pods if pod.live] == [0])
    await asyncio.sleep(1.0)
    run = await world.until(run, lambda seen: any(pod.ready for pod in seen.pods))
    assert run.failed is None
    await world.exit(run, [0], 1)
    await world.until(run, lambda seen: seen.failed is not None)


async def test_a_pod_that_asks_for_a_restart_ends_the_run_also_while_others_may_fail(make: MakeWorld) -> None:
    world = await make(resizePolicy="InPlace")
    run = await world.started(2)
    run = await world.patch(run, world.workload.resize(run, 2, 100))
    run = await world.until(run, lambda seen: sum(pod.ready for pod in seen.pods) == 2)
    await world.exit(run, [1], RESTART_EXIT_CODE)
    run = await world.until(run, lambda seen: seen.failed is not None and not any(pod.live for pod in seen.pods))
    assert not run.failed_by_disruption


async def test_a_template_that_no_run_can_be_made_of_is_named_by_the_api_server(make: MakeWorld) -> None:
    template = {"spec": {"containers": [{"name": "trainer", "image": "acme/sft:1", "env": "none"}]}}
    world = await make(template=template)
    with pytest.raises(NotATemplate):
        world.manifest(allocation(1))
    runs = world.workload.kind.resource.all(NAMESPACE)
    with pytest.raises(BadRequest, match="env"):
        await world.client.post(runs, world.workload.unmodified(world.job, world.raw), dry_run=True, strict=True)


async def test_an_object_that_no_trainingjob_owns_is_told_apart_from_its_runs(make: MakeWorld) -> None:
    world = await make()
    body = world.manifest(allocation(1))
    del body["metadata"]["ownerReferences"]
    raw = await world.client.post(world.workload.kind.resource.all(NAMESPACE), body, strict=True)
    decoded = world.workload.kind.decode(raw)
    assert decoded is not None
    assert not decoded[1].owned
    await world.client.delete(world.workload.kind.resource.one(raw["metadata"]["name"], NAMESPACE))
