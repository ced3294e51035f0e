"""What the nodes of a pool show the scheduler, as far as all that are there show the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.job import RunOutcome
from charterer.domain.nodes.demands import NodeTraits, passes
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant, seconds_between

_SETTLED_SECONDS = 120.0
"""Seconds after a node is ready until which device plugins and feature discovery may still be starting there."""
_SCHEDULER_SAID = "nodes are available"
"""Words of the scheduler about a pod that it can put on no node."""


def shown_by(node: Node) -> tuple[NodeName, NodeTraits] | None:
    """The name of a node that is ready, and what it shows; None for any other."""
    return (node.name, node.traits) if node.ready and not node.deleting else None


def refused_nodes(jobs: Mapping[ObjectKey, DecodedJob]) -> frozenset[RentalId]:
    """The nodes of runs that never started because the scheduler put their pods on none of them."""
    return frozenset(
        [
            place.rental
            for decoded in jobs.values()
            if decoded.job.start_failures
            for record in decoded.job.records
            if record.outcome is RunOutcome.NOT_STARTED and _SCHEDULER_SAID in record.message
            for place in record.placements
        ]
    )


def seen_traits(
    shown: Mapping[ObjectKey, tuple[NodeName, NodeTraits] | None],
    rentals: Mapping[ObjectKey, Rental],
    refused: frozenset[RentalId],
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
            found[rental.pool][by_name[rental.node]] = None
    return {pool: _common(list(traits)) for pool, traits in found.items()}


def _common(of_nodes: Sequence[NodeTraits]) -> NodeTraits:
    """What they have in common: labels with one value, every taint that stays, the least of each resource."""
    labels = set.intersection(*[set(traits.labels) for traits in of_nodes])
    taints = dict.fromkeys([taint for traits in of_nodes for taint in traits.taints if not passes(taint)])
    rooms = [dict(traits.room) for traits in of_nodes]
    names = set.intersection(*[set(room) for room in rooms])
    room = {name: min(room[name] for room in rooms) for name in names}
    ordered = sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))
    return NodeTraits(tuple(sorted(labels)), tuple(ordered), tuple(sorted(room.items())))
