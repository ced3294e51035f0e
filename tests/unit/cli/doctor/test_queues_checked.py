"""What ``charterer doctor`` says of Kueue's queues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.names import KUEUE_CHECK, KUEUE_CONTROLLER
from charterer.cluster.client import RawObject
from charterer.tools.commands.doctor.command import examine
from charterer.tools.commands.shared.adopted_objects import Queues
from tests.unit.cli.doctor.test_doctor import healthy, wrong


def check(name: str = KUEUE_CHECK, controller: str = KUEUE_CONTROLLER, active: str = "True") -> RawObject:
    conditions = [{"type": "Active", "status": active}]
    return {"metadata": {"name": name}, "spec": {"controllerName": controller}, "status": {"conditions": conditions}}


def queue(*checks: str) -> RawObject:
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    return {"metadata": {"name": "research"}, "spec": {"admissionChecksStrategy": strategy}}


def test_a_queue_whose_check_is_answered_is_well() -> None:
    _, reading = healthy()
    found = examine(replace(reading, queues=Queues((queue(KUEUE_CHECK),), (check(),))))
    assert [(line.subject, line.remedy) for line in found if line.check == "queues"] == [("ClusterQueue research", "")]


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ((), "there is none of that name"),
        ((check(controller="example.org/other"),), "its controllerName is example.org/other"),
        ((check(active="False"),), "the operator has not made it active yet"),
    ],
)
def test_a_queue_that_nobody_answers_is_told_with_what_to_do(checks: tuple[RawObject, ...], words: str) -> None:
    _, reading = healthy()
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK),), checks)))
    assert found.subject == "ClusterQueue research"
    assert f"asks AdmissionCheck charterer, and every job in it waits: {words}" in found.text


def test_a_queue_is_told_whose_operator_is_gone() -> None:
    _, reading = healthy()
    assert reading.leader is not None
    gone = replace(reading, leader=replace(reading.leader, trouble="the Lease ran out"))
    found = wrong(replace(gone, queues=Queues((queue(KUEUE_CHECK),), (check(),))))
    assert any("no operator answers it (the Lease ran out)" in line.text for line in found)
    assert any("take charterer out of its spec.admissionChecksStrategy" in line.remedy for line in found)


def test_a_check_by_which_an_autoscaler_adds_nodes_is_told() -> None:
    _, reading = healthy()
    other = check("autoscaler", "kueue.x-k8s.io/provisioning-request")
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK, "autoscaler"),), (check(), other))))
    assert found.remedy == "keep only one of autoscaler and charterer in the queue"


def test_a_check_by_which_jobs_run_in_another_cluster_is_told() -> None:
    _, reading = healthy()
    other = check("far", "kueue.x-k8s.io/multikueue")
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK, "far"),), (check(), other))))
    assert "by which its jobs run in another cluster: nothing is rented for them here" in found.text
    assert found.remedy == "keep only one of far and charterer in the queue"
