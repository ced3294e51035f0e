"""What a scale set or a node pool of AKS says of its nodes.

The tags are those that the cluster autoscaler reads:
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/azure
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from charterer.providers.node_template import NodeTemplate

_TEMPLATE: Final = "k8s.io_cluster-autoscaler_node-template"


def template_of_set(row: Mapping[str, Any]) -> NodeTemplate:
    """What the tags of a scale set say. A name's slash is an underscore there, and its underscore is ~2."""
    tags: Mapping[str, str] = row.get("tags") or {}
    return NodeTemplate(_under("label", tags), tuple(_under("taint", tags).items()), _under("resources", tags))


def _under(kind: str, tags: Mapping[str, str]) -> Mapping[str, str]:
    beginning = f"{_TEMPLATE}_{kind}_"
    return {
        key.removeprefix(beginning).replace("_", "/").replace("~2", "_"): value or ""
        for key, value in tags.items()
        if key.startswith(beginning)
    }


def template_of_pool(properties: Mapping[str, Any]) -> NodeTemplate:
    """What a node pool says: its labels and taints, with those that AKS gives spot nodes, and its mode."""
    labels = {key: value or "" for key, value in (properties.get("nodeLabels") or {}).items()}
    mode = str(properties.get("mode", "User")).lower()
    taints = [_parted(taint) for taint in properties.get("nodeTaints") or ()]
    return NodeTemplate({**labels, "kubernetes.azure.com/mode": mode}, tuple(taints))


def _parted(taint: str) -> tuple[str, str]:
    """The key, and ``VALUE:EFFECT``, of ``KEY=VALUE:EFFECT`` or ``KEY:EFFECT``."""
    key, equals, rest = taint.partition("=")
    if equals:
        return key, rest
    key, _, effect = taint.partition(":")
    return key, f":{effect}"
