"""Which TrainingJob stands for which object that a team already had."""

from __future__ import annotations

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.runs import targets_by_job
from charterer.domain.ids import JobId
from charterer.domain.jobs.target import Target, TargetRef
from tests.factory import T0, job

REF = TargetRef("batch/v1", "Job", "sft", "object-1")


def test_a_job_stands_for_no_object_of_another_namespace() -> None:
    target = Target(REF, "research", "7", T0, suspended=True)
    objects = {ObjectKey(target.namespace, REF.name): target}
    here, elsewhere = job(target=REF), job(id=JobId("elsewhere"), namespace="speech", target=REF)
    assert targets_by_job({here.id: DecodedJob(here, "", "")}, objects) == {here.id: target}
    assert targets_by_job({elsewhere.id: DecodedJob(elsewhere, "", "")}, objects) == {}
