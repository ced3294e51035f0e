"""The interface that every cloud's adapter has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from charterer.api.metadata import thousandths
from charterer.api.models.base import is_label
from charterer.api.node_demands import node_traits
from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.node_demands import NodeTaint, NodeTraits, TaintEffect
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import Pool, Quote, Survey
from charterer.domain.time import Instant
from charterer.providers.errors import ProviderError

# What a cloud's own object, such as an instance group, says of its nodes before one is there.


_MOST: Final = 64
"""The most labels, taints and resources that are read of an object. An Auto Scaling group has 50 tags at most."""
_EFFECTS: Final[Mapping[str, TaintEffect]] = {"NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}
"""Effects that keep pods off. A taint with PreferNoSchedule keeps none off, and is passed over."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """Labels by key, taints (key and ``VALUE:EFFECT``) and quantities of resources by name, in the object's words.

    What no Node can have is passed over: the object's owner wrote it, maybe for others.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[tuple[str, str]] = ()
    resources: Mapping[str, str] = field(default_factory=dict)

    def traits(self, machine: Mapping[str, str]) -> NodeTraits:
        """What each node shows. ``machine``: resources of its machine, of which it has no more than that."""
        labels = _first(each for each in sorted(self.labels.items()) if is_label(*each))
        resources = _first(each for each in sorted(self.resources.items()) if _is_amount(*each))
        taints = dict.fromkeys(taint for each in self.taints if (taint := _taint(*each)) is not None)
        return node_traits("", labels, islice(taints, _MOST), {**machine, **resources})


NO_TEMPLATE: Final = NodeTemplate()
"""What an object says that says nothing."""


def _first(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    return dict(islice(entries, _MOST))


def _is_amount(resource: str, quantity: str) -> bool:
    """Whether a Node may have that much of that."""
    try:
        thousandths(quantity)
    except ValueError:
        return False
    return is_label(resource, "")


def _taint(key: str, text: str) -> NodeTaint | None:
    """The taint; None where it is none, or keeps no pod off."""
    value, _, named = text.partition(":")
    effect = _EFFECTS.get(named)
    return NodeTaint(key, value, effect) if effect is not None and is_label(key, value) else None


@dataclass(frozen=True, slots=True)
class Drained:
    """Proof that an uncached look at ``checked`` found no live pod on ``node`` (None: no Node ever appeared).

    Made only by the controller's check, right before the instance is ended.
    """

    node: NodeName | None
    checked: Instant


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """One result of a preflight: what was looked at, whether it is well, and otherwise what to do."""

    subject: str
    well: bool
    message: str


def size_finding(pool: Pool, group_size: int) -> PreflightFinding:
    """Whether the pool's group takes as many nodes as its spec allows; what is too many is never asked for."""
    said = f"spec.maxNodes is {pool.max_nodes}, and the group takes {group_size}"
    well = pool.max_nodes <= group_size
    return PreflightFinding("size", well, said if well else f"{said}: lower maxNodes, or raise the group's maximum")


def vcpus_finding(
    pool: Pool, quota: str, used: int, allowed: int, each: int, own: int, ask_where: str
) -> PreflightFinding:
    """Whether all nodes of the pool fit into a quota of virtual CPUs, of which a node takes ``each``.

    ``own``: the nodes that it has already. ``ask_where``: where a higher quota is asked for.
    """
    fit = own + max(allowed - used, 0) // each
    told = f"{quota}: {used} of {allowed} vCPUs are used, a node has {each}"
    if fit >= pool.max_nodes:
        return PreflightFinding("quota", True, f"{told}, spec.maxNodes {pool.max_nodes} fits")
    wanted = used + (pool.max_nodes - own) * each
    advice = f"ask for {wanted} {ask_where} or lower spec.maxNodes {pool.max_nodes}"
    return PreflightFinding("quota", False, f"{told}, so that {fit} fit: {advice}")


Check: TypeAlias = Callable[[], Awaitable[PreflightFinding]]
"""One look of a preflight; it may raise a ProviderError."""


async def checked(subject: str, check: Check) -> PreflightFinding:
    """What the check found; its error is a finding, too."""
    try:
        return await check()
    except ProviderError as error:
        return PreflightFinding(subject, False, error.said)


KnownMachines = Mapping[PoolId, Collection[InstanceId]]
"""Ids of machines by pool."""
NONE_KNOWN: Final[KnownMachines] = MappingProxyType({})


class Provider(Protocol):
    """One account of one cloud. Every call may raise a ProviderError.

    Reads are tried again by the adapter, a bounded number of times; a mutation is sent once, and when nobody knows
    whether it took effect it raises OutcomeUnknown: look before repeating it.
    """

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The cloud's answer for each pool, or why it could not be asked: one pool's error hides no other pool.

        ``known``: machines that are on record as running. The answer has those that the cloud still has, whatever
        became of the marks by which it finds others.
        """
        ...

    async def quote(self, pool: Pool) -> Quote:
        """The cloud's price of one node; the pool's own override or adjustment is not applied."""
        ...

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Make the cloud want these orders. Never ends or lowers anything; the same orders again are the same call.

        Raises what concerns the whole call. What was refused of single orders is in the reply, or in a later survey.
        """
        ...

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Those orders are not wanted any more, and none of them has an instance.

        Clouds that only count lower what they want to ``keep``; WouldTerminate when more instances than that exist.
        Called only where the pool's traits say ``keeps_trying``.
        """
        ...

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End that one instance, and nothing takes its place; succeeds when the instance is not there any more."""
        ...

    async def renew(self, pools: Sequence[Pool]) -> None:
        """The operator lives: keep the machines of these pools from ending themselves, where it is time to.

        Called as often as a quiet pool is surveyed. What nobody renews for the pool's ``abandonAfterSeconds`` ends
        itself, whoever is down.
        """
        ...

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find what would fail or cost money by surprise: rights, settings, quota, price."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
