"""The chart on a real API server: it installs, and its service accounts may do what they must and no more."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.cluster import kinds
from charterer.cluster.paths import SELF_SUBJECT_ACCESS_REVIEWS
from charterer.workloads import ALL_KINDS
from tests.chart.people import batch_job, person, pod, training_job
from tests.chart.support import CHART, CRDS, EVERYTHING, render
from tests.testbed.controlplane import ControlPlane, ControlPlaneError

pytestmark = [pytest.mark.xdist_group("chart"), pytest.mark.programs]  # helm
NAMESPACE = "charterer-chart"
CLUSTER_WIDE = {"nodes", "gpubudgets", "gpupools", "gpupoolsets", "gpurentals", "tokenreviews", "clusterroles", "users"}

KUEUE = "kueue.x-k8s.io"
"""The group of the kinds for which the chart gives rights only where kueue.enabled says so."""
KEPT = [kind for kind in ALL_KINDS if kind.resource.group != KUEUE]


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: the chart's cluster-wide names are there once, and other tests install it too."""
    with ControlPlane.start(tmp_path_factory.mktemp("chart-plane"), kwok=False) as plane:
        yield plane


@pytest.fixture(scope="module")
def installed(own_plane: ControlPlane) -> ControlPlane:
    """The chart with the fake cloud, without a running pod: this control plane has no machines."""
    own_plane.helm("install", "charterer-crds", str(CRDS), "-n", NAMESPACE, "--create-namespace")
    own_plane.helm("install", "charterer", str(CHART), "-n", NAMESPACE, "--set", "fakeCloud.enabled=true")
    return own_plane


@pytest.fixture(scope="module")
def operator(installed: ControlPlane) -> Path:
    return installed.service_account_kubeconfig(NAMESPACE, "charterer")


def allowed(plane: ControlPlane, kubeconfig: Path, question: str, namespace: str = NAMESPACE) -> bool:
    """``question``: verb resource[/subresource][.group] [name]. In no namespace where the resource has none."""
    verb, what, *name = question.split()
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    cluster_wide = resource in CLUSTER_WIDE
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
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    path = SELF_SUBJECT_ACCESS_REVIEWS.all()
    return plane.call("POST", path, review, token=token)["status"]["allowed"] is True


@pytest.mark.parametrize(
    "kind", [kind for kind in ALL_KINDS if kind.resource.group != KUEUE], ids=lambda kind: kind.name
)
def test_the_operator_may_read_and_watch_every_kind_that_it_keeps(
    installed: ControlPlane, operator: Path, kind: kinds.AnyKind
) -> None:
    what = str(kind.resource)
    assert all(allowed(installed, operator, f"{verb} {what}", "default") for verb in ("get", "list", "watch"))


@pytest.mark.parametrize(
    "question",
    [
        "patch trainingjobs/status.charterer.dev",
        "patch gpubudgets/status.charterer.dev",
        "create trainingjobs.charterer.dev",
        "patch trainingjobs.charterer.dev",
        "delete trainingjobs.charterer.dev",
        "update trainingjobs/finalizers.charterer.dev",
        "create gpurentals.charterer.dev",
        "patch gpupools.charterer.dev",
        "update gpupoolsets/finalizers.charterer.dev",
        "create jobs.batch",
        "patch pods",
        "patch pods/status",
        "create pods/eviction",
        "create services",
        "get persistentvolumeclaims",
        "get serviceaccounts",
        "patch nodes",
        "delete nodes",
        "create events.events.k8s.io",
        "list events.events.k8s.io",
        "create tokenreviews.authentication.k8s.io",
    ],
)
def test_the_operator_may_everywhere(installed: ControlPlane, operator: Path, question: str) -> None:
    assert allowed(installed, operator, question, "default")


@pytest.mark.parametrize(
    "question",
    [
        "create leases.coordination.k8s.io",
        "update leases.coordination.k8s.io charterer",
        "get secrets charterer-progress-tls",
        "patch secrets charterer-progress-tls",
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
        "create gpubudgets.charterer.dev",
        "patch gpupoolsets.charterer.dev",
        "create secrets",
        "list secrets",
        "get secrets another",
        "delete secrets charterer-progress-tls",
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
    own = f"metadata.name=charterer,metadata.namespace={NAMESPACE}"
    installed.kubectl("get", "leases", "-A", "--field-selector", own, "--kubeconfig", str(operator))
    with pytest.raises(ControlPlaneError, match="orbidden"):
        installed.kubectl("get", "leases", "-A", "--kubeconfig", str(operator))


def test_the_fake_cloud_may_make_and_unmake_nodes_and_nothing_else(installed: ControlPlane) -> None:
    cloud = installed.service_account_kubeconfig(NAMESPACE, "charterer-fakecloud")
    assert all(allowed(installed, cloud, f"{verb} nodes") for verb in ("create", "patch", "delete"))
    assert not any(
        allowed(installed, cloud, question)
        for question in ("list pods", "get secrets", "list gpurentals.charterer.dev")
    )


def test_a_namespace_that_enforces_the_restricted_standard_admits_every_pod(own_plane: ControlPlane) -> None:
    name = "charterer-restricted"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    own_plane.kubectl("apply", "-f", "-", input=json.dumps(namespace))
    account = {"kind": "ServiceAccount", "apiVersion": "v1"}
    for service_account in ("charterer", "charterer-fakecloud"):
        body = {**account, "metadata": {"name": service_account, "namespace": name}}
        own_plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    for deployment in (o for o in render(EVERYTHING) if o["kind"] == "Deployment"):
        template = deployment["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": deployment["metadata"]["name"], "namespace": name},
            "spec": template["spec"],
        }
        own_plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
            own_plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))


def test_who_may_write_training_jobs_but_not_create_pods_writes_no_template(installed: ControlPlane) -> None:
    name = "deputy"
    kubeconfig = person(installed, name, "charterer-edit")
    as_deputy = ("--kubeconfig", str(kubeconfig))
    with pytest.raises(ControlPlaneError) as refused:
        installed.kubectl("create", "-f", "-", *as_deputy, input=training_job(name))
    said = f"system:serviceaccount:{name}:{name} may not create pods in namespace {name}"
    assert said in str(refused.value)
    assert "bind a role that allows it there, such as edit" in str(refused.value)
    installed.kubectl("create", "-f", "-", input=training_job(name))
    patch = ("patch", "trainingjob/train", "-n", name, "--type=merge", "-p")
    installed.kubectl(*patch, '{"spec":{"suspend":true}}', *as_deputy)
    with pytest.raises(ControlPlaneError, match="may not create pods"):
        installed.kubectl("replace", "-f", "-", *as_deputy, input=training_job(name, "evil:1"))
    changed = json.dumps({"spec": {"profileName": "p", "variants": [{"name": "other", "args": ["-c", "evil"]}]}})
    with pytest.raises(ControlPlaneError, match="may not create pods"):
        installed.kubectl(*patch, changed, *as_deputy)
    installed.kubectl(*patch, changed)
    installed.kubectl(*patch, '{"spec":{"maxCost":"100"}}', *as_deputy)
    with pytest.raises(ControlPlaneError, match="may not create pods"):
        installed.kubectl(*patch, '{"spec":{"variants":null}}', *as_deputy)
    installed.kubectl(
        "create", "rolebinding", "both", "--clusterrole=edit", f"--serviceaccount={name}:{name}", "-n", name
    )
    installed.kubectl("replace", "-f", "-", *as_deputy, input=training_job(name, "train:2"))
    installed.kubectl("delete", "trainingjob", "train", "-n", name, *as_deputy)
    installed.kubectl("create", "-f", "-", *as_deputy, input=training_job(name))


def test_a_template_that_leaves_no_room_for_a_status_is_refused(installed: ControlPlane) -> None:
    name = "large"
    person(installed, name, "edit")
    job = json.loads(training_job(name, words="x" * 950_000))
    job["spec"]["template"]["spec"] |= {"nodeName": None, "hostNetwork": False, "activeDeadlineSeconds": 3}
    installed.kubectl("create", "-f", "-", input=json.dumps(job))
    for words in ("x" * 1_000_001, "\N{GREEK SMALL LETTER ALPHA}" * 500_001, "x" * 1_560_000):
        with pytest.raises(ControlPlaneError, match=r"spec\.template and spec\.variants have more than 1,000,000"):
            installed.kubectl("replace", "-f", "-", input=training_job(name, words=words))
    job["spec"] |= {"profileName": "p", "variants": [{"name": "v", "args": ["x" * 1024 for _ in range(64)]}]}
    with pytest.raises(ControlPlaneError, match=r"spec\.variants have more than 1,000,000 bytes"):
        installed.kubectl("replace", "-f", "-", input=json.dumps(job))


def test_a_stolen_token_of_the_operator_changes_no_image_of_a_pod(installed: ControlPlane, operator: Path) -> None:
    installed.kubectl("create", "-f", "-", input=pod("victim", NAMESPACE))
    patch = ("patch", "pod", "victim", "-n", NAMESPACE, "--kubeconfig", str(operator), "--type=json", "-p")
    with pytest.raises(ControlPlaneError, match="nothing of their spec"):
        installed.kubectl(*patch, '[{"op": "replace", "path": "/spec/containers/0/image", "value": "evil:1"}]')
    installed.kubectl(*patch, '[{"op": "add", "path": "/metadata/labels", "value": {"charterer.dev/leader": "true"}}]')


def refused_in_time(plane: ControlPlane, words: tuple[str, ...], body: str) -> str:
    """What the API server says against it, once a policy that was just made is known to it."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            plane.kubectl(*words, "--dry-run=server", input=body)
        except ControlPlaneError as error:
            return str(error)
    raise AssertionError(f"accepted for 30 s: {body}")


def test_with_keep_off_only_pods_of_runs_tolerate_the_taint_of_charterers_nodes(
    installed: ControlPlane, operator: Path
) -> None:
    name = "stranger"
    stranger = ("create", "-f", "-", "--kubeconfig", str(person(installed, name, "edit")))
    installed.kubectl("wait", "--for=jsonpath={.rules}", "clusterrole/edit", "--timeout=20s")
    upgrade = ("upgrade", "charterer", str(CHART), "-n", NAMESPACE, "--reuse-values", "--set")
    installed.helm(*upgrade, "keepOff.taint=example.com/rented")
    tolerant: dict[str, Any] = {"tolerations": [{"key": "example.com/rented", "operator": "Exists"}]}
    run = {"labels": {"charterer.dev/job-uid": "of-some-job"}}
    try:
        assert "example.com/rented" in refused_in_time(installed, stranger, pod("a", name, **tolerant))
        everything = pod("b", name, tolerations=[{"operator": "Exists"}])
        for body in (everything, pod("c", name, run, **tolerant)):
            with pytest.raises(ControlPlaneError, match="that are of no run of Charterer's may not tolerate"):
                installed.kubectl(*stranger, input=body)
        with pytest.raises(ControlPlaneError, match=r"may not name their node \(spec.nodeName\)"):
            installed.kubectl(*stranger, input=pod("d", name, nodeName="gpu-1"))
        job = batch_job("e", name, run, **tolerant)
        assert "only Charterer writes the label charterer.dev/job-uid" in refused_in_time(installed, stranger, job)
        installed.kubectl(*stranger, input=pod("ordinary", name, tolerations=[{"key": "other", "operator": "Exists"}]))
        installed.kubectl("create", "-f", "-", input=pod("agent", "kube-system", **tolerant))
        installed.kubectl(
            "create", "-f", "-", "--kubeconfig", str(operator), input=batch_job("run", name, run, **tolerant)
        )
        installed.kubectl("wait", "--for=jsonpath={.status.active}=1", "job/run", "-n", name, "--timeout=30s")
    finally:
        installed.helm(*upgrade, "keepOff.taint=")


CREATED_BY = "charterer.dev/created-by"


def _until_users_are_written(plane: ControlPlane, as_creator: Sequence[str], body: str) -> None:
    """The API server takes a moment to know a policy, and the rights of a person."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            dry = plane.kubectl("create", "-f", "-", *as_creator, "--dry-run=server", "-o", "json", input=body)
        except ControlPlaneError:
            continue
        if json.loads(dry)["metadata"]["annotations"].get(CREATED_BY) != "somebody":
            return


def test_who_creates_a_training_job_is_written_onto_it_by_default_and_stays(installed: ControlPlane) -> None:
    name = "creator"
    as_creator = ("--kubeconfig", str(person(installed, name, "edit")))
    installed.kubectl("wait", "--for=jsonpath={.rules}", "clusterrole/edit", "--timeout=20s")
    forged = json.loads(training_job(name))
    forged["metadata"]["annotations"] = {CREATED_BY: "somebody"}
    _until_users_are_written(installed, as_creator, json.dumps(forged))
    made = json.loads(installed.kubectl("create", "-f", "-", *as_creator, "-o", "json", input=json.dumps(forged)))
    assert made["metadata"]["annotations"][CREATED_BY] == f"system:serviceaccount:{name}:{name}"
    for words in ("somebody", None):
        patch = json.dumps({"metadata": {"annotations": {CREATED_BY: words}}})
        installed.kubectl("patch", "trainingjob", "train", "-n", name, *as_creator, "--type=merge", "-p", patch)
        now = json.loads(installed.kubectl("get", "trainingjob", "train", "-n", name, "-o", "json"))
        assert now["metadata"]["annotations"][CREATED_BY] == f"system:serviceaccount:{name}:{name}"


def test_whom_an_automation_says_that_it_works_for_is_marked_as_claimed_and_no_person_can_claim(
    installed: ControlPlane,
) -> None:
    name, key = "automation", "workflows.argoproj.io/creator"
    as_account = ("--kubeconfig", str(person(installed, name, "edit")))
    installed.kubectl("wait", "--for=jsonpath={.rules}", "clusterrole/edit", "--timeout=20s")
    plain = {"metadata": {"annotations": {CREATED_BY: "somebody"}}}
    _until_users_are_written(
        installed, as_account, json.dumps({**json.loads(training_job(name)), **_with(name, plain)})
    )

    def creator(of: Mapping[str, object], *who: str) -> str:
        body = json.dumps({**json.loads(training_job(name)), **_with(name, {"metadata": of})})
        dry = installed.kubectl("create", "-f", "-", *who, "--dry-run=server", "-o", "json", input=body)
        written: str = json.loads(dry)["metadata"]["annotations"][CREATED_BY]
        return written

    account, odd = f"system:serviceaccount:{name}:{name}", "=cmd|'Zoë'\n\x1b[31m"
    assert creator({}, *as_account) == account
    assert creator({"labels": {key: "ann.at.example.com"}}, *as_account) == "claimed:ann.at.example.com"
    assert creator({"labels": {key: "ann"}, "annotations": {f"{key}-email": odd}}, *as_account) == f"claimed:{odd}"
    assert creator({"labels": {key: ""}}, *as_account) == account
    assert creator({"annotations": {key: "x" * 5_000}}, *as_account) == "claimed:" + "x" * 200
    person_says = creator({"labels": {key: "somebody"}})
    assert person_says not in ("", "somebody")
    assert not person_says.startswith("claimed:")


def _with(namespace: str, said: Mapping[str, Mapping[str, object]]) -> Mapping[str, object]:
    """The metadata of a job in the namespace, with what is said beside its name."""
    return {"metadata": {"name": "claims", "namespace": namespace, **said["metadata"]}}


def test_edit_includes_jobs_and_view_reads_them(installed: ControlPlane) -> None:
    editor, viewer = person(installed, "editor", "edit"), person(installed, "viewer", "view")
    jobs = "trainingjobs.charterer.dev"
    installed.kubectl("wait", "--for=jsonpath={.rules}", "clusterrole/edit", "--timeout=20s")
    assert all(allowed(installed, editor, f"{verb} {jobs}", "editor") for verb in ("create", "update", "delete"))
    assert not allowed(installed, editor, f"create {jobs}", "viewer")
    assert not allowed(installed, editor, "patch trainingjobs/status.charterer.dev", "editor")
    assert allowed(installed, viewer, f"list {jobs}", "viewer")
    assert not allowed(installed, viewer, f"create {jobs}", "viewer")


def test_a_second_operator_in_the_same_cluster_is_refused(installed: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="invalid ownership metadata"):
        installed.helm("install", "charterer", str(CHART), "-n", "charterer-again", "--create-namespace")


def test_a_change_of_values_is_an_upgrade_in_place(installed: ControlPlane) -> None:
    installed.helm("upgrade", "charterer", str(CHART), "-n", NAMESPACE, "--reuse-values", "--set", "replicas=0")
    live = yaml.safe_load(installed.kubectl("get", "deployment", "charterer", "-n", NAMESPACE, "-o", "yaml"))
    assert live["spec"]["replicas"] == 0
    notes = installed.helm("get", "notes", "charterer", "-n", NAMESPACE)
    assert "kubectl get trainingjobs -A" in notes
    assert f"charterer-fakecloud.{NAMESPACE}.svc" in notes


def test_what_the_notes_tell_the_user_to_apply_is_accepted(installed: ControlPlane) -> None:
    notes = installed.helm("get", "notes", "charterer", "-n", NAMESPACE)
    manifests = [block.split("YAML")[0] for block in notes.split("<<YAML\n")[1:]]
    assert [yaml.safe_load(manifest)["kind"] for manifest in manifests] == ["GPUBudget", "GPUPool"]
    for manifest in manifests:
        installed.kubectl("create", "--dry-run=server", "-f", "-", input=manifest)


def release_status(plane: ControlPlane) -> str:
    status: str = json.loads(plane.helm("status", "charterer", "-n", NAMESPACE, "-o", "json"))["info"]["status"]
    return status


def objects_of_the_chart(plane: ControlPlane) -> list[str]:
    """Everything that carries the chart's label, but neither pods nor what controllers make of it."""
    cluster_wide = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
    own = "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,networkpolicies,jobs"
    selected = ("-n", NAMESPACE, "-l", "app.kubernetes.io/name=charterer", "-o", "name")
    return sorted(plane.kubectl("get", f"{cluster_wide},{own}", *selected).split())


def test_an_uninstallation_while_machines_are_rented_is_refused_and_changes_nothing(installed: ControlPlane) -> None:
    group = {"endpoint": "http://cloud", "group": "a100"}
    decided = {"pool": "a100", "budget": "vision", "capacityType": "OnDemand", "reserved": "1.00", "fake": group}
    rental = {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "GPURental",
        "metadata": {"name": "a100-1"},
        "spec": {**decided, "worstHourly": "12.80"},
    }
    installed.kubectl("create", "-f", "-", input=json.dumps(rental))
    before = objects_of_the_chart(installed)
    with pytest.raises(ControlPlaneError) as refused:
        installed.helm("uninstall", "charterer", "-n", NAMESPACE)
    assert "GPURental a100-1" in str(refused.value)
    assert "run `charterer drain` first" in str(refused.value)
    assert objects_of_the_chart(installed) == before
    assert release_status(installed) == "deployed"
    installed.helm("upgrade", "charterer", str(CHART), "-n", NAMESPACE, "--reuse-values", "--set", "logLevel=DEBUG")
    assert release_status(installed) == "deployed"
    with pytest.raises(ControlPlaneError, match="GPURental a100-1"):
        installed.helm("uninstall", "charterer", "-n", NAMESPACE)


def test_without_hooks_an_uninstallation_goes_through_and_leaves_what_the_page_lists(installed: ControlPlane) -> None:
    installed.helm("uninstall", "charterer", "-n", NAMESPACE, "--no-hooks")
    assert objects_of_the_chart(installed) == ["configmap/charterer-uninstall", "secret/charterer-progress-tls"]
    installed.helm("install", "charterer", str(CHART), "-n", NAMESPACE, "--set", "fakeCloud.enabled=true")
    installed.kubectl("delete", "gpurental", "a100-1")


def test_uninstalling_leaves_the_definitions_and_what_users_wrote(installed: ControlPlane) -> None:
    spec = {"fake": {"endpoint": "http://cloud", "group": "a100"}, "maxNodes": 1}
    pool = {"apiVersion": "charterer.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "kept"}, "spec": spec}
    installed.kubectl("apply", "-f", "-", input=json.dumps(pool))
    installed.helm("uninstall", "charterer", "-n", NAMESPACE)
    assert objects_of_the_chart(installed) == ["secret/charterer-progress-tls"]
    installed.helm("uninstall", "charterer-crds", "-n", NAMESPACE)
    assert "kept" in installed.kubectl("get", "gpupools")
