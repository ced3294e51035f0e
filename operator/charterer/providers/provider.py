"""The interface that every cloud's adapter has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import Pool, Quote, Survey
from charterer.domain.time import Instant
from charterer.providers.errors import ProviderError


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
