"""What was joined before makes a look faster, never different; and what did not change is the same object again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.api.decode import ForeignPod, JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId
from charterer.domain.pod import job_of_run
from charterer.domain.reports import Progress
from charterer.domain.steps import StopOrphan
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from tests import factory, lanes
from tests.random_events import EVENTS, is_carried_out, some_world
from tests.stored import as_stored
from tests.unit.cli.worlds import seen_of
from tests.worlds import World, one_job_runs

Key = TypeVar("Key")
Value = TypeVar("Value")


def heard(world: World, draw: Random, seen: ClusterState) -> ClusterState:
    """With reports that came in, some of them dated ahead of our clock, and templates that are being tried."""
    names = sorted(world.jobs)
    progress = {
        name: Progress(1, draw.random(), None, None, after(world.now, draw.choice([-500.0, 0.0, 500.0])))
        for name in draw.sample(names, min(len(names), 2))
    }
    refusals: dict[JobId, str | None] = {name: draw.choice(["", "no image", None]) for name in names[:1]}
    services = {key: decoded.job.id for key, decoded in list(seen.jobs.items())[:2]}
    return replace(seen, progress=progress, refusals=refusals, services=services)


@settings(max_examples=lanes.examples(60))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), min_size=2, max_size=10))
def test_a_look_with_a_memory_sees_what_one_without_does(
    draw: Random, events: list[Callable[[World, Random], None]]
) -> None:
    world, memory = some_world(draw), Memo()
    stored: ClusterState | None = None
    for happens in [is_carried_out, *events]:
        happens(world, draw)
        seen = heard(world, draw, seen_of(world))
        seen = partly_gone(strangers(draw, seen) if draw.random() < 0.5 else seen, draw)
        stored = seen if draw.random() < 0.2 else as_stored(seen, stored)
        for _ in range(2):
            world.passes(draw.choice([-100.0, 0.0, 60.0, 1000.0]))
            first, second = observe(stored, world.now, memory), observe(stored, world.now)
            assert first == second
            assert list(first.jobs) == list(second.jobs)


def partly_gone(seen: ClusterState, draw: Random) -> ClusterState:
    """Some jobs, runs or pods are not there any more, though what was theirs is; others' pods hold GPUs."""

    def some(things: Mapping[Key, Value]) -> Mapping[Key, Value]:
        return {key: thing for key, thing in things.items() if draw.random() < draw.choice([0.7, 1.0, 1.0])}

    nodes = [node.name for node in seen.nodes.values()]
    others = {ObjectKey("other", f"p{at}"): ForeignPod(draw.choice(nodes), 1) for at in range(2) if nodes}
    return replace(seen, jobs=some(seen.jobs), runs=some(seen.runs), pods={**some(seen.pods), **some(others)})


def test_a_run_is_an_orphan_once_its_job_is_gone_and_not_because_it_cannot_be_read() -> None:
    world = one_job_runs()
    seen = seen_of(world)
    assert observe(seen, world.now).orphans == ()
    lost = {key: (job, replace(run, owned=False)) for key, (job, run) in seen.runs.items()}
    assert observe(replace(seen, runs=lost), world.now).orphans == ()
    (lost_run,) = observe(replace(seen, jobs={}, runs=lost), world.now).orphans
    (orphan,) = observe(replace(seen, jobs={}), world.now).orphans
    assert lost_run == replace(orphan, run=replace(orphan.run, owned=False))
    going = {key: (job, replace(run, deleting=True, pods=())) for key, (job, run) in seen.runs.items()}
    (kept,) = observe(replace(seen, jobs={}, runs=going), world.now).orphans
    assert [pod.run for pod in kept.run.pods] == [1], "its controller leaves its pods alone, so that they are known"
    (key,) = seen.runs
    assert (orphan.job, orphan.namespace, job_of_run(orphan.run.name, orphan.run.number), orphan.budget) == (
        "train",
        key.namespace,
        "train",
        "research",
    )
    unread = Problem("TrainingJob", key.namespace, "train", "spec.gpus", "Invalid", "is no range")
    assert observe(replace(seen, jobs={}, problems=(unread,)), world.now).orphans == ()


def strangers(draw: Random, seen: ClusterState) -> ClusterState:
    """With Jobs, pods and Services of others that name the jobs and runs that are there, and are not theirs.

    In another namespace they copy names, labels and owners; in the job's own they are controlled by other Jobs.
    """
    runs, pods, services = dict(seen.runs), dict(seen.pods), dict(seen.services)
    for decoded in seen.jobs.values():
        job = decoded.job
        evil = draw.choice(["evil", f"{job.namespace}-2"])
        number = draw.choice([run.number for run in job.runs] or [1]) + draw.choice([0, 7])
        forged = factory.run(number, job=job.name, uid=f"forged-{job.id}", suspended=draw.random() < 0.5)
        runs[ObjectKey(evil, forged.name)] = (job.id, forged)
        beside = factory.run(number + 20, job=job.name, uid=f"beside-{job.id}", owned=False)
        runs[ObjectKey(job.namespace, beside.name)] = (job.id, beside)
        services[ObjectKey(evil, job.name)] = job.id
        at = draw.choice(sorted(seen.nodes)).name if seen.nodes else None
        for namespace, controller in (
            (evil, forged.uid),
            (evil, draw.choice([run.uid for run in job.runs] or ["none"])),
            (job.namespace, "another-job"),
            (job.namespace, beside.uid),
        ):
            pod = factory.pod(0, number, job.name, uid=f"forged-{namespace}-{controller}", gpus=1, node=at)
            pods[ObjectKey(namespace, pod.uid)] = JobPod(namespace, forged.name, controller, pod)
    return replace(seen, runs=runs, pods=pods, services=services)


@settings(max_examples=lanes.examples(60))
@given(st.randoms(use_true_random=False))
def test_what_others_label_and_own_changes_no_job_and_takes_only_the_gpus_that_it_holds(draw: Random) -> None:
    world = some_world(draw)
    is_carried_out(world, draw)
    seen = heard(world, draw, seen_of(world))
    forged = strangers(draw, seen)
    plain, attacked = observe(seen, world.now), observe(forged, world.now)
    assert attacked.jobs == plain.jobs
    held = sum(node.foreign_gpus for node in attacked.nodes.values())
    bound = sum(isinstance(pod, JobPod) and pod.pod.node is not None for pod in forged.pods.values())
    own = sum(isinstance(pod, JobPod) and pod.pod.node is not None for pod in seen.pods.values())
    assert held == bound - own
    steps, _ = next_steps(plain)
    under_attack, _ = next_steps(replace(attacked, nodes=plain.nodes))
    assert {key: step for key, step in under_attack.items() if not isinstance(step, StopOrphan)} == steps


@settings(max_examples=lanes.examples(40))
@given(st.randoms(use_true_random=False))
def test_what_did_not_change_is_the_same_object_again(draw: Random) -> None:
    world, memory = some_world(draw), Memo()
    for _ in range(2):
        is_carried_out(world, draw)
    first = observe(seen_of(world), world.now, memory)
    again = observe(seen_of(world), after(world.now, 60.0), memory)
    assert all(again.jobs[name] is job for name, job in first.jobs.items())
    assert all(again.pools[name] is pool for name, pool in first.pools.items())
    assert all(again.profiles[name] is profile for name, profile in first.profiles.items())
    assert all(again.nodes[name] is node for name, node in first.nodes.items())
