"""What the operator may do with objects of teams is what the value adoption.kinds says."""

from __future__ import annotations

import pytest
import yaml

from tests.chart.support import HelmRefused, Object, only, pod_specs, render, rules

pytestmark = pytest.mark.programs  # helm

GROUPS = {"JobSet": "jobset.x-k8s.io", "TrainJob": "trainer.kubeflow.org", "RayJob": "ray.io"}
OPERATOR = ("charterer", "charterer-runs")


def adopts(*kinds: str, more: str = "") -> list[Object]:
    """The chart's objects where these kinds are adopted."""
    return render(yaml.safe_dump({"adoption": {"kinds": [*kinds]}}) + more)


def rights(objects: list[Object], group: str) -> set[tuple[str, str]]:
    """What the operator may do with which resources of a group."""
    return {
        (verb, resource)
        for rule in rules(objects, *OPERATOR)
        if group in rule["apiGroups"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def policies(objects: list[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in objects if each["kind"].endswith("AdmissionPolicy")}


def matched(objects: list[Object], kind: str, name: str) -> set[str]:
    """The resources that a policy looks at."""
    rules = only(objects, kind, name)["spec"]["matchConstraints"]["resourceRules"]
    return {resource for rule in rules for resource in rule["resources"]}


@pytest.mark.parametrize("left", [*GROUPS])
def test_of_a_kind_that_is_left_out_there_are_no_rights_no_policies_and_the_operator_is_told(left: str) -> None:
    all_kinds, fewer = adopts("Job", *GROUPS), adopts("Job", *(kind for kind in GROUPS if kind != left))
    assert rights(all_kinds, GROUPS[left])
    assert rights(fewer, GROUPS[left]) == set()
    assert all(rights(fewer, group) for kind, group in GROUPS.items() if kind != left)
    plural = f"{left.lower()}s"
    assert f"charterer-{plural}" in policies(all_kinds) - policies(fewer)
    assert plural not in matched(fewer, "MutatingAdmissionPolicy", "charterer-hold")
    assert f"--not-adopted={left}" in pod_specs(fewer)[0]["containers"][0]["args"]
    assert not [each for each in pod_specs(all_kinds)[0]["containers"][0]["args"] if "adopted" in each]


def test_where_nothing_is_adopted_nothing_is_held_and_no_job_of_a_team_may_be_changed() -> None:
    none = adopts()
    assert not {"charterer-hold", "charterer-keep", "charterer-start"} & policies(none)
    assert rights(none, "charterer.dev") & {("create", "trainingjobs"), ("patch", "trainingjobs")} == set()
    assert ("delete", "trainingjobs") in rights(none, "charterer.dev")
    assert ("patch", "jobs") in rights(none, "batch"), "runs are Jobs"
    jobs = only(none, "ValidatingAdmissionPolicy", "charterer-jobs")["spec"]
    (asked,) = [each["expression"] for each in jobs["variables"] if each["name"] == "asked"]
    assert "charterer.dev/adopt" not in asked
    assert "'charterer.dev/original' in variables.before" in asked, "what was adopted is given back"
    words = {"charterer-words-of-objects", "charterer-targets", "charterer-uninstall-adopted"}
    assert words <= policies(none), "a label that does nothing here is still spelt right, and a targetRef is nobody's"


def test_queues_of_kueue_need_the_rights_of_their_own_kinds_also_where_nothing_is_adopted() -> None:
    queues = adopts(more="kueue: {enabled: true, owners: [rayjobs.ray.io]}\n")
    assert ("patch", "rayjobs") in rights(queues, GROUPS["RayJob"])
    assert {"charterer-rayjobs", "charterer-rayclusters"} <= policies(queues)
    assert rights(queues, GROUPS["JobSet"]) == set()
    assert ("create", "trainingjobs") in rights(queues, "charterer.dev")


def test_a_kind_that_is_never_adopted_is_refused() -> None:
    with pytest.raises(HelmRefused, match="/adoption/kinds/0"):
        adopts("Deployment")
