"""What the chart adds where Kueue's queues ask Charterer."""

from __future__ import annotations

import pytest

from tests.chart.support import EVERYTHING, HelmRefused, Object, only, render, rules

pytestmark = pytest.mark.programs  # helm


def test_only_who_wants_kueue_gets_a_check_and_the_rights_to_answer_it() -> None:
    def of_kueue(objects: list[Object]) -> list[Object]:
        return [rule for rule in rules(objects, "charterer") if "kueue.x-k8s.io" in rule["apiGroups"]]

    group, everything = {"apiGroups": ["kueue.x-k8s.io"]}, render(EVERYTHING)
    assert of_kueue(render()) == []
    assert of_kueue(everything) == [
        {**group, "resources": ["workloads", "admissionchecks"], "verbs": ["get", "list", "watch"]},
        {**group, "resources": ["workloads/status", "admissionchecks/status"], "verbs": ["patch"]},
    ]
    assert only(everything, "AdmissionCheck", "charterer")["spec"] == {"controllerName": "charterer.dev/budget"}
    with pytest.raises(HelmRefused, match="/kueue/owners/0"):
        render("kueue: {owners: [RayJob]}")


def test_queued_rayjobs_are_within_the_operators_fence_only_where_kueue_is_wanted() -> None:
    def asked(objects: list[Object]) -> str:
        policy = only(objects, "ValidatingAdmissionPolicy", "charterer-rayjobs")
        return str(policy["spec"]["validations"][0]["expression"])

    assert "kueue.x-k8s.io/queue-name" not in asked(render())
    assert "kueue.x-k8s.io/queue-name" in asked(render(EVERYTHING))
