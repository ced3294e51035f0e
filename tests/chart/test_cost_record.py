"""The chart's values of the record of costs."""

from __future__ import annotations

import click
import pytest
import yaml

from charterer.tools.commands.shared.options import record_option
from tests.chart.support import CHART, HelmRefused, helm, only, render

pytestmark = pytest.mark.programs  # helm


def test_costs_are_recorded_in_a_bucket_without_a_volume_and_nowhere_by_default() -> None:
    objects, default = render("costRecord: {place: s3://finance/charterer}"), render()
    spec = only(objects, "Deployment", "charterer")["spec"]
    assert "--cost-record=s3://finance/charterer" in spec["template"]["spec"]["containers"][0]["args"]
    assert spec["strategy"]["type"] == "RollingUpdate"
    for some in (objects, default):
        assert not [o for o in some if o["metadata"]["name"] in ("charterer-costs", "charterer-created-by")]
    assert "cost-record" not in str(only(default, "Deployment", "charterer"))


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ("costRecord: {place: s3://finance/charterer}", "s3://finance/charterer"),
        ("costRecord: {volume: {enabled: true}}", "/var/lib/charterer/costs"),
        ("{}", None),
    ],
)
def test_commands_in_the_operators_pod_find_the_record_by_themselves(
    values: str, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (container,) = only(render(values), "Deployment", "charterer")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found: list[str | None] = []
    command = record_option()(click.Command("costs", callback=lambda record: found.append(record)))
    command.main([], standalone_mode=False)
    assert found == [place]


def test_a_volume_of_one_pod_is_left_before_the_next_pod_takes_it() -> None:
    spec = only(render("costRecord: {volume: {enabled: true}}"), "Deployment", "charterer")["spec"]
    assert spec["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("{replicas: 2, costRecord: {volume: {enabled: true}}}", "set accessMode to ReadWriteMany"),
        ("costRecord: {place: gs://finance, volume: {enabled: true}}", "leave one of them out"),
    ],
)
def test_a_place_that_cannot_be_is_refused(values: str, said: str) -> None:
    with pytest.raises(HelmRefused, match=said):
        render(values)


USERS = "costRecord: {users: true}"


@pytest.mark.parametrize(
    ("told", "version"),
    [
        (("--kube-version", "v1.36.0-eks-1"), "v1"),
        (
            (
                "--kube-version",
                "1.35.2",
                "--api-versions",
                "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy",
            ),
            "v1beta1",
        ),
    ],
)
def test_users_are_written_by_the_version_of_the_api_that_is_served(told: tuple[str, ...], version: str) -> None:
    objects = list(yaml.safe_load_all(helm("template", "charterer", str(CHART), *told, values=USERS)))
    made = only([o for o in objects if o], "MutatingAdmissionPolicy", "charterer-created-by")
    assert made["apiVersion"] == f"admissionregistration.k8s.io/{version}"


def test_without_the_api_for_it_users_are_refused() -> None:
    with pytest.raises(HelmRefused, match="serves no MutatingAdmissionPolicy"):
        helm("template", "charterer", str(CHART), "--kube-version", "1.34.0", values=USERS)
