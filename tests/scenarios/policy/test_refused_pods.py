"""A node whose kubelet refused a pod is not used again, and given back."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId, NodeName
from charterer.domain.job import Job
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.target import Asked, Target, TargetRef
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, simple
from tests.worlds import World

SAID = "pod train-r1-0: UnexpectedAdmissionError: Pod was rejected"


def refusing(world: World, name: str = "a100-1") -> None:
    node = NodeName(f"n-{name}")
    world.nodes[node] = replace(world.nodes[node], refused=SAID)


def adopted(job: Job) -> Job:
    """The same job, if a batch/v1 Job that goes on carries out its run."""
    ref = TargetRef("batch/v1", "Job", job.name, "u")
    asked = Asked(8, 8, 8, job.resize, job.spot, None, None, "", suspend=False, template=job.template)
    target = Target(ref, job.namespace, "1", job.created, asked=asked, run=1, job=job.id, suspended=False)
    return replace(job, target=ref, adopted=target)


def test_a_node_that_refused_a_pod_is_given_back_and_the_job_gets_another_one() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8, profile="sft", hours_left=20)
    assert placed(plan(world.snapshot())) == {"train": 8}
    refusing(world)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert releases(decided) == {"a100-1": ReasonCode.POD_REFUSED}
    assert rents(decided) == ["a100-2"]
    released = next(command for command in decided.commands if getattr(command, "rental", "") == "a100-1")
    assert released.reason.message == f"Node n-a100-1 refused {SAID}"


def test_while_another_job_runs_there_it_stays_and_takes_no_new_one() -> None:
    world = simple()
    world.rental()
    world.job("other", gpus=4, profile="sft", hours_left=20)
    world.runs_on("other", "a100-1", gpus=4)
    world.job("train", gpus=4, profile="sft", hours_left=20)
    refusing(world)
    decided = plan(world.snapshot())
    assert "a100-1" not in releases(decided)
    assert placed(decided) == {}
    assert rents(decided) == ["a100-2"]


def test_an_adopted_object_leaves_it_before_its_own_controller_has_given_up() -> None:
    world = simple()
    world.rental()
    world.rental()
    world.job("train", gpus=8, profile="sft", hours_left=20)
    job = world.runs_on("train", "a100-1", gpus=8)
    (run,) = job.runs
    lost = replace(run.pods[0], phase=PodPhase.FAILED, refused=True, message="UnexpectedAdmissionError")
    own = replace(job, runs=(replace(run, pods=(lost,), retries=3),))
    refusing(world)
    world.jobs[JobId("train")] = own
    assert placed(plan(world.snapshot())) == {}
    world.jobs[JobId("train")] = adopted(own)
    decided = plan(world.snapshot())
    (moves,) = [command for command in decided.commands if isinstance(command, Allocate)]
    assert moves.allocation is not None
    assert [place.rental for place in moves.allocation.placements] == ["a100-2"]
