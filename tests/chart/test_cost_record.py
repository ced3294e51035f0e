"""The chart's values of the record of costs."""

from __future__ import annotations

import click
import pytest
import yaml

from charterer.tools.commands.shared.options import record_option
from tests.chart.support import CHART, NAMESPACE, HelmRefused, Object, helm, only, render

pytestmark = pytest.mark.programs  # helm


def test_costs_are_recorded_in_a_bucket_without_a_volume_and_nowhere_by_default() -> None:
    objects, default = render("costRecord: {place: s3://finance/charterer}"), render()
    spec = only(objects, "Deployment", "charterer")["spec"]
    assert "--cost-record=s3://finance/charterer" in spec["template"]["spec"]["containers"][0]["args"]
    assert spec["strategy"]["type"] == "RollingUpdate"
    for some in (objects, default):
        assert not [o for o in some if o["metadata"]["name"] == "charterer-costs"]
    assert "--cost-record=" not in str(only(default, "Deployment", "charterer"))


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


def _objects(*told: str, values: str = "") -> list[Object]:
    """The chart for an API server, ``told`` in Helm's words."""
    return [
        each for each in yaml.safe_load_all(helm("template", "charterer", str(CHART), *told, values=values)) if each
    ]


def _believed(objects: list[Object]) -> bool:
    """Whether the operator takes the annotation for true."""
    (container,) = only(objects, "Deployment", "charterer")["spec"]["template"]["spec"]["containers"]
    return "--cost-record-users" in container["args"]


def _policies(objects: list[Object]) -> dict[str, str]:
    """The policies that write users and keep them, each with its version of the API."""
    return {o["kind"]: o["apiVersion"] for o in objects if o["metadata"]["name"] == "charterer-created-by"}


@pytest.mark.parametrize("values", ["", "costRecord: {users: true}"])
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
def test_users_are_written_and_believed_by_default_by_the_version_of_the_api_that_is_served(
    told: tuple[str, ...], version: str, values: str
) -> None:
    objects = _objects(*told, values=values)
    assert _policies(objects)["MutatingAdmissionPolicy"] == f"admissionregistration.k8s.io/{version}"
    assert _policies(objects)["ValidatingAdmissionPolicy"] == "admissionregistration.k8s.io/v1"
    assert _believed(objects)


@pytest.mark.parametrize(
    ("version", "values"),
    [("1.34.0", ""), ("1.36.0", "costRecord: {users: false}"), ("1.34.0", "costRecord: {users: false}")],
)
def test_without_the_api_for_it_or_where_nobody_wants_it_no_user_is_written_or_believed(
    version: str, values: str
) -> None:
    objects = _objects("--kube-version", version, values=values)
    assert _policies(objects) == {}
    assert not _believed(objects)


def test_without_the_api_for_it_users_that_are_asked_for_are_refused() -> None:
    with pytest.raises(HelmRefused, match="users to auto or false"):
        helm("template", "charterer", str(CHART), "--kube-version", "1.34.0", values="costRecord: {users: true}")


def test_without_claims_a_service_account_is_who_it_is() -> None:
    objects = _objects("--kube-version", "1.36.0", values="costRecord: {claims: []}")
    assert "claimed:" not in str(only(objects, "MutatingAdmissionPolicy", "charterer-created-by"))


# --- reports that arrive ----------------------------------------------------------------------------------------------


REPORTS = "{reports: {enabled: true, webhook: {secretName: hook}}, costRecord: {place: s3://finance/charterer}}"


def test_reports_are_sent_by_a_pod_that_may_read_only_and_has_the_address_from_a_secret() -> None:
    objects = render(REPORTS)
    spec = only(objects, "CronJob", "charterer-reports")["spec"]
    assert (spec["concurrencyPolicy"], spec["jobTemplate"]["spec"]["backoffLimit"]) == ("Forbid", 0)
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == [
        "notify",
        *("--threshold=50", "--threshold=80", "--threshold=100"),
        *("--weekly", "--monthly", "--webhook-format=json"),
    ]
    env = {each["name"]: each for each in container["env"]}
    assert env["CHARTERER_COST_RECORD"]["value"] == "s3://finance/charterer"
    assert env["CHARTERER_WEBHOOK_URL"]["valueFrom"] == {"secretKeyRef": {"name": "hook", "key": "url"}}
    assert "affinity" not in pod
    account = {"kind": "ServiceAccount", "name": "charterer-reports", "namespace": NAMESPACE}
    bound = [each for each in objects if account in (each.get("subjects") or [])]
    assert [each["roleRef"]["name"] for each in bound] == ["charterer-view"]
    assert not [o for o in render() if o["metadata"]["name"] == "charterer-reports"]


def test_a_volume_of_one_node_is_read_on_the_operators_node() -> None:
    objects = render("{reports: {enabled: true}, costRecord: {volume: {enabled: true}}}")
    pod = only(objects, "CronJob", "charterer-reports")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (rule,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    assert {"name": "costs", "mountPath": "/var/lib/charterer/costs"} in pod["containers"][0]["volumeMounts"]
    assert "CHARTERER_WEBHOOK_URL" not in str(pod), "without a Secret pages are only written"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("reports: {enabled: true}", "set costRecord.place, or costRecord.volume.enabled"),
        ("{reports: {enabled: true}, costRecord: {place: /somewhere}}", "is in no other pod"),
        (
            "{reports: {enabled: true}, costRecord: {volume: {enabled: true, accessMode: ReadWriteOncePod}}}",
            "set costRecord.volume.accessMode to ReadWriteOnce",
        ),
        ("reports: {thresholds: [0]}", "minimum"),
        ("reports: {webhook: {url: https://example.com}}", "additional properties 'url' not allowed"),
    ],
)
def test_reports_that_cannot_be_sent_are_refused(values: str, said: str) -> None:
    with pytest.raises(HelmRefused, match=said):
        render(values)
