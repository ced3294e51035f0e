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

# What an object of a cloud, such as an instance group, declares about its nodes before there are any.


_MOST: Final = 64
"""Most labels, taints and resources that are read from an object. An Auto Scaling group has at most 50 tags."""
_EFFECTS: Final[Mapping[str, TaintEffect]] = {"NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}
"""Effects by which a taint keeps pods away. A taint with PreferNoSchedule keeps no pod away and is ignored."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """The declarations of a cloud's object about its nodes, as the object has them.

    ``labels``: by key. ``taints``: key and ``VALUE:EFFECT``. ``resources``: quantities by name.

    A declaration that no Node can have is ignored, because the object's owner may have written it for other programs.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[tuple[str, str]] = ()
    resources: Mapping[str, str] = field(default_factory=dict)

    def traits(self, machine: Mapping[str, str]) -> NodeTraits:
        """The traits of each node. ``machine``: the resources of the machine. Declared resources replace these."""
        labels = _first(each for each in sorted(self.labels.items()) if is_label(*each))
        resources = _first(each for each in sorted(self.resources.items()) if _is_amount(*each))
        taints = dict.fromkeys(taint for each in self.taints if (taint := _taint(*each)) is not None)
        return node_traits("", labels, islice(taints, _MOST), {**machine, **resources})


NO_TEMPLATE: Final = NodeTemplate()
"""The template of an object that declares nothing."""


def _first(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    return dict(islice(entries, _MOST))


def _is_amount(resource: str, quantity: str) -> bool:
    """Whether a Node may have that quantity of that resource."""
    try:
        thousandths(quantity)
    except ValueError:
        return False
    return is_label(resource, "")


def _taint(key: str, text: str) -> NodeTaint | None:
    """The taint. None if the text is no taint, or if the taint keeps no pod away."""
    value, _, named = text.partition(":")
    effect = _EFFECTS.get(named)
    return NodeTaint(key, value, effect) if effect is not None and is_label(key, value) else None


@dataclass(frozen=True, slots=True)
class Drained:
    """Proof that an uncached list at ``checked`` showed no live pod on ``node``. ``node`` is None if no Node ever
    appeared.

    Only the controller's check makes this proof, immediately before the instance is ended.
    """

    node: NodeName | None
    checked: Instant


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """One result of a preflight: what was checked, whether it is well, and what to do if it is not."""

    subject: str
    well: bool
    message: str


def size_finding(pool: Pool, group_size: int) -> PreflightFinding:
    """The finding on whether the pool's group may have as many nodes as the pool's spec allows.

    More nodes than the group may have are never requested.
    """
    said = f"spec.maxNodes is {pool.max_nodes}, and the group takes {group_size}"
    well = pool.max_nodes <= group_size
    return PreflightFinding("size", well, said if well else f"{said}: lower maxNodes, or raise the group's maximum")


def vcpus_finding(
    pool: Pool, quota: str, used: int, allowed: int, each: int, own: int, ask_where: str
) -> PreflightFinding:
    """The finding on whether all nodes of the pool fit into a quota of virtual CPUs.

    ``used``, ``allowed``: virtual CPUs that are used, and the quota.
    ``each``: virtual CPUs of a node.
    ``own``: number of nodes that the pool has already.
    ``ask_where``: where a higher quota can be requested.
    """
    fit = own + max(allowed - used, 0) // each
    told = f"{quota}: {used} of {allowed} vCPUs are used, a node has {each}"
    if fit >= pool.max_nodes:
        return PreflightFinding("quota", True, f"{told}, spec.maxNodes {pool.max_nodes} fits")
    wanted = used + (pool.max_nodes - own) * each
    advice = f"ask for {wanted} {ask_where} or lower spec.maxNodes {pool.max_nodes}"
    return PreflightFinding("quota", False, f"{told}, so that {fit} fit: {advice}")


Check: TypeAlias = Callable[[], Awaitable[PreflightFinding]]
"""One check of a preflight. It may raise a ProviderError."""


async def checked(subject: str, check: Check) -> PreflightFinding:
    """The finding of the check. Its error becomes a finding too."""
    try:
        return await check()
    except ProviderError as error:
        return PreflightFinding(subject, False, error.said)


KnownMachines = Mapping[PoolId, Collection[InstanceId]]
"""Ids of machines for each pool."""
NONE_KNOWN: Final[KnownMachines] = MappingProxyType({})


class Provider(Protocol):
    """One account of one cloud. Every call may raise a ProviderError.

    If a read fails, the adapter repeats it a limited number of times. A mutation is sent only once. If it is unknown
    whether the mutation took effect, CloudOutcomeUnknown is raised. The caller must then look before it repeats the
    mutation.
    """

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The cloud's answer for each pool, or the reason why it could not be asked. An error of one pool does not
        affect the others.

        ``known``: machines that are recorded as running. If the cloud still has such a machine, the answer contains it,
        even if it has lost the tags or labels by which machines are found.
        """
        ...

    async def quote(self, pool: Pool) -> Quote:
        """The cloud's price of one node. The pool's own override or adjustment is not applied."""
        ...

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Order these nodes from the cloud. The call never ends or lowers anything. If it is repeated with the same
        orders, it is the same call.

        Errors of the whole call are raised. Refusals of single orders are in the reply, or in a later survey.
        """
        ...

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Withdraw orders that are no longer wanted. None of them has an instance.

        A cloud that only counts lowers its number to ``keep``. Raises WouldTerminate if more instances than that exist.
        The method is called only if the pool's traits have ``keeps_trying``.
        """
        ...

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End that one instance without a replacement. If the instance does not exist any more, the call succeeds."""
        ...

    async def renew(self, pools: Sequence[Pool]) -> None:
        """If a renewal is due, tell the machines of these pools that the operator is alive, so that they do not end
        themselves.

        The method is called as often as a quiet pool is surveyed. If nobody renews a machine for the pool's
        ``abandonAfterSeconds``, it ends itself, whatever else has failed.
        """
        ...

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find failures and surprising costs: missing rights, wrong settings, a low quota, a wrong price."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
