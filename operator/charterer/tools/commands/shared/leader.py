"""Finds out from the Lease whether an operator leads, without assuming that the clocks of two machines agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from charterer.api.manifests import from_annotations, not_adopted_in
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
"""Maximum age in seconds of a Lease whose holder may still lead.

If an operator cannot renew its Lease for this long, it stops.
"""
_SECOND_LOOK_SECONDS: Final = 7.0
"""Seconds until an old Lease is read a second time. A running leader renews its Lease in between, even if its clock is
wrong.
"""


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """The operator that leads or led last. ``trouble`` says why no operator acts, and is empty while one leads.

    ``holder`` is the leader's pod. ``holder`` and ``namespace`` are empty if there is no Lease. ``limits`` are the
    leader's. ``not_adopted`` are the kinds of object that the leader does not adopt.
    """

    holder: str = ""
    namespace: str = ""
    trouble: str = ""
    limits: OperatorLimits = NO_LIMITS
    not_adopted: frozenset[str] = frozenset()


async def find_leader(
    client: Client, now: Callable[[], Instant], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> LeaderSeen:
    """Read the operator's Lease, and a second time if its timestamp is old.

    An operator that died less than ``MAY_LEAD_SECONDS`` ago still counts as the leader. Raises ApiError, and
    ClickException if the Lease's annotations hold invalid limits, which the operator does not write.
    """
    lease = await _latest_lease(client)
    if lease is None:
        return LeaderSeen(trouble="no operator has ever run here (there is no Lease charterer): nobody acts on this")
    spec = lease.get("spec") or {}
    namespace = lease["metadata"]["namespace"]
    where = f"the operator's Lease in namespace {namespace}"
    holder = (spec.get("holderIdentity") or "").partition("_")[0]
    annotations = lease["metadata"].get("annotations") or {}
    leader = LeaderSeen(holder, namespace, limits=_limits(annotations, where), not_adopted=not_adopted_in(annotations))
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
    """Return a sentence if a person has stopped the operator, an empty text otherwise."""
    return "" if stop is None else f"a person has stopped the operator: {stop_in_words(stop)} until `charterer resume`"


async def leader_if_known(client: Client, now: Callable[[], Instant]) -> LeaderSeen:
    """Return ``find_leader``'s answer, or an empty LeaderSeen without trouble if the Lease cannot be read."""
    try:
        return await find_leader(client, now)
    except ApiError:
        return LeaderSeen()


def as_operated(state: ClusterState, leader: LeaderSeen | None) -> ClusterState:
    """Return the state with the restrictions that the leading operator and a person have set.

    If ``leader`` is None, the state is unchanged.
    """
    if leader is None:
        return state
    return replace(stopped_in(state, leader.namespace), limits=leader.limits, not_adopted=leader.not_adopted)


async def operator_namespace(client: Client) -> str:
    """Return the namespace of the operator that led last, or an empty text if none ever led.

    Anyone who may create a Lease can imitate the operator's Lease. So if Leases of several namespaces have a holder,
    the function picks none and raises ClickException. Also raises ApiError.
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
    """List the operator's Leases of all namespaces."""
    return (await client.list(LEASES.all(), fields=f"metadata.name={LEASE}")).items


async def _latest_lease(client: Client) -> RawObject | None:
    return _latest(await _leases(client))


def _latest(leases: Sequence[RawObject]) -> RawObject | None:
    """Return the Lease that was renewed last, or None if there is none."""
    return max(leases, key=lambda lease: (lease.get("spec") or {}).get("renewTime") or "", default=None)


def _limits(annotations: Mapping[str, str], where: str) -> OperatorLimits:
    try:
        return from_annotations(annotations)
    except ValueError as error:
        raise click.ClickException(
            f"{where}: {error}: remove it, the operator that leads writes its own within seconds"
        ) from error


def _age(spec: RawObject, now: Instant) -> float | None:
    renewed = spec.get("renewTime")
    return None if not renewed else seconds_between(parse_instant(renewed), now)
