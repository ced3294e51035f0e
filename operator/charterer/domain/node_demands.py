"""What a pod asks of its node, what the nodes of a pool show, and whether the scheduler would put the pod there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from charterer.domain.ids import PoolId
from charterer.domain.option import GPU

# What a pod asks of its node, what the nodes of a pool show, and whether the scheduler would put the one on the
# other.
#
# The rules are those of Kubernetes' plugins NodeAffinity, TaintToleration and NodeResourcesFit
# (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). They decide only which pools are asked
# for nodes: where a pod runs, the scheduler decides.


TaintEffect: TypeAlias = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Resources by name, each in thousandths: of a processor, a byte or a device."""
NODE_NAME = "metadata.name"
"""The key of a requirement on the node's name, which no selector can have: labels have no such key."""


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of a node."""

    key: str
    value: str
    effect: TaintEffect

    @property
    def text(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """What a node shows to the scheduler: labels, taints, and what it has for pods beside GPUs (``room``).

    Of a pool's nodes: what all of them show.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[NodeTaint, ...] = ()
    room: Amounts = ()


NO_TRAITS = NodeTraits()


class OfferedNode(NamedTuple):
    """A node that a pool would give, as far as it is known before it comes. ``labels``: the values that each may have.

    ``gpus``: its GPUs or slices; ``resource``: the extended resource of whole ones. A label, or a resource that not
    every node has, that is not named is taken to be missing: nobody has said that its nodes have it.
    """

    labels: tuple[tuple[str, tuple[str, ...]], ...]
    taints: tuple[NodeTaint, ...]
    room: Amounts
    gpus: int
    resource: str = GPU


class Requirement(NamedTuple):
    """A requirement on a label of the node. ``operator``: In, NotIn, Exists, DoesNotExist, Gt or Lt.

    ``volume``: the PersistentVolumeClaim or StorageClass that asks for it; empty: the template itself does.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    volume: str = ""

    @property
    def text(self) -> str:
        """The requirement in a line, as ``kubectl -l`` writes it where it can."""
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
        """Whether a node meets it that has one of these values of the label, whichever it is; none: it lacks it."""
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
    """A toleration. Empty ``key`` and ``effect``: of all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """Whether the taint keeps no pod off that has this toleration."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator == "Equal" and self.value == taint.value


Term: TypeAlias = tuple[Requirement, ...]
"""Requirements that must all be met."""
AnyOf: TypeAlias = tuple[Term, ...]
"""Terms of which one must be met; empty: none is asked."""


@dataclass(frozen=True)
class NodeDemands:
    """What a pod template asks of the node of each of its pods.

    ``every``: requirements that hold whatever else does (nodeSelector); ``terms``: of which one must be met (required
    node affinity); empty: none is asked. ``preferred``: terms with their weights. ``asks``: resources of a pod beside
    GPUs. ``unread``: fields that only the scheduler judges, such as pod affinity. ``claims``: names of the
    PersistentVolumeClaims of its volumes; ``classes``: of the StorageClasses of those that are made with a pod.
    ``resource``: the extended resource of its GPUs.
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
        """Computed once: plans look demands up again and again."""
        return self._hash

    def also(self, terms: AnyOf) -> NodeDemands:
        """The demands with one of these terms met beside them, as a volume asks that is in some zones only."""
        both = tuple([(*own, *other) for own in self.terms or ((),) for other in terms])
        return replace(self, terms=both)


NO_DEMANDS = NodeDemands()
"""Those of a template of which nothing is known: no node is refused for it."""


@dataclass(frozen=True, slots=True)
class UnmetLabel:
    """A requirement that a pool's nodes do not meet. ``there``: the values of the label that they may have."""

    requirement: Requirement
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UntoleratedTaint:
    """A taint that the template does not tolerate."""

    taint: NodeTaint


@dataclass(frozen=True, slots=True)
class LackingRoom:
    """A pod asks for more of a resource than a node has. Both in thousandths; ``there``: 0 where it has none."""

    resource: str
    asked: int
    there: int


@dataclass(frozen=True, slots=True)
class OtherResource:
    """The GPUs of a pool's nodes are of another extended resource than those that the template asks for."""

    asked: str
    there: str


Misfit: TypeAlias = OtherResource | UnmetLabel | UntoleratedTaint | LackingRoom
"""Why the scheduler would not put a pod on a pool's nodes."""

_EVERYWHERE = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that every node has: where nobody knows how much, a pod may come and the scheduler decides."""
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/", "karpenter.sh/")
"""Beginnings of taints that come and go with a node's state."""


def passes(taint: NodeTaint) -> bool:
    """Whether the taint comes and goes with the node's state, or only asks the scheduler to look elsewhere first."""
    return taint.effect == "PreferNoSchedule" or taint.key.startswith(_PASSING)


def shown_by_all(of_nodes: Sequence[NodeTraits]) -> NodeTraits:
    """What several nodes show in common: labels that all have, every taint that stays, the least of each resource."""
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
    """Why not even one pod of the template fits; of the affinity terms only the one that lacks least is told."""
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
    """How many pods of the template a node has room for, its GPUs aside; None: as many as there may be."""
    room = dict(node.room)
    counts = [room[resource] // asked for resource, asked in demands.asks if asked and resource in room]
    return min(counts, default=None)


def preference(demands: NodeDemands, node: OfferedNode) -> int:
    """The weights of the preferred terms that the node meets, added up: the more the better."""
    labels = dict(node.labels)
    return sum([weight for weight, term in demands.preferred if not _unmet(term, labels)])


PodLimits: TypeAlias = frozenset[tuple[PoolId, int]]
"""By pool, the most pods of a job on one of its nodes; pools without an entry take as many as they have GPUs for."""
NO_LIMITS: PodLimits = frozenset()


class NodeOffers:
    """What the nodes of all pools would be, with the answers that were looked up once for each kind of demands."""

    def __init__(self, nodes: Mapping[PoolId, OfferedNode]) -> None:
        self.nodes = nodes
        self._limits: dict[tuple[NodeDemands, int], PodLimits] = {}

    def limits(self, demands: NodeDemands, each: int) -> PodLimits:
        """The pools whose nodes take fewer pods of ``each`` GPUs than their GPUs are enough for, and how many.

        0 where they take none. ``each``: 0 where a pod has all GPUs that its job has of a node: then 1 GPU or more.
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
"""No pool's, so that nothing is refused."""


def node_offers(nodes: Mapping[PoolId, OfferedNode | None]) -> NodeOffers:
    """The offers of the pools whose nodes are known."""
    return NodeOffers({name: node for name, node in nodes.items() if node is not None})


def _limit(demands: NodeDemands, each: int, node: OfferedNode) -> int | None:
    if misfits(demands, node):
        return 0
    room = pods_beside_each_other(demands, node)
    return room if room is not None and room < node.gpus // max(each, 1) else None


# The labels that say where a node is.


def place_labels(zones: Sequence[str], region: str, *zone_keys: str) -> Mapping[str, tuple[str, ...]]:
    """Those that Kubernetes' cloud controllers give, with the values that a node may have.

    ``region``: empty where it is not known. ``zone_keys``: further labels that have the zone, such as those by which
    volumes ask for theirs.
    """
    of_zone = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", *zone_keys)
    of_region = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
    return {**dict.fromkeys(of_zone, tuple(zones)), **dict.fromkeys(of_region if region else (), (region,))}
