"""Objects that teams already had are looked at before they are written, and written in an order that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.cluster.errors import Forbidden
from charterer.controller.execute import ExecutionContext, ObjectWriter, Stale
from charterer.controller.execute.run_steps import give_back
from charterer.controller.execute.target_steps import adopt, edit
from charterer.controller.outcome import Held
from charterer.domain.ids import NodeName, RentalId
from charterer.domain.steps import AdoptTarget, Cordon, EditJob, GiveBack
from charterer.domain.target import TargetRef
from charterer.workloads.adopted.job import ADOPTED_JOB
from tests.factory import job
from tests.unit.workloads.json_patches import Raw, applied
from tests.unit.workloads.test_adopted_job import allocation, raw_job

JOB = job(namespace="speech", target=TargetRef("batch/v1", "Job", "whisper", "u1"))


class Cluster:
    """A cluster with one Job and pods of it. ``writes``: the verbs of what was written; ``refusal``: of patches."""

    def __init__(self, raw: Raw, *phases: str, refusal: Exception | None = None) -> None:
        self.raw = raw
        self.pods = [{"metadata": {}, "status": {"phase": phase}} for phase in phases]
        self.refusal = refusal
        self.writes: list[str] = []
        self.paths: list[str] = []
        self.patched: list[Mapping[str, Any]] = []

    @property
    def context(self) -> ExecutionContext:
        """The context of a handler; its TrainingJob stands for the Job."""
        store: Any = SimpleNamespace(put=lambda kind, raw: None)
        decided = SimpleNamespace(
            job=lambda _: JOB, decided_job=lambda _: SimpleNamespace(adopted=ADOPTED_JOB.read(self.raw))
        )
        objects = ObjectWriter(cast(Any, self), store)
        return cast(ExecutionContext, SimpleNamespace(client=self, objects=objects, decided=decided))

    async def get(self, path: str) -> Raw:
        return self.raw

    async def list(self, path: str, labels: str) -> Any:
        return SimpleNamespace(items=self.pods)

    async def json_patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Raw:
        self.writes.append("PATCH")
        self.paths.append("/".join(path.split("/")[-2:]))
        self.patched = list(operations)
        if self.refusal is not None:
            raise self.refusal
        return self.raw

    async def post(self, path: str, body: Raw, *, strict: bool) -> Raw:
        self.writes.append("POST")
        return body

    async def delete(self, path: str, **options: Any) -> Raw:
        self.writes.append("DELETE")
        self.paths.append("/".join(path.split("/")[-2:]))
        return {}


def takes_over(cluster: Cluster) -> AdoptTarget:
    return AdoptTarget(ADOPTED_JOB.read(cluster.raw))


async def test_an_object_that_runs_already_is_not_taken_over() -> None:
    """Before its first pod runs it can be stopped and given a TrainingJob without a loss."""
    begins = Cluster(raw_job(suspend=False), "Pending", "Pending")
    await adopt(begins.context, takes_over(begins))
    assert begins.writes == ["PATCH", "POST"]
    runs = Cluster(raw_job(suspend=False), "Pending", "Running")
    with pytest.raises(Stale):
        await adopt(runs.context, takes_over(runs))
    assert runs.writes == []


async def test_a_training_job_stays_until_its_object_is_as_its_author_wrote_it() -> None:
    stopped = raw_job()
    placed = applied(stopped, ADOPTED_JOB.place(stopped, JOB, allocation(2)))
    given = Cluster(placed)
    await give_back(given.context, GiveBack(JOB.id, "the label is gone"))
    assert given.writes == ["PATCH", "DELETE"]
    node = Cordon(RentalId("a100-1"), NodeName("n1"), "node-uid", "rental-uid")
    closed = Cluster(placed)
    await give_back(closed.context, GiveBack(JOB.id, "the label is gone", closes=(node,)))
    assert closed.paths == ["nodes/n1", "jobs/whisper", "trainingjobs/sft"]
    words = "admission webhook denied the request: its fields are not open yet"
    refused = Cluster(placed, refusal=Forbidden("PATCH", "/x", 403, "Forbidden", words))
    with pytest.raises(Held, match="not open yet"):
        await give_back(refused.context, GiveBack(JOB.id, "the label is gone"))
    assert refused.writes == ["PATCH"]


async def test_what_an_object_asks_for_replaces_all_that_its_training_job_says() -> None:
    cluster = Cluster(raw_job())
    await edit(cluster.context, EditJob(JOB.id))
    version, replaced = cluster.patched
    assert version == {"op": "test", "path": "/metadata/resourceVersion", "value": JOB.resource_version}
    assert (replaced["op"], replaced["path"]) == ("replace", "/spec")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "whisper", "uid": "u1"}
    assert replaced["value"] == {**ADOPTED_JOB.shadow(cluster.raw), "targetRef": reference}
