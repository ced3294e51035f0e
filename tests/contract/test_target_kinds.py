"""Each kind of object that is adopted keeps the contract of ``TargetKind`` with its own controller.

JobSets and TrainJobs have their real controllers, RayJobs a stand-in for KubeRay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from charterer.api import decode
from charterer.api.template import digest_of_content
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import NODES
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.target import Target
from charterer.workloads import NotAdoptable, TargetKind, Write
from charterer.workloads.adopted.job_set import ADOPTED_JOB_SET, ADOPTED_TRAIN_JOB
from charterer.workloads.adopted.ray_job import ADOPTED_RAY_JOB
from tests import factory as make
from tests.cluster.adopted_jobs import own_annotations
from tests.contract.adopted_objects import (
    NAMESPACE,
    TRAINING_RUNTIMES,
    AdoptedWorld,
    job_set,
    ray_job,
    train_job,
    training_runtime,
)
from tests.contract.runs import allocation, node
from tests.lanes import repeats
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints

pytestmark = pytest.mark.xdist_group("job_controllers")
LABEL = {"charterer.dev/adopt": "true"}


@dataclass(frozen=True, slots=True)
class AdoptedKind:
    """A kind, an object of it as its author wrote it, and the selector of the pods that train."""

    kind: TargetKind
    body: Callable[..., RawObject]
    pods: str


KINDS = {
    "JobSet": AdoptedKind(ADOPTED_JOB_SET, job_set, "jobset.sigs.k8s.io/jobset-name={name}"),
    "TrainJob": AdoptedKind(ADOPTED_TRAIN_JOB, train_job, "jobset.sigs.k8s.io/jobset-name={name}"),
    "RayJob": AdoptedKind(ADOPTED_RAY_JOB, ray_job, "ray.io/node-type=worker"),
}


@dataclass(frozen=True, slots=True)
class TargetWorld:
    """One labelled object in a cluster, the job that stands for it, and a node for its runs."""

    world: AdoptedWorld
    adopted: TargetKind
    job: Job

    async def target(self) -> Target:
        """The object as Charterer sees it."""
        return self.adopted.read(await self.world.get())

    async def until(self, holds: Callable[[Target], bool]) -> Target:
        """The object as Charterer sees it, once that holds."""

        async def look() -> Target | None:
            seen = await self.target()
            return seen if holds(seen) else None

        found = await self.world.until(look)
        assert found is not None
        return found

    async def write(self, act: Callable[[RawObject], Sequence[Write]]) -> None:
        """Carry out what the kind says of the object as it is now, again while it is refused for now."""

        async def written() -> bool:
            try:
                for write in act(await self.world.get()):
                    await self.world.client.json_patch(write.path, write.operations)
            except ApiError:
                return False
            return True

        await self.world.until(written)

    async def placed(self, run: int, pods: int = 2) -> None:
        """Its node admits the run, and the object carries it."""
        label = {"metadata": {"labels": {self.job.run_label: f"r{run}"}}}
        await self.world.client.merge_patch(NODES.one(self.world.name), label)
        await self.until(lambda seen: seen.placeable)
        await self.write(lambda raw: self.adopted.place(raw, self.job, allocation(pods, run)))

    def start(self, raw: RawObject) -> Sequence[Write]:
        """What starts the run that it carries."""
        return self.adopted.start(raw, self.job, allocation(2, self.adopted.read(raw).run))

    async def run_pods(self) -> list[decode.JobPod]:
        """Its pods as pods of the job's runs."""
        found = [decode.pod(pod) for pod in await self.world.pods()]
        return [pod for pod in found if isinstance(pod, decode.JobPod) and pod.adopted_for == self.job.id]


MakeTarget: TypeAlias = Callable[..., Awaitable[TargetWorld]]


@pytest.fixture(params=sorted(KINDS))
def adopted_kind(request: pytest.FixtureRequest) -> AdoptedKind:
    """The kinds that keep this contract."""
    return KINDS[request.param]


@pytest.fixture
async def make_target(
    control_plane: ControlPlane,
    job_controllers: JobControllerProcesses,
    kuberay: KubeRayProcess,
    adopted_kind: AdoptedKind,
    request: pytest.FixtureRequest,
) -> AsyncIterator[MakeTarget]:
    """Creates a labelled object of the kind under a name of the test's own, and a node beside another one."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(control_plane.kubeconfig))
        await stack.enter_async_context(entrypoints(client, NAMESPACE, kuberay.dashboard))
        for place in (f"{name}-other", name):
            await client.post(NODES.all(), node(place))
            stack.push_async_callback(client.delete, NODES.one(place))
        runtime = TRAINING_RUNTIMES.one("torch", NAMESPACE)
        await client.apply(runtime, training_runtime(), "team", may_create=True)

        async def target(annotations: Mapping[str, str] | None = None, **spec: Any) -> TargetWorld:
            body = adopted_kind.body(name, **spec)
            body["metadata"] |= {"labels": LABEL, "annotations": dict(annotations or {})}
            world = AdoptedWorld(client, adopted_kind.kind.kind.resource, name, adopted_kind.pods.format(name=name))
            await client.post(world.resource.all(NAMESPACE), body, strict=True)
            stack.push_async_callback(world.dismantle)
            return TargetWorld(world, adopted_kind.kind, make.job(name, id=JobId(f"uid-{name}")))

        yield target


async def test_a_run_of_it_is_placed_started_stopped_and_placed_anew_and_it_is_given_back(
    make_target: MakeTarget,
) -> None:
    target = await make_target()
    author = (await target.world.get())["spec"]
    seen = await target.until(lambda seen: seen.placeable)
    assert (seen.problem, seen.suspended, seen.run, seen.pods, seen.begun) == ("", True, 0, 2, False)
    assert target.adopted.shadow(await target.world.get())["gpus"] == {"min": 4, "preferred": 4, "max": 4}
    for run in (1, 2):
        await target.placed(run)
        seen = await target.target()
        assert (seen.job, seen.run, seen.suspended, seen.pods) == (target.job.id, run, True, 2)
        assert await target.world.pods() == []
        await target.write(target.start)
        for pod in await target.world.running(2):
            assert pod["spec"]["nodeName"] == target.world.name
            assert pod["metadata"]["labels"]["team.example/app"] == "llm"
        seen = await target.until(lambda seen: seen.started is not None)
        pods = await target.run_pods()
        assert [(pod.pod.run, pod.pod.allocation) for pod in pods] == [(run, allocation(2, run).annotation)] * 2
        assert all(seen.controls(pod.controller) for pod in pods)
        await target.write(target.adopted.stop)
        assert (await target.target()).suspended
        assert all(seen.controls(pod.controller) for pod in await target.run_pods())
        await target.world.without_pods()
    await target.write(target.adopted.restore)
    raw = await target.world.get()
    assert digest_of_content(raw["spec"]) == digest_of_content(author)  # KubeRay writes empty structs into it
    assert not [key for key in own_annotations(raw) if key.startswith("charterer.dev")]


@pytest.mark.repeats  # tests/cluster/test_adopted_kinds.py
async def test_it_says_that_it_is_complete(make_target: MakeTarget, adopted_kind: AdoptedKind) -> None:
    target = await make_target()
    await target.placed(1)
    await target.write(target.start)
    pods = await target.world.running(2)
    assert (await target.target()).ended is None
    if adopted_kind.kind is ADOPTED_RAY_JOB:
        await target.until(lambda seen: not seen.incomplete)  # its head runs too
        await target.world.client.merge_patch(target.world.path, {"metadata": {"annotations": {EXIT_CODE: "0"}}})
    else:
        await target.world.exit(0, pods)
    seen = await target.until(lambda seen: seen.complete is not None)
    assert seen.failed is None


@pytest.mark.parametrize("adopted_kind", [KINDS["JobSet"], KINDS["TrainJob"], *repeats(KINDS["RayJob"])], ids=[*KINDS])
async def test_it_says_why_it_has_failed(make_target: MakeTarget, adopted_kind: AdoptedKind) -> None:
    target = await make_target()
    await target.placed(1)
    await target.write(target.start)
    pods = await target.world.running(2)
    if adopted_kind.kind is ADOPTED_RAY_JOB:
        await target.world.client.merge_patch(target.world.path, {"metadata": {"annotations": {EXIT_CODE: "3"}}})
    else:
        await target.world.exit(3, pods[:1])
    seen = await target.until(lambda seen: seen.failed is not None)
    assert seen.complete is None
    assert seen.failed_message


async def test_one_that_is_given_up_is_failed_by_its_own_controller_and_trains_no_more(
    make_target: MakeTarget,
) -> None:
    target = await make_target()
    await target.placed(1)
    await target.write(target.start)
    await target.world.running(2)
    await target.write(target.adopted.stop)
    await target.world.without_pods()
    await target.until(lambda seen: seen.placeable)
    await target.write(lambda raw: target.adopted.fail(raw, "CannotStart", "3 runs never started", make.T0))
    seen = await target.until(lambda seen: seen.failed is not None)
    assert seen.failed_message
    assert (await target.world.get())["metadata"]["annotations"]["charterer.dev/given-up"] == (
        "CannotStart: 3 runs never started"
    )
    await target.world.without_pods()


@pytest.mark.repeats  # tests/cluster/test_adopted_kinds.py, of a drain
async def test_one_that_its_author_did_not_suspend_runs_on_when_it_is_given_back(make_target: MakeTarget) -> None:
    """Charterer suspended it, and notes that."""
    target = await make_target(suspend=False)
    await target.until(lambda seen: not seen.suspended)
    await target.write(target.adopted.stop)
    seen = await target.until(lambda seen: seen.placeable)
    assert seen.held
    await target.world.without_pods()
    await target.placed(1)
    await target.write(target.adopted.restore)
    seen = await target.target()
    assert (seen.suspended, seen.held, seen.run) == (False, False, 0)


@pytest.mark.repeats  # tests/cluster/test_adopted_kinds.py
@pytest.mark.parametrize("adopted_kind", [KINDS["RayJob"]], ids=["RayJob"])
async def test_a_ray_job_changes_its_width_while_it_runs_and_those_end_that_are_named(make_target: MakeTarget) -> None:
    target = await make_target({"charterer.dev/gpus": "2..8", "charterer.dev/resize": "InPlace"})
    await target.placed(1)
    await target.write(target.start)
    first = {pod["metadata"]["uid"] for pod in await target.world.running(2)}
    await target.write(lambda raw: target.adopted.resize(raw, 4, 0))
    pods = await target.world.running(4)
    assert first < {pod["metadata"]["uid"] for pod in pods}
    assert (await target.target()).pods == 4
    leaving = [pod["metadata"]["name"] for pod in pods[1:]]
    await target.write(lambda raw: target.adopted.resize(raw, 1, 0, leaving))
    [left] = await target.world.running(1)
    assert left["metadata"]["uid"] == pods[0]["metadata"]["uid"]


@pytest.mark.parametrize("adopted_kind", [KINDS["JobSet"], KINDS["TrainJob"]], ids=["JobSet", "TrainJob"])
async def test_a_range_of_gpus_is_refused_where_the_width_is_fixed(make_target: MakeTarget) -> None:
    target = await make_target({"charterer.dev/gpus": "2..8"})
    with pytest.raises(NotAdoptable, match="the number of its pods is fixed"):
        target.adopted.shadow(await target.world.get())
