"""The chart on a real API server: it installs, and its service accounts may do what they must and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart.support import CHART, CRDS, EVERYTHING, render
from tests.testbed.controlplane import ControlPlane, ControlPlaneError

NAMESPACE = "purser-chart"
CLUSTER_SCOPED = {"nodes", "gpubudgets", "gpupools", "gpurentals", "tokenreviews", "clusterroles", "users"}


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The chart with the fake cloud, without a running pod: this control plane has no machines."""
    had_crds = "trainingjobs.purser.dev" in control_plane.kubectl("get", "crds", "-o", "name")
    if not had_crds:
        control_plane.helm("install", "purser-crds", str(CRDS), "-n", NAMESPACE, "--create-namespace")
    control_plane.helm(
        "install", "purser", str(CHART), "-n", NAMESPACE, "--create-namespace", "--set", "fakeCloud.enabled=true"
    )
    yield control_plane
    control_plane.helm("uninstall", "purser", "-n", NAMESPACE, "--wait")
    if not had_crds:
        control_plane.helm("uninstall", "purser-crds", "-n", NAMESPACE)
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def operator(installed: ControlPlane) -> Path:
    return installed.service_account_kubeconfig(NAMESPACE, "purser")


def allowed(plane: ControlPlane, kubeconfig: Path, question: str, namespace: str = NAMESPACE) -> bool:
    """``question``: verb resource[/subresource][.group] [name]. In no namespace where the resource has none."""
    verb, what, *name = question.split()
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    cluster_wide = resource in CLUSTER_SCOPED
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "name": "".join(name),
        "namespace": "" if cluster_wide else namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = plane.kubectl(
        "create",
        "--validate=false",
        "--kubeconfig",
        str(kubeconfig),
        "-f",
        "-",
        "-o",
        "jsonpath={.status.allowed}",
        input=json.dumps(review),
    )
    return answer.strip() == "true"


@pytest.mark.parametrize(
    "question",
    [
        "list trainingjobs.purser.dev",
        "watch gpurentals.purser.dev",
        "patch trainingjobs/status.purser.dev",
        "patch gpubudgets/status.purser.dev",
        "delete trainingjobs.purser.dev",
        "update trainingjobs/finalizers.purser.dev",
        "create gpurentals.purser.dev",
        "patch gpupools.purser.dev",
        "create jobs.batch",
        "patch pods",
        "patch pods/status",
        "create services",
        "patch nodes",
        "delete nodes",
        "create events.events.k8s.io",
        "create tokenreviews.authentication.k8s.io",
    ],
)
def test_the_operator_may_everywhere(installed: ControlPlane, operator: Path, question: str) -> None:
    assert allowed(installed, operator, question, "default")


@pytest.mark.parametrize(
    "question",
    [
        "create leases.coordination.k8s.io",
        "update leases.coordination.k8s.io purser",
        "create secrets",
        "get secrets purser-progress-tls",
        "update secrets purser-progress-tls",
    ],
)
def test_the_operator_may_in_its_own_namespace_only(installed: ControlPlane, operator: Path, question: str) -> None:
    assert allowed(installed, operator, question)
    assert not allowed(installed, operator, question, "default")


@pytest.mark.parametrize(
    "question",
    [
        "create nodes",
        "update nodes",
        "create pods",
        "create pods/exec",
        "create trainingjobs.purser.dev",
        "patch trainingjobs.purser.dev",
        "create gpubudgets.purser.dev",
        "delete gpupools.purser.dev",
        "list secrets",
        "get secrets another",
        "delete secrets purser-progress-tls",
        "update leases.coordination.k8s.io another",
        "get configmaps",
        "create clusterroles.rbac.authorization.k8s.io",
        "impersonate users",
    ],
)
def test_the_operator_may_not(installed: ControlPlane, operator: Path, question: str) -> None:
    assert not allowed(installed, operator, question)


def test_the_operator_watches_its_own_lease_across_namespaces_and_no_other(
    installed: ControlPlane, operator: Path
) -> None:
    own = f"metadata.name=purser,metadata.namespace={NAMESPACE}"
    installed.kubectl("get", "leases", "-A", "--field-selector", own, "--kubeconfig", str(operator))
    with pytest.raises(ControlPlaneError, match="orbidden"):
        installed.kubectl("get", "leases", "-A", "--kubeconfig", str(operator))


def test_the_fake_cloud_may_make_and_unmake_nodes_and_nothing_else(installed: ControlPlane) -> None:
    cloud = installed.service_account_kubeconfig(NAMESPACE, "purser-fakecloud")
    assert all(allowed(installed, cloud, f"{verb} nodes") for verb in ("create", "patch", "delete"))
    assert not any(
        allowed(installed, cloud, question) for question in ("list pods", "get secrets", "list gpurentals.purser.dev")
    )


def test_a_namespace_that_enforces_the_restricted_standard_admits_every_pod(control_plane: ControlPlane) -> None:
    name = "purser-restricted"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(namespace))
    account = {"kind": "ServiceAccount", "apiVersion": "v1"}
    for service_account in ("purser", "purser-fakecloud"):
        body = {**account, "metadata": {"name": service_account, "namespace": name}}
        control_plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    for deployment in (o for o in render(EVERYTHING) if o["kind"] == "Deployment"):
        template = deployment["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": deployment["metadata"]["name"], "namespace": name},
            "spec": template["spec"],
        }
        control_plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
            control_plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def test_a_second_operator_in_the_same_cluster_is_refused(installed: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="invalid ownership metadata"):
        installed.helm("install", "purser", str(CHART), "-n", "purser-again", "--create-namespace")


def test_a_change_of_values_is_an_upgrade_in_place(installed: ControlPlane) -> None:
    installed.helm("upgrade", "purser", str(CHART), "-n", NAMESPACE, "--reuse-values", "--set", "replicas=0")
    live = yaml.safe_load(installed.kubectl("get", "deployment", "purser", "-n", NAMESPACE, "-o", "yaml"))
    assert live["spec"]["replicas"] == 0
    notes = installed.helm("get", "notes", "purser", "-n", NAMESPACE)
    assert "kubectl get trainingjobs -A" in notes
    assert f"purser-fakecloud.{NAMESPACE}.svc" in notes
