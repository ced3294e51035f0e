"""What waits in a queue of Kueue: that Kueue is told to start it is noted before, and is taken back if it was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.cluster.errors import ApiError, Conflict, Forbidden, OutcomeUnknown
from charterer.controller.execute import ExecutionContext, ObjectWriter, Stale
from charterer.controller.execute.target_steps import adopt, edit, resize, start
from charterer.controller.outcome import Held
from charterer.domain.steps import AdoptTarget, EditJob, ResizeRun
from charterer.domain.target import TargetRef
from charterer.workloads.adopted.kueue_workload import KUEUE_WORKLOAD, OWNER
from tests.factory import T0, allocation, job
from tests.unit.workloads.json_patches import Raw
from tests.unit.workloads.test_kueue_workload import owned, pod_set, workload

REF = TargetRef("batch/v1", "Job", "sft", "owner-uid", queued=True)
JOB = job(target=REF, allocation=allocation("a", "b"))


class Queue:
    """A cluster with one queued Job. ``writes``: what was written, in order; ``refusal``: of patches."""

    def __init__(self, raw: Raw, *, refusal: ApiError | None = None, **owner: Any) -> None:
        self.workload = raw
        self.owner = owned(raw)[OWNER]
        self.owner["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
        self.owner["spec"] |= owner
        self.refusal = refusal
        self.unreadable = False
        self.writes: list[Any] = []

    @property
    def context(self) -> ExecutionContext:
        """The context of a handler; its TrainingJob stands for the Job."""
        store: Any = SimpleNamespace(put=lambda kind, raw: None)
        adopted = KUEUE_WORKLOAD.read(self.workload)
        decided = SimpleNamespace(job=lambda _: JOB, decided_job=lambda _: SimpleNamespace(adopted=adopted))
        objects = ObjectWriter(cast(Any, self), store)
        context = SimpleNamespace(client=self, objects=objects, decided=decided, now=lambda: T0)
        return cast(ExecutionContext, context)

    async def get(self, path: str) -> Raw:
        if "/workloads/" in path:
            return self.workload
        if self.unreadable:
            raise Forbidden("GET", path, 403, "Forbidden", "cannot get resource")
        return {"spec": {"maxCost": "7", "gpus": {}}} if "/trainingjobs/" in path else self.owner

    async def list(self, path: str, labels: str) -> Any:
        return SimpleNamespace(items=[])

    async def apply(self, path: str, body: Raw, manager: str, **options: Any) -> Raw:
        self.writes.append(("begun", body["status"]["allocation"].get("begun", False)))
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "8"}}

    async def post(self, path: str, body: Raw, *, strict: bool) -> Raw:
        self.writes.append(body["kind"])
        return body

    async def json_patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Raw:
        value = operations[-1].get("value")
        self.writes.append(value.get("state", value) if isinstance(value, Mapping) else operations[-1]["path"])
        if self.refusal is not None:
            raise self.refusal
        return self.workload


async def test_that_kueue_is_told_is_noted_first() -> None:
    queue = Queue(workload())
    await start(queue.context, JOB, 1)
    assert queue.writes == [("begun", True), "Ready"]


async def test_what_kueue_was_not_told_is_not_noted_and_what_it_may_have_been_told_is() -> None:
    refused = Queue(workload(), refusal=Conflict("PATCH", "/x", 409, "Conflict", "it has changed"))
    with pytest.raises(Conflict):
        await start(refused.context, JOB, 1)
    assert refused.writes == [("begun", True), "Ready", ("begun", False)]
    unknown = Queue(workload(), refusal=OutcomeUnknown("PATCH", "/x", 0, "", "no answer"))
    with pytest.raises(OutcomeUnknown):
        await start(unknown.context, JOB, 1)
    assert unknown.writes == [("begun", True), "Ready"]


async def test_an_object_is_adopted_of_which_more_is_known_than_its_workload_says() -> None:
    queue = Queue(workload())
    known = replace(KUEUE_WORKLOAD.read(queue.workload), incomplete="Ray has not heard of its entrypoint")
    await adopt(queue.context, AdoptTarget(known))
    assert queue.writes == ["TrainingJob"]
    with pytest.raises(Stale):
        await adopt(queue.context, AdoptTarget(replace(known, resource_version="6")))


async def test_a_job_that_grew_is_cleaned_before_kueue_is_told() -> None:
    template = pod_set(labels={"charterer.dev/job-uid": JOB.id})["template"]
    queue = Queue(workload(), template=template)
    with pytest.raises(Stale):
        await start(queue.context, JOB, 1)
    assert queue.writes == ["/spec/template/metadata/labels/charterer.dev~1job-uid"]


async def test_a_width_that_kueue_has_not_taken_up_is_waited_for_and_not_written_again() -> None:
    """Its Workload has the former width until Kueue has made another."""
    labels = {"charterer.dev/job-uid": JOB.id, "charterer.dev/run": "1"}
    running = workload(pod_set(count=1), state="Ready")
    running["status"]["admissionChecks"][-1]["podSetUpdates"] = [{"name": "main", "labels": labels}]
    growing = Queue(running, completionMode="Indexed")
    step = ResizeRun(JOB.id, 1, 2)
    await resize(growing.context, JOB, step)
    assert growing.writes.pop() is not None
    growing.owner["spec"] |= {"parallelism": 2, "completions": 2}
    with pytest.raises(Held, match="Kueue has yet to make a Workload of its new width"):
        await resize(growing.context, JOB, step)
    assert growing.writes == []


async def test_what_its_training_job_was_asked_for_since_stays_when_its_author_changes_it() -> None:
    queue = Queue(workload())
    await edit(queue.context, EditJob(JOB.id))
    (spec,) = queue.writes
    assert (spec["maxCost"], spec["gpus"]["preferred"], spec["targetRef"]["queued"]) == ("7", 8, True)


async def test_what_may_not_be_read_is_told_in_its_check() -> None:
    queue = Queue(workload())
    queue.unreadable = True
    with pytest.raises(Held):
        await adopt(queue.context, AdoptTarget(KUEUE_WORKLOAD.read(queue.workload)))
    assert queue.writes == ["Pending"]
