"""What a job holds."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import NodeName, RentalId
from charterer.domain.pod import PodPhase
from charterer.policy.nodes.rentals import held_by
from tests.factory import job, pod, run
from tests.worlds import World


def test_a_job_holds_the_most_of_its_allocation_its_live_pods_and_its_unrecorded_runs() -> None:
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.rental()
    world.job("train", gpus=4)
    job = world.runs_on("train", "a100-1", gpus=4)
    rental_of = {NodeName("n-a100-1"): RentalId("a100-1"), NodeName("n-a100-2"): RentalId("a100-2")}
    assert held_by(job, rental_of) == {"a100-1": 4}
    stopping = replace(job, allocation=None)
    assert held_by(stopping, rental_of) == {"a100-1": 4}
    run = job.runs[0]
    ended = replace(run, pods=tuple(replace(pod, phase=PodPhase.FAILED) for pod in run.pods))
    assert held_by(replace(stopping, runs=(ended,)), rental_of) == {}
    assert job.allocation is not None
    assert held_by(replace(stopping, runs=(), replaced=(job.allocation,)), rental_of) == {"a100-1": 4}


def test_a_pod_of_a_run_before_the_last_still_holds_its_gpus() -> None:
    rental_of = {NodeName(f"n-i{n}"): RentalId(f"a100-{n}") for n in (1, 2)}
    older, last = run(1, pod()), run(2, pod(run=2, node=NodeName("n-i2"), phase=PodPhase.SUCCEEDED))
    assert held_by(job(runs=(older, last)), rental_of) == {"a100-1": 4}
