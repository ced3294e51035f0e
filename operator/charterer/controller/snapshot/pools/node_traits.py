"""What the nodes of a pool show the scheduler, as far as all that are there show the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from charterer.api.decode import DecodedJob
from charterer.api.decode.unscheduled import lacking, refused_by_own_nodes
from charterer.cluster.store import ObjectKey
from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome
from charterer.domain.nodes.demands import Amounts, NodeTraits, passes
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant, seconds_between

_SETTLED_SECONDS = 120.0
"""Seconds after a node is ready until which device plugins and feature discovery may still be starting there."""


def shown_by(node: Node) -> tuple[NodeName, NodeTraits] | None:
    """The name of a node that is ready, and what it shows; None for any other."""
    return (node.name, node.traits) if node.ready and not node.deleting else None


def refused_nodes(jobs: Mapping[ObjectKey, DecodedJob]) -> Mapping[RentalId, Amounts]:
    """The nodes of runs that never started because the scheduler put their pods on none of them.

    With what a node that no other job uses has less of than the run's pods asked there: one less than that. Pods of
    the system use some of what a node has.
    """
    never_started = [
        (decoded.job, record)
        for decoded in jobs.values()
        if decoded.job.start_failures
        for record in decoded.job.records
        if record.outcome is RunOutcome.NOT_STARTED and refused_by_own_nodes(record.message)
    ]
    if not never_started:
        return {}
    users = Counter([rental for decoded in jobs.values() for rental in _used(decoded.job)])
    found: dict[RentalId, Amounts] = {}
    for job, record in never_started:
        asks, pods = dict(job.demands.asks), Counter([place.rental for place in record.placements])
        short = [name for name in lacking(record.message) if name in asks]
        for rental, count in pods.items():
            alone = users[rental] == 1
            found[rental] = tuple([(name, asks[name] * count - 1) for name in short]) if alone else ()
    return found


def _used(job: Job) -> frozenset[RentalId]:
    """The nodes that the job was ever given, as far as its record goes back."""
    given = [record.placements for record in job.records]
    given += [allocation.placements for allocation in (job.allocation, *job.replaced) if allocation is not None]
    return frozenset([place.rental for places in given for place in places])


def seen_traits(
    shown: Mapping[ObjectKey, tuple[NodeName, NodeTraits] | None],
    rentals: Mapping[ObjectKey, Rental],
    refused: Mapping[RentalId, Amounts],
    minute: int,
) -> Mapping[PoolId, NodeTraits]:
    """By pool, what all of its nodes show that have had time to show all, or to which the scheduler put no pod.

    ``minute``: the time, in minutes. Pools without such a node are not in it.
    """
    by_name = dict(entry for entry in shown.values() if entry is not None)
    found: dict[PoolId, dict[NodeTraits, None]] = defaultdict(dict)
    for rental in rentals.values():
        if rental.node is None or rental.ready is None or rental.node not in by_name:
            continue
        age = seconds_between(rental.ready, Instant(minute * 60_000_000))
        if rental.phase is not RentalPhase.ENDED and (age >= _SETTLED_SECONDS or rental.id in refused):
            found[rental.pool][_at_most(by_name[rental.node], refused.get(rental.id, ()))] = None
    return {pool: _common(list(traits)) for pool, traits in found.items()}


def _at_most(traits: NodeTraits, limits: Amounts) -> NodeTraits:
    """The traits, with no more of each resource than its limit."""
    if not limits:
        return traits
    room = dict(traits.room)
    room |= {name: min(limit, room.get(name, limit)) for name, limit in limits}
    return replace(traits, room=tuple(sorted(room.items())))


def _common(of_nodes: Sequence[NodeTraits]) -> NodeTraits:
    """What they have in common: labels with one value, every taint that stays, the least of each resource."""
    labels = set.intersection(*[set(traits.labels) for traits in of_nodes])
    taints = dict.fromkeys([taint for traits in of_nodes for taint in traits.taints if not passes(taint)])
    rooms = [dict(traits.room) for traits in of_nodes]
    names = set.intersection(*[set(room) for room in rooms])
    room = {name: min(room[name] for room in rooms) for name in names}
    ordered = sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))
    return NodeTraits(tuple(sorted(labels)), tuple(ordered), tuple(sorted(room.items())))
