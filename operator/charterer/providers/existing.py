"""The adapter of nodes that are in the cluster anyway. Its "cloud" consists of the Nodes that a pool selects.

Only the GPURentals say which of these Nodes a budget holds. A request for nodes is answered with Nodes that nobody
holds. A node that is released is listed as ended, so that its GPURental ends. Nothing is written, and no Node is
changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from charterer.api import decode
from charterer.api.names import AMD_TYPE_LABEL, API_VERSION, GPU_TYPE_LABEL
from charterer.clouds.existing import ExistingNodes
from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.node_demands import shown_by_all
from charterer.domain.order import Ask, Reply, Traits
from charterer.domain.pool import (
    Instance,
    InstanceState,
    LeftOut,
    LeftOutWhy,
    Notice,
    Offering,
    Pool,
    Quote,
    Survey,
)
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Departure, Node
from charterer.domain.time import Instant, parse_instant
from charterer.gpu_types import SHARED_SUFFIX, slices_of, whole_type
from charterer.providers.errors import InvalidRequest, ProviderError
from charterer.providers.objects import Json, Objects, ObjectsError, about_pool
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding

NODES: Final = "/api/v1/nodes"
RENTALS: Final = f"/apis/{API_VERSION}/gpurentals"
POOLS: Final = f"/apis/{API_VERSION}/gpupools"

TRAITS: Final = Traits(named=True, keeps_trying=False, together=False, lag_seconds=1.0, listed_seconds=0.0)
"""The traits of nodes that are in the cluster anyway. An order that found no Node counts as under way for a second
(``lag_seconds``). Then the node is requested again.
"""
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_VALUES: Final = 16
"""Most instance types and zones that a pool's offering names."""
_TOKEN: Final = 10
"""Characters of an order's token in the id of the instance that the order got."""


class NodeGpus(NamedTuple):
    """Type and number of the whole GPUs of a node."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.number} × {self.kind}"


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A Node with its labels, and when it joined."""

    node: Node
    labels: Mapping[str, str]
    created: Instant

    @classmethod
    def of(cls, raw: Json) -> SeenNode:
        """Read a Node."""
        metadata = raw["metadata"]
        return cls(decode.node(raw), metadata.get("labels") or {}, parse_instant(metadata["creationTimestamp"]))

    @property
    def name(self) -> NodeName:
        """The Node's name."""
        return self.node.name

    def selected(self, selector: Iterable[tuple[str, str]]) -> bool:
        """Whether the Node has all these labels."""
        return all(self.labels.get(key) == value for key, value in selector)

    def gpus(self, pool: Pool) -> NodeGpus:
        """The Node's whole GPUs, however they are cut. The type is empty if no label says it."""
        named = self.labels.get(GPU_TYPE_LABEL) or self.labels.get(AMD_TYPE_LABEL) or ""
        kind, parts = whole_type(named.removesuffix(SHARED_SUFFIX)), self.node.count(pool.resource)
        if pool.partition is None:
            return NodeGpus(kind, parts)
        each = slices_of(kind or _cloud(pool).gpu_type, pool.partition.profile)
        return NodeGpus(kind, parts // each if each else 0)


@dataclass(frozen=True, slots=True)
class HeldNode:
    """A GPURental that has not ended. ``existing``: whether its node is in the cluster anyway."""

    name: str
    pool: PoolId
    existing: bool
    created: Instant
    instance: str
    node: str
    provider_id: str

    @classmethod
    def of(cls, raw: Json) -> HeldNode | None:
        """Read a GPURental, or None if it has ended."""
        spec, status, metadata = raw.get("spec") or {}, raw.get("status") or {}, raw["metadata"]
        if status.get("phase") == RentalPhase.ENDED:
            return None
        return cls(
            name=metadata["name"],
            pool=PoolId(str(spec.get("pool") or "")),
            existing="existing" in spec,
            created=parse_instant(metadata["creationTimestamp"]),
            instance=str(status.get("instance") or ""),
            node=str(status.get("node") or ""),
            provider_id=str(status.get("providerId") or ""),
        )

    @property
    def node_uid(self) -> str:
        """The uid of the Node, if it is in the cluster anyway."""
        return self.instance.partition(".")[0]


class Rival(NamedTuple):
    """Another pool of nodes that are in the cluster anyway. A Node that both pools select belongs to the older pool."""

    created: Instant
    name: str
    selector: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The GPURentals that have not ended, and the pools of nodes that are in the cluster anyway."""

    held: Sequence[HeldNode]
    rivals: Sequence[Rival]

    def before(self, pool: Pool) -> Sequence[Rival]:
        """The pools that take precedence over this pool, the first one first."""
        return sorted([rival for rival in self.rivals if (rival.created, rival.name) < (pool.created, str(pool.id))])

    def renter(self, seen: SeenNode) -> HeldNode | None:
        """The GPURental of the machine that the Node belongs to."""
        node = seen.node
        rented = (held for held in self.held if not held.existing)
        return next(
            (
                held
                for held in rented
                if (held.provider_id and held.provider_id == node.provider_id)
                or (held.node == node.name and not (held.provider_id and node.provider_id))
            ),
            None,
        )

    def may_be_rented(self, seen: SeenNode) -> bool:
        """Whether the Node may belong to a rented machine: it joined after a machine was requested whose Node is not
        known yet.
        """
        boots = (held for held in self.held if held.instance and not held.existing and not held.node)
        return any(held.created <= seen.created for held in boots)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The Nodes that a pool selects at ``at``. ``there``: the selected Nodes that have the pool's GPUs, are ready and
    are schedulable. ``gpus``: None if nobody says which GPUs the Nodes have.
    """

    at: Instant
    gpus: NodeGpus | None
    selected: Sequence[SeenNode]
    there: Sequence[SeenNode]
    left_out: Sequence[LeftOut]
    why: Mapping[str, LeftOut]
    """The Nodes that are left out, by uid."""

    @classmethod
    def of(cls, pool: Pool, nodes: Sequence[SeenNode], cluster: Cluster, at: Instant) -> Inventory:
        """Separate the Nodes that take part from the Nodes that are left out."""
        before, apart = cluster.before(pool), dict[str, LeftOut | None]()
        for seen in nodes:
            if (foreign := _not_the_pools(pool, seen, before, cluster)) is not None or cluster.may_be_rented(seen):
                apart[seen.node.uid] = foreign
        own = [seen for seen in nodes if seen.node.uid not in apart]
        gpus = _gpus(pool, [seen.gpus(pool) for seen in own])
        apart |= {seen.node.uid: out for seen in own if (out := _unfit(pool, seen, gpus)) is not None}
        why = {uid: out for uid, out in apart.items() if out is not None}
        order = list(LeftOutWhy)
        told = sorted(why.values(), key=lambda out: (order.index(out.why), out.told))
        return cls(at, gpus, nodes, [seen for seen in own if seen.node.uid not in apart], told, why)

    def offering(self) -> Offering:
        """One node of the pool, and the number of Nodes that take part."""
        gpus = NodeGpus("", 0) if self.gpus is None else self.gpus
        return Offering(
            gpu_type=gpus.kind,
            gpus_per_node=gpus.number,
            instance_type=_values(self.there, _INSTANCE_TYPE),
            zone=_values(self.there, _ZONE),
            group_size=len(self.there),
            traits=shown_by_all([seen.node.traits for seen in self.there]),
        )


def _not_the_pools(pool: Pool, seen: SeenNode, before: Sequence[Rival], cluster: Cluster) -> LeftOut | None:
    """Why the Node is not this pool's: it is rented, or an older pool selects it. None if it is this pool's."""
    labels = f"spec.existing.nodeSelector ({_cloud(pool).selected_by})"
    if (renter := cluster.renter(seen)) is not None:
        rented = f"Node {seen.name} is rented by GPUPool {renter.pool} (GPURental {renter.name})"
        return LeftOut(LeftOutWhy.RENTED, f"{rented}: give {labels} a label that rented Nodes lack")
    other = next((rival for rival in before if seen.selected(rival.selector)), None)
    if other is None:
        return None
    shared = f"Node {seen.name} is GPUPool {other.name}'s, which is older and selects it too"
    return LeftOut(LeftOutWhy.TWO_POOLS, f"{shared}: change {labels}, or the Node's labels")


def _gpus(pool: Pool, seen: Sequence[NodeGpus]) -> NodeGpus | None:
    """The GPUs of the pool's nodes. They are the declared ones, otherwise the recorded ones, otherwise those that most
    Nodes have.
    """
    cloud, offering = _cloud(pool), pool.offering
    if cloud.gpus:
        return NodeGpus(cloud.gpu_type, cloud.gpus)
    known = Counter([gpus for gpus in seen if gpus.kind and gpus.number])
    recorded = None if offering is None else NodeGpus(whole_type(offering.gpu_type), offering.machine_gpus)
    if recorded is not None and recorded.number and (recorded in known or not known):
        return recorded
    return min(known, key=lambda gpus: (-known[gpus], gpus), default=None)


def _unfit(pool: Pool, seen: SeenNode, wanted: NodeGpus | None) -> LeftOut | None:
    """Why the Node cannot be used, or None if it can."""
    node, has, cloud = seen.node, seen.gpus(pool), _cloud(pool)
    if node.departure is not None:  # first: GPUs that broke may also be missing from its number of GPUs
        return _departing(seen.name, node.departure)
    if node.ready and not node.deleting:
        if not has.kind and not cloud.gpus:
            advice = "set spec.existing.gpuType and gpusPerNode, or install GPU feature discovery"
            return LeftOut(LeftOutWhy.OTHER_GPUS, f"no label of Node {seen.name} says what GPUs it has: {advice}")
        named = has._replace(kind=has.kind or cloud.gpu_type)
        if wanted is None or named != wanted:
            others = "" if wanted is None else f", and the pool's nodes have {wanted}"
            shows = f"Node {seen.name} offers {named} ({pool.resource}){others}"
            advice = "give it a GPUPool of its own, by another label, or look at its device plugin"
            return LeftOut(LeftOutWhy.OTHER_GPUS, f"{shows}: {advice}")
    if node.deleting or not node.ready:
        return LeftOut(LeftOutWhy.NOT_READY, f"Node {seen.name} is {'being deleted' if node.deleting else 'not ready'}")
    if node.unschedulable:
        return LeftOut(LeftOutWhy.CORDONED, f"Node {seen.name} is cordoned: kubectl uncordon {seen.name}")
    return None


def _departing(name: NodeName, said: Departure) -> LeftOut:
    """Why a Node takes no part of which another program says that it goes away, or that its GPUs are broken."""
    are = "are" if said.certain else "may be"
    if said.broken:
        advice = "it takes part again once the condition is gone"
        return LeftOut(LeftOutWhy.BROKEN_GPUS, f"GPUs of Node {name} {are} broken ({said.why}): {advice}")
    goes = "goes" if said.certain else "may go"
    advice = "it takes part again once that is gone"
    return LeftOut(LeftOutWhy.GOES_AWAY, f"Node {name} {goes} away ({said.why}): {advice}")


class ExistingCloud:
    """A Provider for all pools of nodes that are in the cluster anyway."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._given_back: set[str] = set()
        """Instances that were released and whose GPURentals have not ended yet. A new process gets the release
        again.
        """

    # --- reading ------------------------------------------------------------------------------------------------------

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The Nodes that GPURentals hold, and the number of Nodes that take part."""
        try:
            cluster = await self._cluster()
        except ObjectsError as error:
            return {pool.id: about_pool(pool.id, error, {}) for pool in pools}
        self._given_back &= {held.instance for held in cluster.held}
        answers = await asyncio.gather(*(self._answer(pool, cluster) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def _answer(self, pool: Pool, cluster: Cluster) -> Survey | ProviderError:
        try:
            return await self._survey(pool, cluster)
        except ProviderError as error:
            return error
        except ObjectsError as error:
            return about_pool(pool.id, error, {})

    async def _survey(self, pool: Pool, cluster: Cluster) -> Survey:
        inventory = await self._inventory(pool, cluster)
        own = [held for held in cluster.held if held.existing and held.pool == pool.id and held.instance]
        if inventory.gpus is None and not own and not pool.deleting:
            raise InvalidRequest(pool.id, "survey", "NoNode", _why_none(pool, inventory))
        found = [await self._found(held, inventory) for held in own]
        return Survey(
            pool=pool.id,
            target=None,
            ordered=frozenset(),
            instances=tuple([instance for instance, _ in found]),
            refusals=(),
            notices=tuple([notice for _, notice in found if notice is not None]),
            asked=inventory.at,
            traits=TRAITS,
            offering=inventory.offering(),
            left_out=tuple(inventory.left_out),
        )

    async def _found(self, held: HeldNode, inventory: Inventory) -> tuple[Instance, Notice | None]:
        """The instance that a GPURental holds, and a notice if nothing new may begin on it."""
        node = next((seen.node for seen in inventory.selected if seen.node.uid == held.node_uid), None)
        told = None if node is None else inventory.why.get(node.uid)
        why = "" if told is None else told.told
        if node is None and held.node and (raw := await self._objects.get(f"{NODES}/{held.node}")) is not None:
            node = decode.node(raw) if raw["metadata"]["uid"] == held.node_uid else None
            why = f"Node {held.node} has not all labels of spec.existing.nodeSelector any more"
        instance = InstanceId(held.instance)
        ended = node is None or held.instance in self._given_back
        state = InstanceState.ENDED if ended else InstanceState.RUNNING
        name = None if node is None else node.name
        at = max(inventory.at, held.created) if ended else None
        machine = Instance(instance, state, "", name, held.created, at, (), 0)
        return machine, Notice(instance, None, certain=False, why=why) if why and not ended else None

    async def quote(self, pool: Pool) -> Quote:
        """The price of a node an hour as the pool's owner declares it, or zero if the owner declares none."""
        price, now = pool.price_override or Price(0), Instant(time.time_ns() // 1_000)
        source = "nodes that are there anyway" if pool.costs_nothing else "spec.price.hourly"
        return Quote(price, price, 0, source, now)

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Whether there are Nodes that take part."""
        (answer,) = (await self.survey([pool])).values()
        if isinstance(answer, ProviderError):
            return [PreflightFinding("Nodes", False, answer.said)]
        there = answer.offering.group_size or 0
        told = "; ".join(out.told for out in answer.left_out)
        said = f"{there} with {_cloud(pool).selected_by} take part{'; ' if told else ''}{told}"
        return [PreflightFinding("Nodes", there > 0, said)]

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Do nothing, because these nodes do not end themselves."""

    # --- changing: what is in the answers -----------------------------------------------------------------------------

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Name for each order a Node that nobody holds, as far as there are such Nodes."""
        try:
            cluster = await self._cluster()
            inventory = await self._inventory(pool, cluster)
        except ObjectsError as error:
            raise about_pool(pool.id, error, {}) from error
        held = {each.node_uid for each in cluster.held if each.existing}
        free = [seen.node.uid for seen in inventory.there if seen.node.uid not in held]
        return Reply({order.token: _instance(uid, order.token) for order, uid in zip(ask.orders, free, strict=False)})

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Do nothing, because no order is stored."""

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """Release the node: from now on it is listed as ended."""
        self._given_back.add(instance)

    async def close(self) -> None:
        """Do nothing, because nothing is open."""

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def _cluster(self) -> Cluster:
        rentals, pools = await asyncio.gather(self._objects.list(RENTALS), self._objects.list(POOLS))
        held = [each for raw in rentals.items if (each := HeldNode.of(raw)) is not None]
        return Cluster(held, [rival for raw in pools.items if (rival := _rival(raw)) is not None])

    async def _inventory(self, pool: Pool, cluster: Cluster) -> Inventory:
        listed = await self._objects.list(NODES, labels=_cloud(pool).selected_by)
        nodes = sorted([SeenNode.of(raw) for raw in listed.items], key=lambda seen: seen.name)
        return Inventory.of(pool, nodes, cluster, listed.at)


def _rival(raw: Json) -> Rival | None:
    metadata, own = raw["metadata"], (raw.get("spec") or {}).get("existing")
    if own is None:
        return None
    return Rival(parse_instant(metadata["creationTimestamp"]), metadata["name"], tuple(own["nodeSelector"].items()))


def _instance(uid: str, token: OrderToken) -> InstanceId:
    """The id of the instance that an order got: the Node's uid and a part of the order's token, so that no id is used
    twice.
    """
    return InstanceId(f"{uid}.{token[:_TOKEN]}")


def _why_none(pool: Pool, inventory: Inventory) -> str:
    if inventory.left_out:
        return "; ".join(out.told for out in inventory.left_out)
    labels = _cloud(pool).selected_by
    return f"spec.existing.nodeSelector ({labels}) selects no Node: label Nodes so, or make the pool anew with others"


def _values(nodes: Sequence[SeenNode], label: str) -> str:
    return ",".join(sorted({value for seen in nodes if (value := seen.labels.get(label))})[:_VALUES])


def _cloud(pool: Pool) -> ExistingNodes:
    if not isinstance(pool.cloud, ExistingNodes):
        raise TypeError(f"the nodes of GPUPool {pool.id} are not there anyway: {pool.cloud}")
    return pool.cloud
