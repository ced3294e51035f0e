"""Nodes of which nothing can be expected any more, so that their machines are ended, used or not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from charterer.domain.ids import NodeName, RentalId
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.reasons import facts_of_nodes as of
from charterer.domain.rental import Rental
from charterer.domain.snapshot import LOST_AFTER_SECONDS, Node
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.hard_limit import START_BOUND_FACTOR

_HANGING_SECONDS = 600.0
"""Seconds after the end of its grace period at which a pod is taken to hang."""
_UNRECORDED_SECONDS = 1200.0
"""Seconds after the end of a run at which its record is taken to be refused for good. A run that failed is judged once
its machines were seen healthy, for which ten minutes are allowed."""
_REGISTRATION_SECONDS = 900.0
"""Seconds within which a launched machine must be a ready Node, or it is given up; Karpenter waits as long."""


class NodeDoubt(NamedTuple):
    """Why a node is given up, or None and the instant at which it will be, if it is not well by then."""

    why: Reason | None = None
    given_up_at: Instant | None = None


WELL = NodeDoubt()


def lost(node: Node | None, rental: Rental, now: Instant) -> NodeDoubt:
    """A ready rental whose Node is gone or not ready."""
    if node is None:
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NodeDeleted(rental.node)))
    if node.lost(now):
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NodeNotReady(node.name, LOST_AFTER_SECONDS)))
    return NodeDoubt(given_up_at=node.lost_at)


def never_ready(rental: Rental, pool: Pool | None, now: Instant) -> NodeDoubt:
    """A machine that was launched and has no ready Node yet."""
    if rental.launched is None or pool is None:
        return WELL
    limit = max(_REGISTRATION_SECONDS, START_BOUND_FACTOR * pool.start_seconds)
    began = max(rental.launched, rental.created)  # the clocks of the cloud and of the cluster may differ
    if seconds_between(began, now) >= limit:
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NoReadyNode(rental.instance, limit)))
    return NodeDoubt(given_up_at=after(began, limit))


def not_recorded(facts: JobFacts, now: Instant) -> Reason | None:
    """That a run of the job ended long ago and could not be recorded."""
    overdue = [run for _, run, ended in facts.unrecorded if now >= after(ended, _UNRECORDED_SECONDS)]
    return _not_on_record(facts, overdue[0]) if overdue else None


def _not_on_record(facts: JobFacts, run: str) -> Reason:
    missing = of.NotOnRecord(f"{run} in namespace {facts.job.namespace}", _UNRECORDED_SECONDS)
    return reason(ReasonCode.NOT_RECORDED, missing)


def stuck_terminating(
    jobs: Iterable[JobFacts], rental_of: Mapping[NodeName, RentalId], staying: Container[RentalId], now: Instant
) -> list[tuple[RentalId, NodeDoubt]]:
    """The rentals with pods that were to end long ago: only the machine's end still stops them.

    And those of runs that ended long ago and could not be recorded: the pods and the Node stay for the record, and
    only the machine ends.
    """
    overdue: list[tuple[NodeName, Instant, Reason]] = []
    for facts in jobs:
        for node, pod, end in facts.terminating:
            hangs = reason(ReasonCode.LOST_NODE, of.PodHangs(pod, node, _HANGING_SECONDS))
            overdue.append((node, after(end, _HANGING_SECONDS), hangs))
        overdue += [
            (node, after(ended, _UNRECORDED_SECONDS), _not_on_record(facts, run))
            for node, run, ended in facts.unrecorded
        ]
    return [
        (rental, NodeDoubt(given_up_at=given_up) if now < given_up else NodeDoubt(why))
        for node, given_up, why in overdue
        if (rental := rental_of.get(node)) is not None and rental in staying
    ]
