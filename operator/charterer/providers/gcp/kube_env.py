"""What an instance template says of its nodes: the entry of its metadata in which GKE tells the cluster autoscaler.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/templates.go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from charterer.api.metadata import thousandths
from charterer.providers.gcp.calls import Json
from charterer.providers.node_template import NO_TEMPLATE, NodeTemplate

_ENTRY: Final = "kube-env"
_VARIABLES: Final = "AUTOSCALER_ENV_VARS"
_LINES: Final = re.compile(rf"^{_VARIABLES}:.*(?:\n[ \t].*)*", re.MULTILINE)
"""The one value of the YAML document that is read. It may go on in indented lines."""
_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "arch": ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
    "os": ("kubernetes.io/os", "beta.kubernetes.io/os"),
}
"""Variables that are labels' values."""


@dataclass(frozen=True, slots=True)
class KubeEnv:
    """What ``nodes`` are like, and how much of each resource the kubelet keeps from pods."""

    nodes: NodeTemplate = NO_TEMPLATE
    reserved: Mapping[str, str] = field(default_factory=dict)

    def left(self, resource: str, amount: int) -> str:
        """What pods may have of that many thousandths, as a quantity; below 0 where the reserve is more than all."""
        try:
            kept = thousandths(self.reserved.get(resource, "0"))
        except ValueError:
            kept = 0
        return f"{amount - kept}m"


def kube_env(properties: Json) -> KubeEnv:
    """What the metadata of a template's properties say."""
    entries = properties.get("metadata", {}).get("items", ())
    text = next((each.get("value", "") for each in entries if each.get("key") == _ENTRY), "")
    variables = _variables(text)
    labels = dict(_pairs(variables.get("node_labels", "")))
    for name, keys in _NAMED.items():
        labels |= dict.fromkeys(keys, variables[name]) if variables.get(name) else {}
    taints, resources = _pairs(variables.get("node_taints", "")), _pairs(variables.get("extended_resources", ""))
    return KubeEnv(NodeTemplate(labels, taints, dict(resources)), dict(_pairs(variables.get("kube_reserved", ""))))


def _variables(text: str) -> Mapping[str, str]:
    """The variables by name, which are written ``NAME=VALUE;NAME=VALUE``."""
    found = _LINES.search(text)
    try:
        document = yaml.safe_load("" if found is None else found[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    line = document.get(_VARIABLES) if isinstance(document, dict) else None
    parts = [part.partition("=") for part in str(line or "").split(";")]
    return {name.strip(): value.strip(" \"'") for name, equals, value in parts if equals}


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of ``KEY=VALUE,KEY=VALUE``; what has no equals sign is passed over."""
    parts = [part.partition("=") for part in text.split(",")]
    return tuple([(key.strip(), value.strip()) for key, equals, value in parts if equals])
