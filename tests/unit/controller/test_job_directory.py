"""Which pods the progress endpoint takes for a job's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from charterer.api.decode import JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.progress_writer import SnapshotJobDirectory
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import JobId
from charterer.domain.job import ResizePolicy
from charterer.domain.pool import CapacityType, Notice
from charterer.domain.time import after
from tests import factory
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, one_job_runs


def test_only_pods_that_a_run_of_the_job_controls_in_its_namespace_may_report() -> None:
    world = one_job_runs()
    seen = seen_of(world)
    (run,) = world.jobs[JobId("train")].runs
    forged = factory.pod(0, run.number, "train", uid="forged")
    claims = {
        ObjectKey("evil", "copied"): JobPod("evil", run.name, run.uid, forged),
        ObjectKey(NAMESPACE, "beside"): JobPod(NAMESPACE, run.name, "another-job", forged),
    }
    snapshot = observe(replace(seen, pods={**seen.pods, **claims}), world.now)
    found = SnapshotJobDirectory(lambda: snapshot, b"secret").find(JobId("train"))
    assert found is not None
    assert found.pod_uids == {pod.uid for pod in run.pods}


def test_a_run_on_nodes_that_are_taken_back_has_their_hazard_and_ages() -> None:
    world = one_job_runs()
    name = next(iter(world.pools))
    world.pools[name] = replace(world.pools[name], capacity_type=CapacityType.SPOT)
    world.now = after(world.now, 1800.0)
    found = SnapshotJobDirectory(lambda: observe(seen_of(world), world.now), b"secret").find(JobId("train"))
    assert found is not None
    assert found.hazard is not None
    assert len(found.ages) == len(world.rentals)
    assert min(found.ages) >= 0.5


def test_the_pods_of_each_run_have_a_key_of_their_own_which_every_operator_gives_them() -> None:
    def key(number: int, secret: bytes) -> str:
        world = one_job_runs()
        job = replace(world.jobs[JobId("train")], resize=ResizePolicy.IN_PLACE)
        (run,) = job.runs
        assert job.allocation is not None
        given = replace(job.allocation, run=number)
        world.jobs[job.id] = replace(job, runs=(replace(run, number=number),), allocation=given, last_run=number)
        found = SnapshotJobDirectory(lambda: world.snapshot(), secret).find(job.id)
        assert found is not None
        assert found.members is not None
        return found.members.key

    assert key(1, b"secret") == key(1, b"secret")
    assert len({key(1, b"secret"), key(2, b"secret"), key(1, b"other")}) == 3


def test_a_run_is_to_stop_from_a_notice_on_and_is_not_told_to_save_any_sooner_for_it() -> None:
    world = one_job_runs()
    (pool,) = world.pools.values()
    world.pools[pool.id] = replace(pool, capacity_type=CapacityType.SPOT)
    world.now = after(world.now, 1800.0)
    (rental,) = world.rentals.values()
    assert rental.instance is not None
    machine = factory.instance(rental.instance, provider_id=rental.provider_id)
    found = []
    for notices in ((), (Notice(rental.instance, after(world.now, 30.0)),)):
        surveys = {pool.id: factory.survey(machine, notices=notices, pool=pool.id)}
        snapshot = observe(replace(seen_of(world), surveys=surveys), world.now)
        found.append(SnapshotJobDirectory(partial(replace, snapshot), b"secret").find(JobId("train")))
    before, noticed = found
    assert before is not None
    assert not before.stopping
    assert noticed == replace(before, stopping=True)
