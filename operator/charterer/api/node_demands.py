"""The requirements of a pod template on its node, and the properties of a Node, read from the API server's objects.

Malformed fields are ignored, because the dry run of the template reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from charterer.api.gpu_resources import is_gpu
from charterer.api.metadata import Raw, thousandths
from charterer.api.names import GPU_RESOURCE, GROUP
from charterer.domain.node_demands import (
    NODE_NAME,
    Amounts,
    NodeDemands,
    NodeTaint,
    NodeTraits,
    Requirement,
    Term,
    Toleration,
)
from charterer.domain.pod import RUN_LABEL_PREFIX

LOST_NODE_SECONDS: Final = 30
"""Seconds until pods are evicted from a node that is not ready. GPUs wait meanwhile; Kubernetes' default is 300."""
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_NOWHERE: Final[Term] = (Requirement(NODE_NAME, "In"),)
"""The requirement of a node affinity whose terms are all empty: no node meets it."""
_MOST: Final = 64
"""Most labels of a selector, terms, requirements of a term, and volumes that are read.

A selector or an affinity with more of them is left to the scheduler.
"""
_AFFINITY: Final = "affinity.nodeAffinity"
_CLAIM: Final = "persistentVolumeClaim"
_OWN_LABELS: Final = ("kubernetes.io/hostname", RUN_LABEL_PREFIX, f"{GROUP}/")
"""Prefixes of labels that are specific to one node, or set while a job is placed there."""


def placing_tolerations(resource: str) -> list[dict[str, Any]]:
    """Tolerations that admit a run's pods to nodes with GPUs of this resource, and end them soon on a lost node."""
    lost_node = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    return [
        {"key": resource, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", **lost_node},
        {"key": "node.kubernetes.io/unreachable", **lost_node},
    ]


def node_demands(template: Mapping[str, Any], resource: str = GPU_RESOURCE) -> NodeDemands:
    """The requirements of a pod template on its node, with the tolerations of its pods. ``resource``: of its GPUs."""
    spec = _mapping(template.get("spec"))
    affinity = _mapping(spec.get("affinity"))
    of_nodes = _mapping(affinity.get("nodeAffinity"))
    required = _mapping(of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = _list(of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution"))
    terms, volumes = (
        _list(required.get("nodeSelectorTerms")),
        [_mapping(each) for each in _list(spec.get("volumes"))[:_MOST]],
    )
    selector = _mapping(spec.get("nodeSelector"))
    unread = [field for field, found in (("nodeSelector", selector), (_AFFINITY, terms)) if len(found) > _MOST]
    read = [] if _AFFINITY in unread else [term for each in terms if (term := _term(each)) is not None]
    demands = NodeDemands(
        every=tuple(
            [Requirement(str(key), "In", (str(value),)) for key, value in selector.items()]
            if "nodeSelector" not in unread
            else []
        ),
        terms=tuple(read) if read or _AFFINITY in unread or not terms else (_NOWHERE,),
        preferred=tuple(
            [
                (weight, term)
                for each in preferred[:_MOST]
                if (weight := _weight(each)) and (term := _term(_mapping(each).get("preference"))) is not None
            ]
        ),
        tolerations=tuple(
            [_toleration(each) for each in (*_list(spec.get("tolerations"))[:_MOST], *placing_tolerations(resource))]
        ),
        asks=tuple([(name, amount) for name, amount in _asks(spec) if name != resource]),
        unread=(*unread, *_unread(spec, affinity)),
        claims=tuple([str(name) for volume in volumes if (name := _mapping(volume.get(_CLAIM)).get("claimName"))]),
        classes=tuple([str(name) for volume in volumes if (name := _class_of(volume))]),
        resource=resource,
    )
    return _same(demands)


@lru_cache(maxsize=4096)
def _same(demands: NodeDemands) -> NodeDemands:
    """An equal object that exists already, if there is one, because most templates of a cluster have equal demands."""
    return demands


def volume_terms(volume: Mapping[str, Any], claim: str) -> tuple[Term, ...]:
    """The node terms of a PersistentVolume. A node must meet one of the terms to attach the volume. If there are none,
    any node can.
    """
    required = _mapping(_mapping(_mapping(volume.get("spec")).get("nodeAffinity")).get("required"))
    terms = [_term(each) for each in _list(required.get("nodeSelectorTerms"))[:_MOST]]
    return _for_volume([term for term in terms if term is not None], f"PersistentVolumeClaim {claim}")


def class_terms(storage_class: Mapping[str, Any], name: str) -> tuple[Term, ...]:
    """The node terms of a StorageClass. A node must meet one of the terms to get a volume. If there are none, any node
    can.
    """
    terms = []
    for allowed in _list(storage_class.get("allowedTopologies"))[:_MOST]:
        of_labels = [_mapping(each) for each in _list(_mapping(allowed).get("matchLabelExpressions"))[:_MOST]]
        term = _term({"matchExpressions": [{**each, "operator": "In"} for each in of_labels]})
        if term is not None:
            terms.append(term)
    return _for_volume(terms, f"StorageClass {name}")


def _for_volume(terms: Iterable[Term], volume: str) -> tuple[Term, ...]:
    return tuple([tuple([each._replace(volume=volume) for each in term]) for term in terms])


def _class_of(volume: Mapping[str, Any]) -> str:
    """The StorageClass of a generic ephemeral volume, or an empty text if it is none, or names none."""
    made = _mapping(_mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
    return str(_mapping(made.get("spec")).get("storageClassName") or "")


def _term(raw: object) -> Term | None:
    """The requirements of a term. None for a term without requirements, which matches no node and does not count."""
    term = _mapping(raw)
    expressions, fields = _list(term.get("matchExpressions")), _list(term.get("matchFields"))
    found = [_requirement(each) for each in expressions[:_MOST]]
    found += [_requirement({**_mapping(each), "key": NODE_NAME}) for each in fields[:_MOST]]
    return tuple([each for each in found if each is not None]) or None


def _requirement(raw: object) -> Requirement | None:
    entry = _mapping(raw)
    operator = str(entry.get("operator"))
    if operator not in _OPERATORS or not entry.get("key"):
        return None
    return Requirement(str(entry["key"]), operator, tuple([str(value) for value in _list(entry.get("values"))]))


def _weight(raw: object) -> int:
    weight = _mapping(raw).get("weight")
    return weight if type(weight) is int and 0 < weight <= 100 else 0


def _toleration(raw: object) -> Toleration:
    entry = _mapping(raw)
    words = [str(entry.get(field) or "") for field in ("key", "operator", "value", "effect")]
    return Toleration(words[0], words[1] or "Equal", *words[2:])


def _unread(spec: Mapping[str, Any], affinity: Mapping[str, Any]) -> Iterator[str]:
    """The fields that Charterer does not read, and by which the scheduler may refuse a node that meets all other
    requirements.
    """
    for field in ("podAffinity", "podAntiAffinity"):
        if _mapping(affinity.get(field)).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"affinity.{field}"
    spread = [_mapping(each) for each in _list(spec.get("topologySpreadConstraints"))]
    if any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in spread):
        yield "topologySpreadConstraints"


# --- resources --------------------------------------------------------------------------------------------------------


def _asks(spec: Mapping[str, Any]) -> Amounts:
    """The resources besides GPUs that a pod requests, as the scheduler adds them up (see ``gpu_resources``)."""
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in _list(spec.get("initContainers")):
        asked = _requests(container)
        if _mapping(container).get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, asked)
            asked = {}
        starting = _most(starting, _sum(sidecars, asked))
    together = sidecars
    for container in _list(spec.get("containers")):
        together = _sum(together, _requests(container))
    whole = _most(together, starting)
    of_pod = _mapping(spec.get("resources"))
    whole = {**_amounts(of_pod.get("limits")), **whole, **_amounts(of_pod.get("requests"))}
    return tuple(sorted(_sum(whole, _amounts(spec.get("overhead"))).items()))


def _requests(container: object) -> dict[str, int]:
    """The requests of a container, and its limits for resources without a request."""
    resources = _mapping(_mapping(container).get("resources"))
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(raw: object) -> dict[str, int]:
    found = {}
    for name, quantity in _mapping(raw).items():
        try:
            amount = thousandths(quantity)
        except ValueError:
            continue
        if amount and not is_gpu(str(name)):
            found[str(name)] = amount
    return found


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


# --- Nodes ------------------------------------------------------------------------------------------------------------


def node_traits(name: str, labels: Mapping[str, str], taints: Iterable[NodeTaint], allocatable: Raw) -> NodeTraits:
    """The properties of a Node that other nodes of its pool may share. Equal properties give the same object."""
    shared = {
        key: value for key, value in labels.items() if not key.startswith(_OWN_LABELS) and not (name and name in value)
    }
    return _traits(tuple(sorted(shared.items())), tuple(taints), tuple(sorted(_amounts(allocatable).items())))


@lru_cache(maxsize=4096)
def _traits(labels: tuple[tuple[str, str], ...], taints: tuple[NodeTaint, ...], room: Amounts) -> NodeTraits:
    return NodeTraits(labels, taints, room)


# --- shapes -----------------------------------------------------------------------------------------------------------


def _mapping(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}


def _list(raw: object) -> list[Any]:
    return raw if isinstance(raw, list) else []
