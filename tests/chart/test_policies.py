"""What the chart's admission policies are, by its values."""

from __future__ import annotations

import pytest

from tests.chart.support import HelmRefused, only, render

pytestmark = pytest.mark.programs  # helm


def test_nothing_is_held_where_the_operator_may_start_nothing() -> None:
    def conditions(values: str) -> dict[str, str]:
        hold = only(render(values), "MutatingAdmissionPolicy", "charterer-hold")
        return {each["name"]: each["expression"] for each in hold["spec"]["matchConditions"]}

    assert "the-operator-may-start-it" not in conditions("")
    named = conditions("namespaces: [research, vision]")["the-operator-may-start-it"]
    assert named == "request.namespace in ['research','vision']"


def test_nodes_are_not_kept_from_pods_of_queued_kinds_whose_makers_are_not_known() -> None:
    kept = "keepOff: {taint: example.com/rented}\nkueue: {enabled: true, owners: [%s]}"
    with pytest.raises(HelmRefused, match=r"pods of pytorchjobs\.kubeflow\.org"):
        render(kept % "rayjobs.ray.io, pytorchjobs.kubeflow.org")
    policies = [each["metadata"]["name"] for each in render(kept % "rayjobs.ray.io")]
    assert {"charterer-runs-of-jobs", "charterer-runs-of-jobsets", "charterer-runs-of-rayclusters"} <= {*policies}
