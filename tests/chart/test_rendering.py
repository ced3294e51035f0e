"""What the chart makes of its values, and what it refuses."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.chart.support import CHART, EVERYTHING, NAMESPACE, HelmRefused, Object, helm, only, pod_specs, render


@pytest.fixture(scope="module")
def default() -> list[Object]:
    return render()


@pytest.fixture(scope="module")
def everything() -> list[Object]:
    return render(EVERYTHING)


def rules(objects: list[Object], *names: str) -> list[Object]:
    return [
        rule
        for o in objects
        if o["kind"] in ("ClusterRole", "Role") and o["metadata"]["name"] in names
        for rule in o["rules"]
    ]


def test_helm_finds_nothing_to_complain_about() -> None:
    helm("lint", "--strict", str(CHART))
    helm("lint", "--strict", str(CHART), values=EVERYTHING)


def test_by_default_there_is_the_operator_and_nothing_else(default: list[Object]) -> None:
    assert sorted(f"{o['kind']}/{o['metadata']['name']}" for o in default) == [
        "ClusterRole/charterer",
        "ClusterRole/charterer-view",
        "ClusterRoleBinding/charterer",
        "Deployment/charterer",
        "Role/charterer",
        "RoleBinding/charterer",
        "Service/charterer-metrics",
        "Service/charterer-progress",
        "ServiceAccount/charterer",
    ]


def test_the_operator_is_started_as_its_command_line_wants_it(default: list[Object]) -> None:
    (container,) = pod_specs(default)[0]["containers"]
    assert container["image"] == f"charterer:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"
    assert container["args"] == [
        "run",
        "--http-port=8080",
        "--progress-port=8443",
        f"--progress-url=https://charterer-progress.{NAMESPACE}.svc",
        "--log-level=INFO",
        "--survey-seconds=15",
        "--resync-seconds=300",
    ]
    assert [e["name"] for e in container["env"]] == ["POD_NAME", "POD_NAMESPACE"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_every_option_arrives(everything: list[Object]) -> None:
    deployment = only(everything, "Deployment", "charterer")
    assert deployment["spec"]["replicas"] == 2
    template = deployment["spec"]["template"]
    assert template["metadata"]["annotations"] == {"a": "b"}
    assert template["metadata"]["labels"]["team"] == "platform"
    spec = template["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"role": "system"}
    assert spec["tolerations"] == [{"key": "system", "operator": "Exists"}]
    assert spec["affinity"] == {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert spec["priorityClassName"] == "system-cluster-critical"
    (container,) = spec["containers"]
    assert container["image"] == "example/charterer@sha256:" + "0" * 64
    assert container["imagePullPolicy"] == "Always"
    assert container["env"][-1]["name"] == "CHARTERER_FAKECLOUD_TOKEN"
    assert {"--log-level=DEBUG", "--survey-seconds=5", "--resync-seconds=60", "--job-metrics"} <= set(container["args"])
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


def test_only_the_leader_gets_progress_and_every_replica_is_scraped(default: list[Object]) -> None:
    labels = only(default, "Deployment", "charterer")["spec"]["template"]["metadata"]["labels"]
    progress = only(default, "Service", "charterer-progress")["spec"]
    assert progress["ports"] == [{"name": "https", "port": 443, "targetPort": "progress"}]
    assert progress["selector"].pop("charterer.dev/leader") == "true"
    assert progress["selector"].items() <= labels.items()
    assert only(default, "Service", "charterer-metrics")["spec"]["selector"].items() <= labels.items()


def test_the_service_monitor_selects_the_metrics_service_only(everything: list[Object]) -> None:
    wanted = only(everything, "ServiceMonitor", "charterer")["spec"]["selector"]["matchLabels"].items()
    services = [o for o in everything if o["kind"] == "Service"]
    selected = [o["metadata"]["name"] for o in services if wanted <= o["metadata"]["labels"].items()]
    assert selected == ["charterer-metrics"]


def test_no_rule_has_a_wildcard(everything: list[Object]) -> None:
    for rule in rules(everything, "charterer", "charterer-fakecloud", "charterer-view"):
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]


def test_only_the_fake_cloud_may_create_nodes(everything: list[Object]) -> None:
    def verbs(name: str) -> set[str]:
        return {verb for rule in rules(everything, name) if "nodes" in rule["resources"] for verb in rule["verbs"]}

    assert verbs("charterer") == {"get", "list", "watch", "patch", "delete"}
    assert verbs("charterer-fakecloud") == {"create", "patch", "delete"}


def test_people_who_may_view_may_read_charterers_objects_and_change_nothing(default: list[Object]) -> None:
    role = only(default, "ClusterRole", "charterer-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_secrets_are_readable_in_one_namespace_by_name_only(default: list[Object]) -> None:
    assert not any("secrets" in rule["resources"] for rule in only(default, "ClusterRole", "charterer")["rules"])
    for rule in only(default, "Role", "charterer")["rules"]:
        if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
            assert rule["resourceNames"] == ["charterer-progress-tls"]


def test_the_fake_cloud_sells_what_the_values_say(everything: list[Object]) -> None:
    config = yaml.safe_load(only(everything, "ConfigMap", "charterer-fakecloud")["data"]["cloud.yaml"])
    assert [group["name"] for group in config["groups"]] == ["a100"]
    assert config["groups"][0]["hourlyPrice"] == "12.00"


def test_another_configuration_restarts_the_fake_cloud() -> None:
    def checksum(values: str) -> str:
        template = only(render(values), "Deployment", "charterer-fakecloud")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    enabled = "fakeCloud: {enabled: true"
    assert checksum(enabled + "}") == checksum(enabled + "}")
    assert checksum(enabled + "}") != checksum(enabled + ", config: {seed: 7}}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("replica: 2", "replica"),
        ("replicas: -1", "/replicas"),
        ("logLevel: info", "/logLevel"),
        ("image: {version: 1}", "version"),
        ("image: {digest: latest}", "/image/digest"),
        ("surveySeconds: 0", "/surveySeconds"),
        ("resyncSeconds: often", "/resyncSeconds"),
        ("serviceMonitor: {enable: true}", "enable"),
        ("resources: {limit: {memory: 1Gi}}", "limit"),
        ("resources: {limits: {memory: much}}", "/resources/limits/memory"),
        ("extraEnv: [{value: x}]", "/extraEnv/0"),
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
