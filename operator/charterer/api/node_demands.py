"""What a pod template asks of its node, and what a Node shows, read from the API server's objects.

Whatever does not have the shape of the field is passed over: the dry run of the template says what is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from charterer.api.metadata import Raw, thousandths
from charterer.api.names import GPU_RESOURCE, GPU_RESOURCES, GROUP, MIG_PREFIX, SHARED_GPU
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
"""Seconds until the pods of a node that is not ready are evicted (Kubernetes' default is 300): GPUs wait meanwhile."""
_GPUS: Final = (*GPU_RESOURCES, MIG_PREFIX, SHARED_GPU)
"""How the resources begin that are counted as GPUs."""
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_NOWHERE: Final[Term] = (Requirement(NODE_NAME, "In"),)
"""What a node affinity asks whose terms are all empty: no node meets it."""
_MOST: Final = 64
"""The most labels of a selector, terms, requirements of a term, and volumes that are read. What a selector or an
affinity with more asks, only the scheduler judges."""
_AFFINITY: Final = "affinity.nodeAffinity"
_CLAIM: Final = "persistentVolumeClaim"
_OWN_LABELS: Final = ("kubernetes.io/hostname", RUN_LABEL_PREFIX, f"{GROUP}/")
"""How labels begin that a node has for itself, or while a job is placed there."""


def placing_tolerations(resource: str) -> list[dict[str, Any]]:
    """Tolerations that let a run's pods onto nodes with GPUs of this resource, and keep them short on a lost node."""
    lost_node = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    return [
        {"key": resource, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", **lost_node},
        {"key": "node.kubernetes.io/unreachable", **lost_node},
    ]


def node_demands(template: Mapping[str, Any], resource: str = GPU_RESOURCE) -> NodeDemands:
    """What a pod template asks of its node, with the tolerations that its pods get; ``resource``: of its GPUs."""
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
        asks=_asks(spec),
        unread=(*unread, *_unread(spec, affinity)),
        claims=tuple([str(name) for volume in volumes if (name := _mapping(volume.get(_CLAIM)).get("claimName"))]),
        classes=tuple([str(name) for volume in volumes if (name := _class_of(volume))]),
        resource=resource,
    )
    return _same(demands)


@lru_cache(maxsize=4096)
def _same(demands: NodeDemands) -> NodeDemands:
    """The same object for equal demands, which most templates of a cluster have."""
    return demands


def volume_terms(volume: Mapping[str, Any], claim: str) -> tuple[Term, ...]:
    """The terms of which a node must meet one to attach a PersistentVolume; empty: any node can."""
    required = _mapping(_mapping(_mapping(volume.get("spec")).get("nodeAffinity")).get("required"))
    terms = [_term(each) for each in _list(required.get("nodeSelectorTerms"))[:_MOST]]
    return _for_volume([term for term in terms if term is not None], f"PersistentVolumeClaim {claim}")


def class_terms(storage_class: Mapping[str, Any], name: str) -> tuple[Term, ...]:
    """The terms of which a node must meet one for a StorageClass to make a volume for it; empty: it does for any."""
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
    """The StorageClass of a generic ephemeral volume; empty where it is none, or names none."""
    made = _mapping(_mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
    return str(_mapping(made.get("spec")).get("storageClassName") or "")


def _term(raw: object) -> Term | None:
    """The requirements of a term; None for one without any, which matches no node and is not counted."""
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
    """The fields by which the scheduler may refuse a node that fits in all that is read here."""
    for field in ("podAffinity", "podAntiAffinity"):
        if _mapping(affinity.get(field)).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"affinity.{field}"
    spread = [_mapping(each) for each in _list(spec.get("topologySpreadConstraints"))]
    if any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in spread):
        yield "topologySpreadConstraints"


# --- resources --------------------------------------------------------------------------------------------------------


def _asks(spec: Mapping[str, Any]) -> Amounts:
    """What a pod asks for beside GPUs, as the scheduler adds it up (see ``decode.core.pod_gpus``)."""
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
    """What a container asks for: its requests, and its limits where it has none."""
    resources = _mapping(_mapping(container).get("resources"))
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(raw: object) -> dict[str, int]:
    found = {}
    for name, quantity in _mapping(raw).items():
        try:
            amount = thousandths(quantity)
        except ValueError:
            continue
        if amount and not str(name).startswith(_GPUS):
            found[str(name)] = amount
    return found


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


# --- Nodes ------------------------------------------------------------------------------------------------------------


def node_traits(name: str, labels: Mapping[str, str], taints: Iterable[NodeTaint], allocatable: Raw) -> NodeTraits:
    """What a Node shows that others of its pool may show, too; the same object for Nodes that show the same."""
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
