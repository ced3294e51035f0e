"""What a scale set's tags and a node pool of AKS say of their nodes."""

from __future__ import annotations

from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.providers.azure.scale_sets import template_of_pool, template_of_set

TEMPLATE = "k8s.io_cluster-autoscaler_node-template"


def test_the_tags_of_a_scale_set_are_those_that_the_cluster_autoscaler_reads() -> None:
    """The names are those of the page "Cluster Autoscaler on Azure"."""
    row = {
        "tags": {
            f"{TEMPLATE}_label_foo": "bar",
            f"{TEMPLATE}_label_k8s.io_foo": "bar",
            f"{TEMPLATE}_label_cpu~2arch": "x",
            f"{TEMPLATE}_label_empty": None,
            f"{TEMPLATE}_taint_k8s.io_foo": "bar:NoSchedule",
            f"{TEMPLATE}_resources_cpu": "3800m",
            f"{TEMPLATE}_autoscaling-options_scaledownunneededtime": "10m0s",
            "foo": "no label",
        }
    }
    assert template_of_set(row).traits({"cpu": "4", "memory": "1Ki"}) == NodeTraits(
        (("cpu_arch", "x"), ("empty", ""), ("foo", "bar"), ("k8s.io/foo", "bar")),
        (NodeTaint("k8s.io/foo", "bar", "NoSchedule"),),
        (("cpu", 3_800), ("memory", 1024 * 1000)),
    )


def test_a_scale_set_without_tags_says_nothing() -> None:
    for row in ({}, {"tags": None}, {"tags": {"team": "a"}}):
        assert template_of_set(row).traits({}) == NodeTraits()


def test_a_spot_node_pool_says_its_labels_taints_and_mode() -> None:
    """The answer is that of https://learn.microsoft.com/azure/aks/spot-node-pool, with a taint without a value."""
    properties = {
        "mode": "User",
        "nodeLabels": {"kubernetes.azure.com/scalesetpriority": "spot"},
        "nodeTaints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule", "dedicated:NoExecute", "malformed"],
        "nodeInitializationTaints": ["starting=true:NoSchedule"],
    }
    assert template_of_pool(properties).traits({}) == NodeTraits(
        (("kubernetes.azure.com/mode", "user"), ("kubernetes.azure.com/scalesetpriority", "spot")),
        (
            NodeTaint("kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule"),
            NodeTaint("dedicated", "", "NoExecute"),
        ),
    )


def test_a_node_pool_whose_fields_are_null_says_its_mode() -> None:
    said = template_of_pool({"mode": "System", "nodeLabels": None, "nodeTaints": None})
    assert said.traits({}) == NodeTraits((("kubernetes.azure.com/mode", "system"),))
