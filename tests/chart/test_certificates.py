"""Who makes the certificate of the progress endpoint: the operator, or cert-manager."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.app.settings import Settings
from tests.chart.support import NAMESPACE, Object, only, pod_specs, render, rules

pytestmark = pytest.mark.programs  # helm
ON = "certManager: {enabled: true}"
FOLDER = "/etc/charterer/progress-certificate"
SECRET = "charterer-progress-certificate"


def made(objects: list[Object]) -> dict[str, Any]:
    """The specs of cert-manager's objects."""
    own = [each for each in objects if each["apiVersion"].startswith("cert-manager.io/")]
    return {f"{each['kind']}/{each['metadata']['name']}": each["spec"] for each in own}


def secret_rights(objects: list[Object]) -> list[Object]:
    return [rule for rule in rules(objects, "charterer", "charterer-runs") if "secrets" in rule["resources"]]


def test_by_default_the_operator_makes_its_own_and_nothing_is_asked_of_cert_manager() -> None:
    default = render()
    assert made(default) == {}
    assert only(default, "Secret", "charterer-progress-tls")
    assert [rule["resourceNames"] for rule in secret_rights(default)] == [["charterer-progress-tls"]]
    assert FOLDER not in str(pod_specs(default))


def test_cert_manager_makes_it_of_an_authority_of_its_own_and_the_operator_has_no_right_to_a_secret() -> None:
    objects = render(ON)
    own = made(objects)
    assert sorted(own) == [
        "Certificate/charterer-progress",
        "Certificate/charterer-progress-ca",
        "Issuer/charterer-progress",
        "Issuer/charterer-self-signed",
    ]
    certificate, authority = own["Certificate/charterer-progress"], own["Certificate/charterer-progress-ca"]
    assert own["Issuer/charterer-progress"] == {"ca": {"secretName": authority["secretName"]}}
    assert (authority["isCA"], authority["issuerRef"]["name"]) == (True, "charterer-self-signed")
    assert certificate["issuerRef"] == {"name": "charterer-progress", "kind": "Issuer", "group": "cert-manager.io"}
    assert Settings("", NAMESPACE).progress_service in certificate["dnsNames"]
    assert {each["privateKey"]["rotationPolicy"] for each in (certificate, authority)} == {"Never"}
    assert secret_rights(objects) == []
    assert not [each for each in objects if each["kind"] == "Secret"]
    assert certificate["secretName"] == SECRET


def test_the_operator_and_the_test_of_a_release_read_the_mounted_secret() -> None:
    objects = render(ON)
    (spec,) = pod_specs(objects)
    (container,) = spec["containers"]
    assert f"--progress-certificate={FOLDER}" in container["args"]
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert mounts["progress-certificate"] == {"name": "progress-certificate", "mountPath": FOLDER, "readOnly": True}
    assert {"name": "progress-certificate", "secret": {"secretName": SECRET}} in spec["volumes"]
    tls = only(objects, "Pod", "charterer-test")["spec"]["volumes"][0]
    assert tls["secret"]["secretName"] == SECRET


def test_an_issuer_of_the_users_own_is_asked_in_the_place_of_the_charts() -> None:
    own = made(render("certManager: {enabled: true, issuerRef: {name: corporate, kind: ClusterIssuer}}"))
    assert [*own] == ["Certificate/charterer-progress"]
    assert own["Certificate/charterer-progress"]["issuerRef"] == {
        "name": "corporate",
        "kind": "ClusterIssuer",
        "group": "cert-manager.io",
    }
