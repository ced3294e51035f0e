"""Whether an operator leads, judged from its Lease without trusting the clocks of two machines to agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from charterer.api.manifests import from_annotations
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.lease import LeaseTimes
from charterer.cluster.paths import LEASES
from charterer.controller.snapshot.cluster_state import ClusterState, stopped_in
from charterer.controller.status.conditions import stop_in_words
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Stop
from charterer.domain.time import Instant, parse_instant, seconds_between

LEASE: Final = "charterer"
MAY_LEAD_SECONDS: Final = LeaseTimes().renew_deadline
"""Age of a Lease up to which its holder may lead: it stops by itself when it could not renew it for so long."""
_SECOND_LOOK_SECONDS: Final = 7.0
"""Seconds until a Lease that seems old is read again; a leader renews it meanwhile, whatever its clock says."""


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """The operator that leads, or last led. ``trouble``: why nobody acts; empty while somebody leads.

    ``holder``, the pod that leads, and ``namespace`` are empty where there is no Lease. ``limits``: its own.
    """

    holder: str = ""
    namespace: str = ""
    trouble: str = ""
    limits: OperatorLimits = NO_LIMITS


async def find_leader(
    client: Client, now: Callable[[], Instant], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> LeaderSeen:
    """Read the operator's Lease, a second time where it seems old. An operator that died less than
    ``MAY_LEAD_SECONDS`` ago is still taken for the leader. Raises ApiError; ClickException for a Lease on which
    somebody else has written other limits."""
    lease = await _latest_lease(client)
    if lease is None:
        return LeaderSeen(trouble="no operator has ever run here (there is no Lease charterer): nobody acts on this")
    spec = lease.get("spec") or {}
    namespace = lease["metadata"]["namespace"]
    where = f"the operator's Lease in namespace {namespace}"
    leader = LeaderSeen((spec.get("holderIdentity") or "").partition("_")[0], namespace, limits=_limits(lease, where))
    if not leader.holder:
        return replace(leader, trouble=f"{where} was given up: nobody acts on this")
    age = _age(spec, now())
    if age is not None and abs(age) <= MAY_LEAD_SECONDS:
        return leader
    await sleep(_SECOND_LOOK_SECONDS)
    again = await _latest_lease(client)
    if again is not None and again["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
        return leader
    old = f"is {age:.0f} s old" if age is not None and age > 0 else f"was not renewed for {_SECOND_LOOK_SECONDS:.0f} s"
    return replace(leader, trouble=f"{where} {old}: nobody acts on this")


def stopped_until_resumed(stop: Stop | None) -> str:
    """A sentence that a person has stopped the operator; empty where nobody has."""
    return "" if stop is None else f"a person has stopped the operator: {stop_in_words(stop)} until `charterer resume`"


async def leader_if_known(client: Client, now: Callable[[], Instant]) -> LeaderSeen:
    """As ``find_leader``; nothing is known, and no trouble either, where the Lease may not be read."""
    try:
        return await find_leader(client, now)
    except ApiError:
        return LeaderSeen()


def as_operated(state: ClusterState, leader: LeaderSeen | None) -> ClusterState:
    """The state with what a person and the operator itself forbid; None where the Lease may not be read."""
    return state if leader is None else replace(stopped_in(state, leader.namespace), limits=leader.limits)


async def operator_namespace(client: Client) -> str:
    """The namespace of the operator that led last; empty where none ever did.

    Whoever may create a Lease can name it as the operator's. So where Leases of several namespaces are held, none is
    chosen. Raises ApiError; ClickException where several are held.
    """
    leases = await _leases(client)
    held = {lease["metadata"]["namespace"] for lease in leases if (lease.get("spec") or {}).get("holderIdentity")}
    if len(held) > 1:
        raise click.ClickException(
            f"operators seem to run in the namespaces {', '.join(sorted(held))}: name the one that is meant with "
            "--namespace, and delete the Lease charterer of those where none runs"
        )
    last = _latest(leases)
    return held.pop() if held else "" if last is None else str(last["metadata"]["namespace"])


async def _leases(client: Client) -> Sequence[RawObject]:
    """The Leases of that name, in whatever namespace the operator is."""
    return (await client.list(LEASES.all(), fields=f"metadata.name={LEASE}")).items


async def _latest_lease(client: Client) -> RawObject | None:
    return _latest(await _leases(client))


def _latest(leases: Sequence[RawObject]) -> RawObject | None:
    """The one that was renewed last."""
    return max(leases, key=lambda lease: (lease.get("spec") or {}).get("renewTime") or "", default=None)


def _limits(lease: RawObject, where: str) -> OperatorLimits:
    try:
        return from_annotations(lease["metadata"].get("annotations") or {})
    except ValueError as error:
        raise click.ClickException(
            f"{where}: {error}: remove it, the operator that leads writes its own within seconds"
        ) from error


def _age(spec: RawObject, now: Instant) -> float | None:
    renewed = spec.get("renewTime")
    return None if not renewed else seconds_between(parse_instant(renewed), now)
