"""What the chart makes of its values, and what it refuses."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.chart.support import CHART, EVERYTHING, NAMESPACE, HelmRefused, Object, helm, only, pod_specs, render, rules

pytestmark = pytest.mark.programs  # helm


@pytest.fixture(scope="module")
def default() -> list[Object]:
    return render()


@pytest.fixture(scope="module")
def everything() -> list[Object]:
    return render(EVERYTHING)


def test_helm_finds_nothing_to_complain_about() -> None:
    helm("lint", "--strict", str(CHART))
    helm("lint", "--strict", str(CHART), values=EVERYTHING)


POLICIES = (
    "create-pods",
    "created-by",
    "jobs",
    "jobsets",
    "jobsets-status",
    "operator",
    "pools",
    "rayclusters",
    "rayjobs",
    "start",
    "targets",
    "trainjobs",
    "uninstall",
    "uninstall-adopted",
    "words-of-namespaces",
    "words-of-nodes",
    "words-of-objects",
    "words-of-own-objects",
    "words-of-pools",
)
"""Validating admission policies, each with its binding."""


def test_by_default_there_is_the_operator_and_nothing_else(default: list[Object]) -> None:
    assert sorted(f"{o['kind']}/{o['metadata']['name']}" for o in default) == [
        "ClusterRole/charterer",
        "ClusterRole/charterer-admin",
        "ClusterRole/charterer-edit",
        "ClusterRole/charterer-runs",
        "ClusterRole/charterer-view",
        "ClusterRoleBinding/charterer",
        "ClusterRoleBinding/charterer-runs",
        "ConfigMap/charterer-uninstall",
        "ConfigMap/charterer-uninstall",
        "Deployment/charterer",
        "MutatingAdmissionPolicy/charterer-created-by",
        "MutatingAdmissionPolicy/charterer-hold",
        "MutatingAdmissionPolicy/charterer-keep",
        "MutatingAdmissionPolicyBinding/charterer-created-by",
        "MutatingAdmissionPolicyBinding/charterer-hold",
        "MutatingAdmissionPolicyBinding/charterer-keep",
        "NetworkPolicy/charterer",
        "Pod/charterer-test",
        "Role/charterer",
        "Role/charterer-stop",
        "RoleBinding/charterer",
        "Secret/charterer-progress-tls",
        "Service/charterer-progress",
        "ServiceAccount/charterer",
        *[f"ValidatingAdmissionPolicy/charterer-{name}" for name in POLICIES],
        *[f"ValidatingAdmissionPolicyBinding/charterer-{name}" for name in POLICIES],
    ]


def test_the_operator_is_started_as_its_command_line_wants_it(default: list[Object]) -> None:
    (container,) = pod_specs(default)[0]["containers"]
    assert container["image"] == f"charterer:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"
    assert container["args"] == [
        "operator",
        "--http-port=8080",
        "--progress-port=8443",
        f"--progress-url=https://charterer-progress.{NAMESPACE}.svc",
        "--log-level=INFO",
        "--log-format=text",
        "--survey-seconds=15",
        "--resync-seconds=300",
        "--cost-record-users",
    ]
    assert [e["name"] for e in container["env"]] == ["POD_NAME", "POD_NAMESPACE"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_every_option_arrives(everything: list[Object]) -> None:
    deployment = only(everything, "Deployment", "charterer")
    assert deployment["spec"]["replicas"] == 2
    template = deployment["spec"]["template"]
    assert template["metadata"]["annotations"]["a"] == "b"
    assert template["metadata"]["labels"]["team"] == "platform"
    spec = template["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"role": "system"}
    assert spec["tolerations"] == [{"key": "system", "operator": "Exists"}]
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "zone"
    assert spec["volumes"][-1] == {"name": "kubeconfig", "secret": {"secretName": "cloud"}}
    assert spec["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/cloud"
    assert spec["affinity"] == {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert spec["priorityClassName"] == "system-cluster-critical"
    (container,) = spec["containers"]
    assert container["image"] == "example/charterer@sha256:" + "0" * 64
    assert container["imagePullPolicy"] == "Always"
    assert container["env"][-1]["name"] == "CHARTERER_FAKECLOUD_TOKEN"
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.monitoring:4318"
    assert {
        "--log-level=DEBUG",
        "--log-format=json",
        "--survey-seconds=5",
        "--resync-seconds=60",
        "--job-metrics",
    } <= set(container["args"])
    assert {"--max-nodes=0", "--max-dollars-per-hour=500.00", "--dry-run"} <= set(container["args"])
    assert "--moving-survey-seconds=2" in container["args"]
    labels = {"--cost-record-label=example.com/team", "--cost-record-label=project"}
    assert {"--cost-record=/var/lib/charterer/costs", "--cost-record-users", *labels} <= set(container["args"])
    assert {"name": "costs", "mountPath": "/var/lib/charterer/costs"} in container["volumeMounts"]
    costs = only(everything, "PersistentVolumeClaim", "charterer-costs")["spec"]
    assert (costs["accessModes"], costs["storageClassName"]) == (["ReadWriteMany"], "slow")
    assert only(everything, "PodDisruptionBudget", "charterer")["spec"]["maxUnavailable"] == 1
    assert container["resources"] == {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    annotations = only(everything, "ServiceAccount", "charterer")["metadata"]["annotations"]
    assert annotations == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/charterer"}
    monitor = only(everything, "ServiceMonitor", "charterer")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": "http", "interval": "15s", "honorLabels": True}]
    claim = only(everything, "PersistentVolumeClaim", "charterer-fakecloud")["spec"]
    assert claim["storageClassName"] == "fast"
    assert claim["resources"]["requests"]["storage"] == "2Gi"


def test_all_containers_run_under_the_restricted_standard_with_a_read_only_root(everything: list[Object]) -> None:
    specs = pod_specs(everything)
    assert len(specs) == 2
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_check_before_an_uninstallation_needs_no_pod_and_can_be_left_out(default: list[Object]) -> None:
    hooks = [o for o in default if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    assert [(hook["kind"], hook["metadata"]["annotations"]["helm.sh/hook"]) for hook in hooks] == [
        ("ConfigMap", "pre-delete"),
        ("Pod", "test"),
    ]
    without = render("uninstallCheck: false")
    assert not [o for o in without if o["metadata"]["name"] == "charterer-uninstall"]


def test_pods_of_others_are_kept_off_only_where_a_taint_is_named(
    default: list[Object], everything: list[Object]
) -> None:
    policies = {o["metadata"]["name"] for o in default if o["kind"].startswith("ValidatingAdmission")}
    assert not [name for name in policies if name.startswith(("charterer-keep-off", "charterer-runs"))]
    policy = only(everything, "ValidatingAdmissionPolicy", "charterer-keep-off")
    (excepted,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (excepted["operator"], excepted["values"]) == ("NotIn", ["kube-system", "logging"])
    assert "'example.com/rented'" in policy["spec"]["variables"][1]["expression"]


def test_only_the_leader_gets_progress_and_every_replica_is_scraped(everything: list[Object]) -> None:
    labels = only(everything, "Deployment", "charterer")["spec"]["template"]["metadata"]["labels"]
    progress = only(everything, "Service", "charterer-progress")["spec"]
    assert progress["ports"] == [{"name": "https", "port": 443, "targetPort": "progress"}]
    assert progress["selector"].pop("charterer.dev/leader") == "true"
    assert progress["selector"].items() <= labels.items()
    assert only(everything, "Service", "charterer-metrics")["spec"]["selector"].items() <= labels.items()


def test_the_service_monitor_selects_the_metrics_service_only(everything: list[Object]) -> None:
    wanted = only(everything, "ServiceMonitor", "charterer")["spec"]["selector"]["matchLabels"].items()
    services = [o for o in everything if o["kind"] == "Service"]
    selected = [o["metadata"]["name"] for o in services if wanted <= o["metadata"]["labels"].items()]
    assert selected == ["charterer-metrics"]


def test_no_rule_has_a_wildcard(everything: list[Object]) -> None:
    roles = (
        "charterer",
        "charterer-runs",
        "charterer-fakecloud",
        "charterer-view",
        "charterer-edit",
        "charterer-admin",
    )
    for rule in rules(everything, *roles):
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]


def test_only_the_fake_cloud_may_create_nodes(everything: list[Object]) -> None:
    def verbs(name: str) -> set[str]:
        return {verb for rule in rules(everything, name) if "nodes" in rule["resources"] for verb in rule["verbs"]}

    assert verbs("charterer") == {"get", "list", "watch", "patch", "delete"}
    assert verbs("charterer-fakecloud") == {"get", "create", "patch", "delete"}


def test_only_who_wants_karpenter_grants_the_rights_to_ask_it_for_nodes(
    default: list[Object], everything: list[Object]
) -> None:
    def of_karpenter(objects: list[Object]) -> list[Object]:
        return [rule for rule in rules(objects, "charterer") if "karpenter" in str(rule["apiGroups"])]

    assert of_karpenter(default) == []
    assert of_karpenter(everything) == [
        {
            "apiGroups": ["karpenter.sh"],
            "resources": ["nodeclaims"],
            "verbs": ["get", "list", "create", "patch", "delete"],
        },
        {"apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"], "verbs": ["get"]},
    ]
    with pytest.raises(HelmRefused, match="/karpenter/nodeClasses/0"):
        render("karpenter: {nodeClasses: [EC2NodeClass]}")


def test_people_who_may_view_may_read_charterers_objects_and_change_nothing(default: list[Object]) -> None:
    role = only(default, "ClusterRole", "charterer-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_people_who_may_edit_write_jobs_and_profiles_and_only_admins_write_budgets_and_pools(
    default: list[Object],
) -> None:
    def written(name: str) -> set[str]:
        return {what for rule in rules(default, name) if "create" in rule["verbs"] for what in rule["resources"]}

    assert written("charterer-edit") == {"trainingjobs", "speedupprofiles"}
    assert written("charterer-admin") == {"gpubudgets", "gpupools", "gpupoolsets"}
    for name, roles in (("charterer-edit", {"edit", "admin"}), ("charterer-admin", {"admin"})):
        labels = only(default, "ClusterRole", name)["metadata"]["labels"]
        aggregated = {label.rpartition("-")[2] for label in labels if "/aggregate-to-" in label}
        assert aggregated == roles
        assert not any("/" in what for rule in rules(default, name) for what in rule["resources"])


def test_by_default_the_operator_has_no_limits_and_is_no_dry_run(default: list[Object]) -> None:
    (container,) = only(default, "Deployment", "charterer")["spec"]["template"]["spec"]["containers"]
    assert not [argument for argument in container["args"] if argument.startswith(("--max-", "--dry-run"))]
    with pytest.raises(HelmRefused, match="dollarsPerHour"):
        render("limits: {dollarsPerHour: 5 dollars}")


def test_who_may_stop_the_operator_may_patch_its_namespace_and_nothing_else(default: list[Object]) -> None:
    role = only(default, "Role", "charterer-stop")
    assert role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [NAMESPACE], "verbs": ["get", "patch"]}
    ]


def test_one_secret_is_readable_by_its_name_and_none_can_be_created(default: list[Object]) -> None:
    secrets = [rule for rule in rules(default, "charterer", "charterer-runs") if "secrets" in rule["resources"]]
    assert secrets == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["charterer-progress-tls"],
            "verbs": ["get", "patch"],
        }
    ]


def test_with_namespaces_named_jobs_and_pods_are_written_in_those_only(
    default: list[Object], everything: list[Object]
) -> None:
    def bound(objects: list[Object], role: str) -> set[tuple[str, str]]:
        bindings = [o for o in objects if o["kind"].endswith("Binding") and o.get("roleRef", {}).get("name") == role]
        return {(o["kind"], o["metadata"].get("namespace", "")) for o in bindings}

    assert bound(default, "charterer-runs") == {("ClusterRoleBinding", "")}
    assert bound(everything, "charterer-runs") == {("RoleBinding", "research"), ("RoleBinding", "vision")}
    written = [
        (resource, verb)
        for rule in only(everything, "ClusterRole", "charterer")["rules"]
        for resource in rule["resources"]
        for verb in {*rule["verbs"]} - {"get", "list", "watch"}
        if resource in ("jobs", "pods", "pods/status", "services", "trainingjobs", "speedupprofiles")
    ]
    assert written == []


def test_nobody_reaches_metrics_unless_they_are_turned_on(default: list[Object], everything: list[Object]) -> None:
    def ports(objects: list[Object]) -> list[str]:
        rules = only(objects, "NetworkPolicy", "charterer")["spec"]["ingress"]
        return [port["port"] for rule in rules for port in rule["ports"]]

    def arguments(objects: list[Object]) -> list[str]:
        (container,) = only(objects, "Deployment", "charterer")["spec"]["template"]["spec"]["containers"]
        return [argument for argument in container["args"] if argument.startswith("--metrics")]

    assert (ports(default), arguments(default)) == (["progress"], [])
    assert (ports(everything), arguments(everything)) == (["progress", "metrics"], ["--metrics-port=8081"])
    peers = only(everything, "NetworkPolicy", "charterer")["spec"]["ingress"][1]["from"]
    assert peers == [{"namespaceSelector": {"matchLabels": {"name": "prometheus"}}}]
    assert only(render("serviceMonitor: {enabled: true}"), "Service", "charterer-metrics")


def test_only_the_operator_may_call_the_fake_cloud(everything: list[Object]) -> None:
    (rule,) = only(everything, "NetworkPolicy", "charterer-fakecloud")["spec"]["ingress"]
    labels = only(everything, "Deployment", "charterer")["spec"]["template"]["metadata"]["labels"]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    assert not [o for o in render("networkPolicy: {enabled: false}") if o["kind"] == "NetworkPolicy"]


def test_an_existing_service_account_is_used_and_not_made() -> None:
    objects = render("{serviceAccount: {create: false, name: mine}, uninstallCheck: false}")
    assert not [o for o in objects if o["kind"] == "ServiceAccount"]
    assert only(objects, "Deployment", "charterer")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    bindings = [o for o in objects if o["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == {"mine"}


def test_the_fake_cloud_sells_what_the_values_say(everything: list[Object]) -> None:
    config = yaml.safe_load(only(everything, "ConfigMap", "charterer-fakecloud")["data"]["cloud.yaml"])
    assert [group["name"] for group in config["groups"]] == ["a100"]
    assert config["groups"][0]["hourlyPrice"] == "12.00"


def test_the_test_of_a_release_asks_the_leader_and_may_do_nothing_else(default: list[Object]) -> None:
    pod = only(default, "Pod", "charterer-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["volumes"][0]["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    python, option, script = container["command"]
    assert (python, option) == ("python", "-c")
    compile(script, "charterer-test", "exec")
    assert f"https://charterer-progress.{NAMESPACE}.svc/" in script


def test_another_configuration_restarts_the_fake_cloud() -> None:
    def checksum(values: str) -> str:
        template = only(render(values), "Deployment", "charterer-fakecloud")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    enabled = "fakeCloud: {enabled: true"
    assert checksum(enabled + "}") == checksum(enabled + "}")
    assert checksum(enabled + "}") != checksum(enabled + ", config: {seed: 7}}")


@pytest.mark.parametrize("level", ["debug", "WARNING"])
def test_the_log_level_is_written_as_for_the_program(level: str) -> None:
    spec = only(render(f"logLevel: {level}"), "Deployment", "charterer")["spec"]["template"]["spec"]
    assert f"--log-level={level}" in spec["containers"][0]["args"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("replica: 2", "replica"),
        ("replicas: -1", "/replicas"),
        ("logLevel: loud", "/logLevel"),
        ("logFormat: xml", "/logFormat"),
        ("traces: {endpoint: collector}", "/traces/endpoint"),
        ("image: {version: 1}", "version"),
        ("image: {digest: latest}", "/image/digest"),
        ("surveySeconds: 0", "/surveySeconds"),
        ("resyncSeconds: often", "/resyncSeconds"),
        ("serviceMonitor: {enable: true}", "enable"),
        ("resources: {limit: {memory: 1Gi}}", "limit"),
        ("resources: {limits: {memory: much}}", "/resources/limits/memory"),
        ("extraEnv: [{value: x}]", "/extraEnv/0"),
        ("extraArgs: [moving]", "/extraArgs/0"),
        ("namespaces: [Research]", "/namespaces/0"),
        ("metrics: {enabled: true, from: []}", "/metrics/from"),
        ("serviceAccount: {create: false}", "/serviceAccount"),
        ("costRecord: {place: costs}", "/costRecord/place"),
        ("costRecord: {labels: [-team]}", "/costRecord/labels/0"),
        ("fakeCloud: {config: {groups: []}}", "/fakeCloud/config/groups"),
        ("fakeCloud: {config: {groups: [{name: a}]}}", "/fakeCloud/config/groups/0"),
        ("fakeCloud: {persistence: {size: big}}", "/fakeCloud/persistence/size"),
    ],
)
def test_a_wrong_value_is_refused_by_its_path(values: str, said: str) -> None:
    with pytest.raises(HelmRefused, match="values don't meet the specifications of the schema") as refused:
        render(values)
    assert said in str(refused.value)


def test_the_schema_knows_every_default_and_allows_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(where: str, schema: Object, values: Object) -> None:
        if schema.get("additionalProperties") is not False:
            return
        assert schema["properties"].keys() - {"global"} == values.keys(), where
        for name, value in values.items():
            if isinstance(value, dict):
                compare(f"{where}.{name}", schema["properties"][name], value)

    compare("values", schema, values)
