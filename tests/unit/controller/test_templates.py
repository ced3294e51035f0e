"""Which templates are tried by a dry run, how often, and what the answers mean to the planner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, cast

from charterer.api import decode
from charterer.cluster.client import Client
from charterer.cluster.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    NamespaceTerminating,
    NotFound,
    TooManyRequests,
    Unreachable,
)
from charterer.controller.templates import SHARED_SECONDS, Templates
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.workloads import INDEXED_JOB, RunEnvironment
from tests.unit.api import values
from tests.virtual_time import run_in_virtual_time

RAW = values.raw_job()
JOB = replace(decode.training_job(RAW).job, allocation=None)


class Api:
    """An API server with one TrainingJob, which answers dry runs after ``seconds``, with ``refuses`` if it is set."""

    def __init__(self) -> None:
        self.raw: Mapping[str, Any] | None = RAW
        self.raw_of: dict[str, Mapping[str, Any]] = {}
        """The TrainingJobs that differ from ``raw``, by name."""
        self.refuses: ApiError | None = None
        self.queue = ""
        """The queue of Kueue into which each Job is put that names none."""
        self.others: dict[str, Mapping[str, Any]] = {}
        """Objects of other kinds by their paths; empty where the operator may not see one."""
        self.seconds = 0.1
        self.tried: list[Mapping[str, Any]] = []
        self.under_way = 0
        self.most_under_way = 0

    async def get(self, path: str) -> Mapping[str, Any]:
        found = (
            self.raw_of.get(path.rpartition("/")[2], self.raw) if "/trainingjobs/" in path else self.others.get(path)
        )
        if found is None:
            raise NotFound("GET", path, 404, "NotFound", "no such object")
        if not found:
            raise Forbidden("GET", path, 403, "Forbidden", "cannot get resource")
        return found

    async def post(self, path: str, body: Mapping[str, Any], *, dry_run: bool, strict: bool) -> Mapping[str, Any]:
        assert (path, dry_run, strict) == ("/apis/batch/v1/namespaces/research/jobs", True, True)
        self.tried.append(body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        if self.refuses is not None:
            raise self.refuses
        queue = {"kueue.x-k8s.io/queue-name": self.queue} if self.queue else {}
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "labels": {**queue, **(metadata.get("labels") or {})}}}


class Gate:
    """Templates in front of the API server; ``turns`` counts how often the loop was told to look again."""

    def __init__(self) -> None:
        self.api = Api()
        self.turns = 0
        environment = RunEnvironment("https://progress", "certificate")
        self.templates = Templates(cast(Client, self.api), INDEXED_JOB, environment, self._changed)

    def _changed(self) -> None:
        self.turns += 1

    async def answer(self, *jobs: Job) -> Mapping[JobId, str | None]:
        """The refusals, once every dry run that they begin has been answered and counts for no other job any more."""
        self.templates.refusals(jobs)
        await asyncio.sleep(SHARED_SECONDS + 1.0)
        return self.templates.refusals(jobs)


def at_the_gate(scene: Callable[[Gate], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scene(Gate())

    run_in_virtual_time(main())


def test_a_job_is_not_planned_for_until_its_template_has_been_tried_once() -> None:
    async def scene(gate: Gate) -> None:
        assert gate.templates.refusals([JOB]) == {JOB.id: None}
        assert gate.templates.refusals([JOB]) == {JOB.id: None}
        await asyncio.sleep(1.0)
        assert gate.templates.refusals([JOB]) == {}
        assert (len(gate.api.tried), gate.turns) == (1, 1)

    at_the_gate(scene)


def test_a_job_whose_record_is_refused_is_left_alone_for_five_minutes_then_ten() -> None:
    async def scene(gate: Gate) -> None:
        assert await gate.answer(JOB) == {}
        for minutes in (5, 10):
            gate.templates.unwritten(JOB.id, "denied by policy")
            await asyncio.sleep(minutes * 60 - 1.0)
            assert gate.templates.refusals([JOB]) == {JOB.id: "its record cannot be written: denied by policy"}
            await asyncio.sleep(1.5)
            assert gate.templates.refusals([JOB]) == {}

    at_the_gate(scene)


def test_a_record_that_was_written_meanwhile_makes_the_next_refusal_a_first_one() -> None:
    async def scene(gate: Gate) -> None:
        assert await gate.answer(JOB) == {}
        for _ in range(2):
            gate.templates.unwritten(JOB.id, "denied by policy")
            await asyncio.sleep(600.5)
            assert gate.templates.refusals([JOB]) == {}
        assert gate.templates.refusals([replace(JOB, allocation=values.allocation())]) == {}
        gate.templates.unwritten(JOB.id, "denied by policy")
        await asyncio.sleep(300.5)
        assert gate.templates.refusals([JOB]) == {}

    at_the_gate(scene)


def test_a_changed_spec_is_tried_again_and_a_job_that_holds_nodes_never() -> None:
    async def scene(gate: Gate) -> None:
        assert await gate.answer(JOB) == {}
        edited = replace(JOB, generation=JOB.generation + 1)
        assert gate.templates.refusals([edited]) == {edited.id: None}
        assert await gate.answer(edited) == {}
        assert len(gate.api.tried) == 2
        placed = replace(JOB, generation=JOB.generation + 2, allocation=values.allocation())
        assert gate.templates.refusals([placed]) == {}

    at_the_gate(scene)


def test_a_refusal_gives_the_api_servers_words_and_says_what_to_do() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.refuses = BadRequest("POST", "/jobs", 400, "BadRequest", "unknown field spec.contaners")
        text = "spec.template: the Job API refuses it: unknown field spec.contaners; correct the template"
        assert await gate.answer(JOB) == {JOB.id: text}
        assert len(gate.api.tried) == 1

    at_the_gate(scene)


def test_a_template_that_is_none_is_shown_to_the_api_server_as_it_is() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.raw = {**RAW, "spec": {**RAW["spec"], "template": {"spec": {"containers": "none"}}}}
        message = (await gate.answer(JOB))[JOB.id]
        assert message is not None
        assert message.startswith("spec.template: it does not have the shape of a pod template")
        assert [body["spec"]["template"]["spec"]["containers"] for body in gate.api.tried] == ["none"]

    at_the_gate(scene)


def test_a_job_or_namespace_that_goes_away_is_not_planned_for() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.refuses = NamespaceTerminating("POST", "/jobs", 403, "Forbidden", "it is being terminated")
        assert await gate.answer(JOB) == {JOB.id: "namespace research is being deleted"}
        gate.api.raw = None
        edited = replace(JOB, generation=JOB.generation + 1)
        assert await gate.answer(edited) == {JOB.id: "the job is gone"}

    at_the_gate(scene)


def test_a_namespace_in_which_the_operator_may_not_create_jobs_is_named_and_a_quota_may_yet_let_it_pass() -> None:
    async def scene(gate: Gate) -> None:
        message = 'User "charterer" cannot create resource "jobs" in API group "batch" in the namespace "research"'
        gate.api.refuses = Forbidden("POST", "/jobs", 403, "Forbidden", message)
        said = (await gate.answer(JOB))[JOB.id]
        assert said is not None
        assert "may not create Jobs in namespace research" in said
        gate.api.refuses = Forbidden("POST", "/jobs", 403, "Forbidden", "exceeded quota: jobs")
        edited = replace(JOB, generation=JOB.generation + 1)
        assert await gate.answer(edited) == {JOB.id: None}

    at_the_gate(scene)


def test_an_api_server_that_does_not_answer_is_asked_again_a_second_later() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.refuses = Unreachable("POST", "/jobs", 0, "Unreachable", "no answer")
        gate.templates.refusals([JOB])
        await asyncio.sleep(1.0)
        assert gate.templates.refusals([JOB]) == {JOB.id: None}
        assert (len(gate.api.tried), gate.turns) == (1, 0)
        await asyncio.sleep(0.2)
        assert gate.turns == 1
        gate.api.refuses = None
        assert await gate.answer(JOB) == {}
        assert len(gate.api.tried) == 2

    at_the_gate(scene)


def test_an_api_server_that_goes_on_refusing_is_asked_less_and_less() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.refuses = TooManyRequests("POST", "/jobs", 429, "TooManyRequests", "later", 3.0)
        for _ in range(200):
            gate.templates.refusals([JOB])
            await asyncio.sleep(0.5)
        assert len(gate.api.tried) == 6  # after 0, 3, 9, 21, 45 and 75 seconds

    at_the_gate(scene)


def _jobs(number: int) -> list[Job]:
    return [replace(JOB, id=JobId(f"uid-{which}"), name=f"sweep-{which}") for which in range(number)]


def test_at_most_eight_dry_runs_are_under_way() -> None:
    async def scene(gate: Gate) -> None:
        jobs = _jobs(30)
        gate.api.raw_of = {job.name: _naming(hostname=job.name) for job in jobs}
        assert await gate.answer(*jobs) == {}
        assert (len(gate.api.tried), gate.api.most_under_way) == (30, 8)

    at_the_gate(scene)


def test_of_jobs_that_come_together_with_one_template_one_is_tried() -> None:
    async def scene(gate: Gate) -> None:
        jobs = _jobs(30)
        gate.api.raw_of = {jobs[7].name: _naming(hostname="another")}
        gate.templates.refusals(jobs)
        await asyncio.sleep(1.0)
        assert gate.templates.refusals(jobs) == {}
        assert [run["metadata"]["name"] for run in gate.api.tried] == ["sweep-0-r1", "sweep-7-r1"]
        late = replace(JOB, id=JobId("late"), name="late")
        await asyncio.sleep(SHARED_SECONDS)
        assert await gate.answer(*jobs, late) == {}
        assert [run["metadata"]["name"] for run in gate.api.tried[2:]] == ["late-r1"]

    at_the_gate(scene)


def test_each_job_is_refused_in_the_words_of_its_own_dry_run_and_none_waits_for_all_others() -> None:
    async def scene(gate: Gate) -> None:
        jobs = _jobs(16)
        gate.api.refuses = BadRequest("POST", "/jobs", 422, "Invalid", "no such field")
        gate.templates.refusals(jobs)
        await asyncio.sleep(0.45)  # one is tried alone, then seven, then eight of those that came after
        assert all(gate.templates.refusals(jobs).values())
        assert {run["metadata"]["name"] for run in gate.api.tried} == {f"{job.name}-r1" for job in jobs}

    at_the_gate(scene)


def test_a_job_whose_run_never_started_is_tried_itself_and_its_refusal_ends_what_others_share() -> None:
    async def scene(gate: Gate) -> None:
        one, other, third = _jobs(3)
        gate.templates.refusals([one])
        await asyncio.sleep(1.0)
        gate.api.refuses = BadRequest("POST", "/jobs", 400, "BadRequest", "this name is refused")
        failed = replace(one, start_failures=1)
        gate.templates.refusals([failed])
        await asyncio.sleep(1.0)
        assert "this name is refused" in str(gate.templates.refusals([failed])[one.id])
        gate.templates.refusals([other, third])
        await asyncio.sleep(1.0)
        assert set(gate.templates.refusals([other, third])) == {other.id, third.id}

    at_the_gate(scene)


def test_the_name_of_a_run_must_be_free_even_if_an_equal_run_was_accepted() -> None:
    async def scene(gate: Gate) -> None:
        one, other = _jobs(2)
        gate.templates.refusals([one])
        await asyncio.sleep(1.0)
        gate.api.refuses = AlreadyExists("POST", "/jobs", 409, "AlreadyExists", "it exists")
        taken = f"/apis/batch/v1/namespaces/research/jobs/{other.name}-r1"
        for found in (ANYTHING, {}):  # an empty one may not be read
            gate.api.others[taken] = found
            gate.templates.refusals([other])
            await asyncio.sleep(0.5)
            assert other.id in gate.templates.refusals([other])
            gate.templates.refusals([])

    at_the_gate(scene)


def test_what_was_answered_about_a_job_that_is_gone_is_forgotten() -> None:
    async def scene(gate: Gate) -> None:
        assert await gate.answer(JOB) == {}
        assert gate.templates.refusals([]) == {}
        assert gate.templates.refusals([JOB]) == {JOB.id: None}

    at_the_gate(scene)


def _noted(length: int) -> Mapping[str, Any]:
    """The job with an annotation of that many bytes."""
    return {**RAW, "metadata": {**RAW["metadata"], "annotations": {"note": "x" * length}}}


def test_nothing_is_rented_for_a_job_whose_record_could_not_be_stored() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.raw = _noted(900_000)
        said = (await gate.answer(JOB))[JOB.id]
        assert said is not None
        assert "the TrainingJob takes 900," in said
        assert not gate.api.tried

    at_the_gate(scene)


def test_the_places_of_the_widest_run_need_room_in_the_record_too() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.raw = _noted(200_000)
        assert await gate.answer(JOB) == {}
        wide = replace(JOB, widths=replace(JOB.widths, max=100_000), generation=JOB.generation + 1)
        assert JOB.id in await gate.answer(wide)

    at_the_gate(scene)


SERVICE = f"/api/v1/namespaces/research/services/{JOB.name}"
RUN = f"/apis/batch/v1/namespaces/research/jobs/{JOB.name}-r{JOB.last_run + 1}"
CLAIM = "/api/v1/namespaces/research/persistentvolumeclaims/data"
ACCOUNT = "/api/v1/namespaces/research/serviceaccounts/trainer"
ANYTHING = {"metadata": {"name": "anything"}}


def _owned(uid: str) -> Mapping[str, Any]:
    owner = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": JOB.name, "uid": uid}
    return {"metadata": {"name": JOB.name, "ownerReferences": [{**owner, "controller": True}]}}


def _naming(**spec: Any) -> Mapping[str, Any]:
    """The job with a template that names other objects."""
    template = RAW["spec"]["template"]
    return {**RAW, "spec": {**RAW["spec"], "template": {**template, "spec": {**template["spec"], **spec}}}}


def test_nothing_is_rented_for_a_job_whose_service_has_a_name_that_is_taken() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.others[SERVICE] = ANYTHING
        named = f"Service research/{JOB.name} is somebody else's, and runs of the job need that name: delete it, or "
        assert await gate.answer(JOB) == {JOB.id: named + "create the job under another name"}
        gate.api.others[SERVICE] = _owned("an earlier job of this name, whose Service will be collected")
        assert await gate.answer(JOB) == {}
        assert await gate.answer(replace(JOB, has_service=True)) == {}

    at_the_gate(scene)


def test_nothing_is_rented_for_a_job_whose_run_has_a_name_that_is_taken() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.refuses = AlreadyExists("POST", "/jobs", 409, "AlreadyExists", "it exists")
        gate.api.others[RUN] = ANYTHING
        said = (await gate.answer(JOB))[JOB.id]
        assert said is not None
        assert said.startswith(f"Job research/{JOB.name}-r{JOB.last_run + 1} is somebody else's")
        gate.api.others[RUN] = _owned("an earlier job of this name, whose runs will be collected")
        assert await gate.answer(replace(JOB, generation=9)) == {JOB.id: None}
        gate.api.others[RUN] = _owned(JOB.id)
        assert await gate.answer(replace(JOB, generation=9)) == {}

    at_the_gate(scene)


def test_what_a_template_names_is_looked_for_until_it_is_there() -> None:
    async def scene(gate: Gate) -> None:
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        gate.api.raw = _naming(serviceAccountName="trainer", volumes=[{"name": "scratch", "emptyDir": {}}, claim])
        said = (await gate.answer(JOB))[JOB.id]
        assert said == (
            "ServiceAccount research/trainer does not exist, and spec.template.spec.serviceAccountName names it: "
            "create it, or correct the template"
        )
        gate.api.others[ACCOUNT] = ANYTHING
        said = (await gate.answer(JOB))[JOB.id]
        assert said is not None
        assert "PersistentVolumeClaim research/data does not exist, and spec.template.spec.volumes[1]." in said
        gate.api.others[CLAIM] = ANYTHING
        turns = gate.turns
        await asyncio.sleep(10.2)
        assert (gate.templates.refusals([JOB]), gate.turns) == ({}, turns + 1)
        tried = len(gate.api.tried)
        assert await gate.answer(JOB) == {}
        assert len(gate.api.tried) == tried

    at_the_gate(scene)


def test_an_operator_without_the_right_to_look_takes_what_a_template_names_to_be_there() -> None:
    async def scene(gate: Gate) -> None:
        gate.api.raw = _naming(serviceAccountName="trainer")
        gate.api.others |= {ACCOUNT: {}, SERVICE: {}}
        assert await gate.answer(JOB) == {}

    at_the_gate(scene)


def test_runs_that_a_queue_would_hold_are_not_planned_for_until_it_is_gone() -> None:
    """A LocalQueue named default."""

    async def scene(gate: Gate) -> None:
        gate.api.queue = "default"
        refused = (await gate.answer(JOB))[JOB.id]
        assert refused is not None
        assert "LocalQueue default of namespace research takes every Job" in refused
        gate.api.queue = ""
        assert await gate.answer(JOB) == {}

    at_the_gate(scene)


def test_a_job_is_tried_again_after_a_run_that_never_started() -> None:
    """What held it up may have come after the first try."""

    async def scene(gate: Gate) -> None:
        assert await gate.answer(JOB) == {}
        gate.api.queue = "default"
        assert await gate.answer(JOB) == {}
        assert (await gate.answer(replace(JOB, start_failures=1)))[JOB.id]

    at_the_gate(scene)
