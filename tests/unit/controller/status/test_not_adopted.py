"""What cannot be adopted is told by an Event on the object and a line of doctor, and is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from charterer.api.manifests import EventSubject
from charterer.cluster.events import Recorder
from charterer.controller.snapshot.runs import adoption_problems
from charterer.controller.status.events import Events
from charterer.domain.budget import Mode
from charterer.domain.snapshot import AdoptionCandidate, Snapshot
from charterer.domain.steps import AdoptTarget, StopRun
from charterer.domain.target import Target
from charterer.lifecycle.adopted import adopt_step
from charterer.lifecycle.view import LifecycleView
from charterer.tools.commands.doctor.checks import check_adoption
from charterer.workloads import TargetKind
from charterer.workloads.adopted.job_set import ADOPTED_JOB_SET, ADOPTED_TRAIN_JOB
from charterer.workloads.adopted.ray_job import ADOPTED_RAY_JOB
from tests import factory as make
from tests.contract.adopted_objects import job_set, ray_job, replicated_job, train_job

EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.provider.com/rack"}
QUEUED = {"kueue.x-k8s.io/queue-name": "gpus"}
SCALED = ray_job("llm")
SCALED["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
TWO = job_set("llm", jobs=[replicated_job("x", 1), replicated_job("y", 1)])
REFUSED = [
    pytest.param(ADOPTED_TRAIN_JOB, train_job("llm"), {"labels": QUEUED}, "two owners of suspend", id="queue"),
    pytest.param(
        ADOPTED_JOB_SET, job_set("llm", managedBy="kueue.x-k8s.io/multikueue"), {}, "spec.managedBy is", id="managedBy"
    ),
    pytest.param(ADOPTED_JOB_SET, TWO, {}, "x, y ask for GPUs", id="several groups"),
    pytest.param(ADOPTED_JOB_SET, job_set("llm"), {"annotations": EXCLUSIVE}, "exclude each other", id="exclusive"),
    pytest.param(ADOPTED_RAY_JOB, SCALED, {}, "two owners of replicas", id="autoscaler"),
    pytest.param(
        ADOPTED_RAY_JOB,
        ray_job("llm"),
        {"annotations": {"charterer.dev/gpus": "many"}},
        "charterer.dev/gpus is 'many'",
        id="annotation",
    ),
    pytest.param(
        ADOPTED_TRAIN_JOB,
        train_job("llm"),
        {"annotations": {"charterer.dev/gpus": "2..8"}},
        "the number of its pods is fixed",
        id="width",
    ),
]


class Told:
    """A recorder that keeps on which object what was said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str, bool]] = []

    def record(self, subject: EventSubject, reason: str, note: str, *, action: str, warning: bool = False) -> None:
        self.events.append((subject.kind, subject.name, reason, note, warning))


def decoded(kind: TargetKind, body: Mapping[str, Any], more: Mapping[str, Any]) -> Target:
    """The labelled object as the operator reads it from its watch."""
    of_server = {"uid": "uid-1", "resourceVersion": "7", "creationTimestamp": "2026-11-01T00:00:00Z"}
    labels = {"charterer.dev/adopt": "true"} | more.get("labels", {})
    metadata = {**body["metadata"], **of_server, **more, "labels": labels}
    target = kind.kind.decode({**body, "metadata": metadata})
    assert target is not None
    return target


def waiting(target: Target, **changes: Any) -> Snapshot:
    """A world in which the object has no TrainingJob yet."""
    seen = make.snapshot(make.budget(**changes))
    return replace(seen, candidates=(AdoptionCandidate(target, make.TEAM),))


@pytest.mark.parametrize(("kind", "body", "more", "words"), REFUSED)
def test_a_refusal_is_an_event_on_the_object_and_a_line_of_doctor_and_no_step(
    kind: TargetKind, body: Mapping[str, Any], more: Mapping[str, Any], words: str
) -> None:
    target, heard = decoded(kind, body, more), Told()
    seen = waiting(target)
    events = Events(cast(Recorder, heard))
    for _ in range(2):
        events.not_adopted(seen)
    ((*subject, note, warning),) = heard.events  # once
    assert (subject, warning) == ([kind.name, "llm", "NotAdopted"], True)
    assert words in note
    (finding,) = check_adoption(seen, None)
    assert (finding.subject, finding.text) == (f"{kind.name} default/llm", f"is not adopted: {target.problem}")
    assert finding.remedy.startswith("correct that, or take the label charterer.dev/adopt off")
    assert adopt_step(seen.candidates[0], LifecycleView.of(seen)) is None


@pytest.mark.parametrize(("kind", "body", "more", "words"), REFUSED)
def test_what_becomes_wrong_later_is_a_problem_of_its_job_too(
    kind: TargetKind, body: Mapping[str, Any], more: Mapping[str, Any], words: str
) -> None:
    target, heard = decoded(kind, body, more), Told()
    shadow = make.job("llm", target=target.ref, adopted=target)
    (problem,) = adoption_problems({shadow.id: shadow})
    assert (problem.kind, problem.name, problem.reason, problem.message) == (
        "TrainingJob",
        "llm",
        "NotAdoptable",
        target.problem,
    )
    seen = make.snapshot(shadow)
    Events(cast(Recorder, heard)).not_adopted(seen)
    assert [(kind, words in note) for kind, _, _, note, _ in heard.events] == [(target.ref.kind, True)]


def test_where_a_budget_observes_no_event_is_written() -> None:
    heard = Told()
    target = decoded(ADOPTED_JOB_SET, TWO, {})
    Events(cast(Recorder, heard)).not_adopted(waiting(target, mode=Mode.OBSERVE))
    assert heard.events == []


def test_an_object_of_which_no_record_can_be_made_says_so_with_the_api_servers_words() -> None:
    """As in a namespace where the operator has no rights: the object is held, and nobody else would say why."""
    target, heard = decoded(ADOPTED_JOB_SET, job_set("llm"), {}), Told()
    refused = 'Forbidden: User "operator" cannot create trainingjobs in the namespace "default"'
    Events(cast(Recorder, heard)).failed(AdoptTarget(target), refused, waiting(target))
    ((kind, name, reason, note, warning),) = heard.events
    assert (kind, name, reason, warning) == ("JobSet", "llm", "NotAdopted", True)
    assert refused in note
    assert "or take the label charterer.dev/adopt off and set spec.suspend to false" in note


def test_what_is_done_with_a_record_is_told_of_its_object_too() -> None:
    target, heard = decoded(ADOPTED_JOB_SET, job_set("llm"), {}), Told()
    shadow = make.job("llm-1a2b", target=target.ref, adopted=target)
    Events(cast(Recorder, heard)).failed(StopRun(shadow.id, 1), "Conflict", make.snapshot(shadow))
    assert [event[:3] for event in heard.events] == [
        ("TrainingJob", "llm-1a2b", "Failing"),
        ("JobSet", "llm", "Failing"),
    ]
