"""Notices that stand on Nodes: whatever the cloud, a machine goes away when its Node says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from charterer.cluster.store import ObjectKey
from charterer.domain.ids import PoolId
from charterer.domain.pool import Notice, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node
from charterer.lifecycle.view import NodeIndex, rivals_of


def node_notices(
    nodes: Mapping[ObjectKey, Node], rentals: Mapping[ObjectKey, Rental]
) -> Mapping[PoolId, tuple[Notice, ...]]:
    """The notices of each pool's rented machines whose Nodes leave, or have broken GPUs."""
    leaving = {node.name: node for node in nodes.values() if node.departure is not None}
    if not leaving:
        return {}
    index = NodeIndex.of({node.name: node for node in nodes.values()}, rivals_of(rentals))
    found: dict[PoolId, list[Notice]] = defaultdict(list)
    for rental in rentals.values():
        node = None if rental.instance is None else index.of_rental(rental)
        if node is not None and node.departure is not None and rental.instance is not None:
            told, why = node.departure, f"{node.departure.why} on Node {node.name}"
            found[rental.pool].append(Notice(rental.instance, None, told.certain, why, told.broken))
    return {pool: tuple(notices) for pool, notices in found.items()}


def with_notices(survey: Survey, more: Iterable[Notice]) -> Survey:
    """The survey with notices that the cloud itself does not give; what the cloud says of a machine goes first."""
    told = {notice.instance for notice in survey.notices if notice.certain}
    new = tuple(notice for notice in more if notice.instance not in told)
    return replace(survey, notices=(*survey.notices, *new)) if new else survey
