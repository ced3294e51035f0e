"""What the kube-env of an instance template says of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.providers.gcp.template import KubeEnv, kube_env

GKE = """\
ALLOCATE_NODE_CIDRS: "true"
AUTOSCALER_ENV_VARS: kube_reserved=cpu=110m,memory=8029Mi,ephemeral-storage=100Gi;node_taints=nvidia.com/gpu=present:NoSchedule;node_labels=team=a,cloud.google.com/gke-accelerator=nvidia-l4,cloud.google.com/gke-nodepool=gpu;os=linux;os_distribution=cos;arch=amd64;extended_resources=example.com/port=2
KUBELET_ARGS: --v=2 --cloud-provider=gce --experimental-mounter-path=/home/kubernetes
  --max-pods=110
KUBELET_KEY: a-secret
"""  # noqa: E501
"""As a node of GKE has it, without most of its variables; the values are short."""


def properties(value: str) -> dict[str, Any]:
    """Of a template with that entry beside another."""
    return {"metadata": {"items": [{"key": "cluster-name", "value": "prod"}, {"key": "kube-env", "value": value}]}}


def test_labels_taints_and_reserve_are_those_that_gke_tells_the_cluster_autoscaler() -> None:
    env = kube_env(properties(GKE))
    assert env.nodes.traits({}) == NodeTraits(
        (
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("cloud.google.com/gke-accelerator", "nvidia-l4"),
            ("cloud.google.com/gke-nodepool", "gpu"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("team", "a"),
        ),
        (NodeTaint("nvidia.com/gpu", "present", "NoSchedule"),),
        (("example.com/port", 2_000),),
    )
    assert (env.left("cpu", 24_000), env.left("pods", 110_000)) == ("23890m", "110000m")
    assert "a-secret" not in str(env)


@pytest.mark.parametrize(
    ("variables", "labels", "taints"),
    [
        ("node_labels=a=b;node_taints='dedicated=ml:NoSchedule,test=dev:PreferNoSchedule,a=b:c'", ["a"], ["dedicated"]),
        ("node_labels=;node_taints=", [], []),
        ("node_labels=ab,c=d", ["c"], []),
        ("node_labels;node_taints=a=b:NoSchedule", [], ["a"]),
        ('"node_labels=a=b"', ["a"], []),
        ("", [], []),
        ("[1, 2]", [], []),
        ("a: b: c\n\t{", [], []),
        ("\x00", [], []),
        ("[" * 5_000, [], []),
        ("node_labels=a=b;\n  node_taints=t=:NoSchedule,t=:NoExecute\nNODE_LABELS: node_labels=c=d", ["a"], ["t", "t"]),
    ],
)
def test_what_is_malformed_is_passed_over(variables: str, labels: list[str], taints: list[str]) -> None:
    """Most of the values are those of the cluster autoscaler's own tests."""
    traits = kube_env(properties(f"AUTOSCALER_ENV_VARS: {variables}\n")).nodes.traits({})
    assert ([key for key, _ in traits.labels], [taint.key for taint in traits.taints]) == (labels, taints)


@pytest.mark.parametrize("value", ["", "AUTOSCALER_ENV_VARS", "- a\n- b\n", "X_AUTOSCALER_ENV_VARS: node_labels=a=b\n"])
def test_an_entry_without_the_variables_says_nothing(value: str) -> None:
    assert kube_env(properties(value)) == KubeEnv()


def test_a_template_without_the_entry_says_nothing() -> None:
    empty = {"items": [{"key": "startup-script"}, {"key": "kube-env"}]}
    templates: list[dict[str, Any]] = [{}, {"metadata": {}}, {"metadata": empty}]
    assert [kube_env(each) for each in templates] == [KubeEnv()] * 3


def test_a_reserve_that_is_no_quantity_or_more_than_all_leaves_the_room_unknown_or_as_it_is() -> None:
    env = kube_env(properties("AUTOSCALER_ENV_VARS: kube_reserved=cpu=lots,memory=8Gi\n"))
    room = {"cpu": env.left("cpu", 4_000), "memory": env.left("memory", 1_000)}
    assert env.nodes.traits(room) == NodeTraits(room=(("cpu", 4_000),))
