"""The demands of a pod on its node, the traits of a pool's nodes, and whether the scheduler would place it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from charterer.domain.ids import PoolId
from charterer.domain.option import GPU

# The demands of a pod on its node, the traits of a pool's nodes, and whether the scheduler would place the pod on such
# a node.
#
# The rules are those of Kubernetes' plugins NodeAffinity, TaintToleration and NodeResourcesFit
# (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). The rules decide only in which pools nodes
# are rented. The scheduler decides where a pod runs.


TaintEffect: TypeAlias = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Resources by name, in thousandths of a processor, a byte or a device."""
NODE_NAME = "metadata.name"
"""The key of a requirement on the node's name. The key is no label key, so no label selector can contain it."""


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of a node."""

    key: str
    value: str
    effect: TaintEffect

    @property
    def text(self) -> str:
        """The taint in kubectl's syntax."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """The traits that the scheduler sees of a node: labels, taints, and ``room``, its resources for pods besides GPUs.

    For a pool, these are the traits that all of its nodes share.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[NodeTaint, ...] = ()
    room: Amounts = ()


NO_TRAITS = NodeTraits()


class OfferedNode(NamedTuple):
    """The known properties of a node that a pool would give. ``labels``: the possible values of each label.

    ``gpus``: its GPUs or slices. ``resource``: the extended resource of whole GPUs. A label that is not listed counts
    as missing. A resource that is not listed counts as missing too, unless every node has it.
    """

    labels: tuple[tuple[str, tuple[str, ...]], ...]
    taints: tuple[NodeTaint, ...]
    room: Amounts
    gpus: int
    resource: str = GPU


class Requirement(NamedTuple):
    """A requirement on a label of the node. ``operator``: In, NotIn, Exists, DoesNotExist, Gt or Lt.

    ``volume``: the PersistentVolumeClaim or StorageClass that makes the requirement; empty if the template itself does.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    volume: str = ""

    @property
    def text(self) -> str:
        """The requirement in a line, in the syntax of ``kubectl -l`` if that can express it."""
        key, values = self.key, ", ".join(self.values)
        match self.operator:
            case "In":
                return f"{key}={values}" if len(self.values) == 1 else f"{key} in ({values})"
            case "NotIn":
                return f"{key}!={values}" if len(self.values) == 1 else f"{key} notin ({values})"
            case "Exists":
                return key
            case "DoesNotExist":
                return f"!{key}"
        return f"{key} {'>' if self.operator == 'Gt' else '<'} {values}"

    def met_by(self, values: Sequence[str]) -> bool:
        """Whether every one of these possible values of the label meets the requirement. No values: the node lacks the
        label."""
        if not values:
            return self.operator in ("NotIn", "DoesNotExist")
        return all(self._met(value) for value in values)

    def _met(self, value: str) -> bool:
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return True
            case "Gt" | "Lt":
                try:
                    here, bound = int(value), int(self.values[0])
                except (ValueError, IndexError):
                    return False
                return here > bound if self.operator == "Gt" else here < bound
        return False


class Toleration(NamedTuple):
    """A toleration. An empty ``key`` matches all keys, an empty ``effect`` all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """Whether a pod with this toleration may be placed on a node with the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator == "Equal" and self.value == taint.value


Term: TypeAlias = tuple[Requirement, ...]
"""Requirements that must all be met."""
AnyOf: TypeAlias = tuple[Term, ...]
"""Terms of which one must be met. If there are no terms, there is no requirement."""


@dataclass(frozen=True)
class NodeDemands:
    """The demands of a pod template on the node of each of its pods.

    ``every``: requirements that must always be met (nodeSelector). ``terms``: of these terms one must be met (required
    node affinity); empty for none. ``preferred``: terms with their weights. ``asks``: the resource requests of a pod,
    without GPUs. ``unread``: fields that only the scheduler evaluates, such as pod affinity. ``claims``: names of the
    PersistentVolumeClaims of its volumes. ``classes``: names of the StorageClasses of volumes that are created with a
    pod. ``resource``: the extended resource of its GPUs.
    """

    every: Term = ()
    terms: AnyOf = ()
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    asks: Amounts = ()
    unread: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    resource: str = GPU

    @cached_property
    def _hash(self) -> int:
        return hash((self.every, self.terms, self.preferred, self.tolerations, self.asks, self.unread, self.resource))

    def __hash__(self) -> int:
        """The hash is computed once, because plans use demands as keys very often."""
        return self._hash

    def also(self, terms: AnyOf) -> NodeDemands:
        """These demands together with the demand that one of ``terms`` is met, as for a volume that only some zones
        can attach."""
        both = tuple([(*own, *other) for own in self.terms or ((),) for other in terms])
        return replace(self, terms=both)


NO_DEMANDS = NodeDemands()
"""The demands of an unknown template. Unknown demands rule out no node."""


@dataclass(frozen=True, slots=True)
class UnmetLabel:
    """A requirement that a pool's nodes do not meet. ``there``: the possible values of the label on these nodes."""

    requirement: Requirement
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UntoleratedTaint:
    """A taint that the template does not tolerate."""

    taint: NodeTaint


@dataclass(frozen=True, slots=True)
class LackingRoom:
    """A pod that requests more of a resource than a node has. ``asked`` and ``there`` are in thousandths; ``there``
    is 0 if the node has none."""

    resource: str
    asked: int
    there: int


@dataclass(frozen=True, slots=True)
class OtherResource:
    """The GPUs of a pool's nodes have another extended resource than the template requests."""

    asked: str
    there: str


Misfit: TypeAlias = OtherResource | UnmetLabel | UntoleratedTaint | LackingRoom
"""Why the scheduler would not put a pod on a pool's nodes."""

_EVERYWHERE = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that every node has. If their amount is unknown, the pod is assumed to fit, and the scheduler decides."""
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/", "karpenter.sh/")
"""Key prefixes of taints that come and go with a node's state."""


def passes(taint: NodeTaint) -> bool:
    """Whether the taint comes and goes with the node's state, or is only a preference (PreferNoSchedule)."""
    return taint.effect == "PreferNoSchedule" or taint.key.startswith(_PASSING)


def shown_by_all(of_nodes: Sequence[NodeTraits]) -> NodeTraits:
    """The traits of several nodes together: labels that all nodes have, lasting taints that any node has, and the
    least amount of each resource."""
    if not of_nodes:
        return NO_TRAITS
    labels = set.intersection(*[set(traits.labels) for traits in of_nodes])
    taints = dict.fromkeys([taint for traits in of_nodes for taint in traits.taints if not passes(taint)])
    rooms = [dict(traits.room) for traits in of_nodes]
    names = set.intersection(*[set(room) for room in rooms])
    room = {name: min(room[name] for room in rooms) for name in names}
    ordered = sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))
    return NodeTraits(tuple(sorted(labels)), tuple(ordered), tuple(sorted(room.items())))


def misfits(demands: NodeDemands, node: OfferedNode) -> tuple[Misfit, ...]:
    """Why no pod of the template fits on the node. Of several affinity terms, only the closest one is reported."""
    if demands is NO_DEMANDS:
        return ()
    labels = dict(node.labels)
    of_terms = [_unmet(term, labels) for term in demands.terms]
    unmet = [*_unmet(demands.every, labels), *min(of_terms, key=len, default=())]
    taints = [
        UntoleratedTaint(taint)
        for taint in node.taints
        if not (passes(taint) or any(each.tolerates(taint) for each in demands.tolerations))
    ]
    room = dict(node.room)
    lacking = [
        LackingRoom(resource, asked, room.get(resource, 0))
        for resource, asked in demands.asks
        if asked > room.get(resource, asked if resource in _EVERYWHERE else 0)
    ]
    other = [] if node.resource == demands.resource else [OtherResource(demands.resource, node.resource)]
    return (*other, *unmet, *taints, *lacking)


def _unmet(term: Term, labels: Mapping[str, tuple[str, ...]]) -> list[UnmetLabel]:
    return [
        UnmetLabel(requirement, labels.get(requirement.key, ()))
        for requirement in term
        if not requirement.met_by(labels.get(requirement.key, ()))
    ]


def pods_beside_each_other(demands: NodeDemands, node: OfferedNode) -> int | None:
    """How many pods of the template fit on a node, GPUs aside; None if no known resource limits them."""
    room = dict(node.room)
    counts = [room[resource] // asked for resource, asked in demands.asks if asked and resource in room]
    return min(counts, default=None)


def preference(demands: NodeDemands, node: OfferedNode) -> int:
    """The sum of the weights of the preferred terms that the node meets. More is better."""
    labels = dict(node.labels)
    return sum([weight for weight, term in demands.preferred if not _unmet(term, labels)])


PodLimits: TypeAlias = frozenset[tuple[PoolId, int]]
"""By pool, the maximum number of pods of a job on one node. In a pool without an entry, only GPUs limit the number of
pods."""
NO_LIMITS: PodLimits = frozenset()


class NodeOffers:
    """The possible nodes of all pools. The limits for each pair of demands and GPUs per pod are cached."""

    def __init__(self, nodes: Mapping[PoolId, OfferedNode]) -> None:
        self.nodes = nodes
        self._limits: dict[tuple[NodeDemands, int], PodLimits] = {}

    def limits(self, demands: NodeDemands, each: int) -> PodLimits:
        """The pools whose nodes take fewer pods than their GPUs allow, with that number of pods (0 for none).

        ``each``: GPUs of a pod; 0 if a pod gets all GPUs that its job has on a node, which is at least 1 GPU.
        """
        known = self._limits.get((demands, each))
        if known is None:
            known = frozenset(
                [
                    (name, limit)
                    for name, node in self.nodes.items()
                    if (limit := _limit(demands, each, node)) is not None
                ]
            )
            self._limits[demands, each] = known
        return known


NO_OFFERS = NodeOffers({})
"""The offers of no pool, which rule out nothing."""


def node_offers(nodes: Mapping[PoolId, OfferedNode | None]) -> NodeOffers:
    """The offers of the pools whose nodes are known."""
    return NodeOffers({name: node for name, node in nodes.items() if node is not None})


def _limit(demands: NodeDemands, each: int, node: OfferedNode) -> int | None:
    if misfits(demands, node):
        return 0
    room = pods_beside_each_other(demands, node)
    return room if room is not None and room < node.gpus // max(each, 1) else None


# Labels with the location of a node.


def place_labels(zones: Sequence[str], region: str, *zone_keys: str) -> Mapping[str, tuple[str, ...]]:
    """The location labels that Kubernetes' cloud controllers set, with their possible values.

    ``region``: empty if unknown. ``zone_keys``: further keys of labels with the zone, such as label keys that volumes
    require.
    """
    of_zone = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", *zone_keys)
    of_region = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
    return {**dict.fromkeys(of_zone, tuple(zones)), **dict.fromkeys(of_region if region else (), (region,))}
