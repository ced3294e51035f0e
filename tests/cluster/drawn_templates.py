"""Pod templates drawn by a seed, that ask for nodes as people's do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from charterer.api.node_demands import placing_tolerations
from charterer.cluster.client import RawObject

PIN: Final = "testbed.charterer.dev/like"
"""Label of a Node, and of a pod that is kept to the Nodes with the same value."""

GPUS: Final = (("NVIDIA-A100-SXM4-40GB", 40_960), ("Tesla-T4", 15_360), ("NVIDIA-GH200-480GB", 491_520))
"""Types with the memory that their driver shows, in MiB."""
EFA: Final = "vpc.amazonaws.com/efa"
DECLARED: Final = (("team", "vision"), ("team", "speech"), ("generation", "7"), ("example.com/local-disk", ""))
KEYS: Final = {
    "topology.kubernetes.io/zone": ("z1", "z2"),
    "node.kubernetes.io/instance-type": ("g.4", "g.8"),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
    "kubernetes.io/hostname": ("host-7",),
    "nvidia.com/gpu.product": tuple(name for name, _ in GPUS),
    "nvidia.com/gpu.present": ("true",),
    "nvidia.com/gpu.count": ("2", "4", "8"),
    "nvidia.com/gpu.memory": ("20000", "100000"),
    "team": ("vision", "speech"),
    "generation": ("6", "7", "seven"),
    "example.com/local-disk": ("",),
    "karpenter.sh/nodepool": ("gpu",),
}
Json = dict[str, Any]


def _requirement(draw: Random) -> Json:
    key = draw.choice(sorted(KEYS))
    operator = draw.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        key = draw.choice(["nvidia.com/gpu.count", "generation", "nvidia.com/gpu.memory"])
        return {"key": key, "operator": operator, "values": [draw.choice(["3", "7", "20000", "100000"])]}
    return {"key": key, "operator": operator, "values": draw.sample(KEYS[key], draw.randint(1, len(KEYS[key])))}


def _affinity(draw: Random) -> Json:
    affinity: Json = {}
    if draw.random() < 0.4:
        terms = []
        for _ in range(draw.randint(1, 2)):
            term: Json = {"matchExpressions": [_requirement(draw) for _ in range(draw.randrange(3))]}
            if draw.random() < 0.1:
                field = {"key": "metadata.name", "operator": draw.choice(["In", "NotIn"]), "values": ["host-7"]}
                term["matchFields"] = [field]
            terms.append(term)
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.random() < 0.2:
        preference = {"weight": 5, "preference": {"matchExpressions": [_requirement(draw)]}}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [preference]
    return affinity


def template(draw: Random, gpu_type: str, zone: str) -> Json:
    """A template that its author may have written for nodes of this GPU type and zone, or for others."""
    spec: Json = {}
    true_of_pool = {"nvidia.com/gpu.product": gpu_type, "topology.kubernetes.io/zone": zone}
    selected = {}
    for key in draw.sample(sorted(KEYS), draw.choice([0, 0, 1, 1, 2])):
        selected[key] = true_of_pool[key] if key in true_of_pool and draw.random() < 0.7 else draw.choice(KEYS[key])
    if selected:
        spec["nodeSelector"] = selected
    affinity = _affinity(draw)
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}
    spec["tolerations"] = draw.choice(
        [
            [],
            [{"operator": "Exists"}],
            [{"key": "dedicated", "operator": "Exists"}],
            [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
        ]
    )
    requests = {}
    if draw.random() < 0.6:
        requests["cpu"] = draw.choice(["500m", "3", "7900m", "9", "40"])
    if draw.random() < 0.4:
        requests["memory"] = draw.choice(["512Mi", "1.5Gi", "17G", "100Gi"])
    if draw.random() < 0.2:
        requests[EFA] = draw.choice(["1", "4", "5"])
    limits = {EFA: requests[EFA]} if EFA in requests else {}
    spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}]
    if draw.random() < 0.2:
        asked = {"cpu": draw.choice(["1", "20"])}
        early = {"name": "early", "image": "none", "resources": {"requests": asked}}
        spec["initContainers"] = [early | draw.choice([{}, {"restartPolicy": "Always"}])]
    return {"spec": spec}


def pinned_pod(name: str, node: str, wanted: Json, gpus: int, tolerations: Sequence[Json] = ()) -> Json:
    """A pod of a template as a run would make it, kept to the Nodes that are called so."""
    spec = {**wanted["spec"]}
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), PIN: node}
    spec["tolerations"] = [*spec["tolerations"], *placing_tolerations("nvidia.com/gpu"), *tolerations]
    main = spec["containers"][0]
    limits = {**main["resources"]["limits"], "nvidia.com/gpu": str(gpus)}
    spec["containers"] = [{**main, "resources": {**main["resources"], "limits": limits}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {PIN: node}}, "spec": spec}


def judged(pod: RawObject) -> bool:
    """Whether the scheduler has bound the pod, or said that it cannot."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodScheduled" for each in conditions)
