"""Which TrainingJob stands for which object that a team already had."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.decode import DecodedJob, JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.runs import PodController, candidates, placed_by_deleted, targets_by_job
from charterer.domain.ids import JobId
from charterer.domain.target import Target, TargetRef
from tests.factory import T0, job, pod

REF = TargetRef("batch/v1", "Job", "sft", "object-1")


def test_a_job_stands_for_no_object_of_another_namespace() -> None:
    target = Target(REF, "research", "7", T0, suspended=True)
    objects = {ObjectKey(target.namespace, REF.name): target}
    here, elsewhere = job(target=REF), job(id=JobId("elsewhere"), namespace="speech", target=REF)
    assert targets_by_job({here.id: DecodedJob(here, "", "")}, objects) == {here.id: target}
    assert targets_by_job({elsewhere.id: DecodedJob(elsewhere, "", "")}, objects) == {}


def test_the_pods_of_an_object_in_deletion_are_known_that_it_controls() -> None:
    target = Target(REF, "research", "7", T0, suspended=True, job=job().id, controllers=frozenset(["sft"]))
    mine, other = JobPod("research", "sft", "object-1", pod(), job().id), JobPod("research", "x", "o", pod(1), job().id)
    controller = PodController("research", job().id)
    for deleting, pods in ((False, ()), (True, (mine.pod,))):
        objects = {ObjectKey("research", "sft"): replace(target, deleting=deleting)}
        assert placed_by_deleted(objects) == ((controller,) if deleting else ())
        (left,) = candidates({}, {}, {controller: (mine, other)}, objects)
        assert left.pods == pods
