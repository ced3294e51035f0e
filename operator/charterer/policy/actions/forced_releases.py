"""Rentals that must end now, used or not: because of a stop, a deleted budget or pool, a lost node, or a limit."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from charterer.domain.budget import Mode
from charterer.domain.budget_tree import BudgetTree
from charterer.domain.ids import BudgetId, NodeName, RentalId
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.reasons import nodes as of
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import LOST_AFTER_SECONDS, Node, Stop
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import JobFacts, reason
from charterer.policy.nodes.limits import START_BOUND_FACTOR, Purse
from charterer.policy.outlook.placer import Placer

# Nodes that will probably never work again. The machines of such nodes are ended, whether used or not.


_HANGING_SECONDS = 600.0
"""Seconds after the end of its grace period at which a pod is considered stuck."""
_UNRECORDED_SECONDS = 1200.0
"""Seconds after a run's end at which its record is considered refused for good. The verdict on a failed run waits until
its machines were seen healthy, which may take ten minutes."""
_REGISTRATION_SECONDS = 900.0
"""Seconds within which a launched machine must become a ready Node before it is given up, as in Karpenter."""


class NodeDoubt(NamedTuple):
    """``why``: why a node is given up now; None if it is not. ``given_up_at``: when the node will be given up if
    nothing changes."""

    why: Reason | None = None
    given_up_at: Instant | None = None


WELL = NodeDoubt()


def lost(node: Node | None, rental: Rental, now: Instant) -> NodeDoubt:
    """The doubt about a ready rental whose Node is deleted or not ready."""
    if node is None:
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NodeDeleted(rental.node)))
    if node.lost(now):
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NodeNotReady(node.name, LOST_AFTER_SECONDS)))
    return NodeDoubt(given_up_at=node.lost_at)


def never_ready(rental: Rental, pool: Pool | None, now: Instant) -> NodeDoubt:
    """The doubt about a launched machine that has no ready Node yet."""
    if rental.launched is None or pool is None:
        return WELL
    limit = max(_REGISTRATION_SECONDS, START_BOUND_FACTOR * pool.start_seconds)
    began = max(rental.launched, rental.created)  # The clocks of the cloud and of the cluster may differ.
    if seconds_between(began, now) >= limit:
        return NodeDoubt(reason(ReasonCode.LOST_NODE, of.NoReadyNode(rental.instance, limit)))
    return NodeDoubt(given_up_at=after(began, limit))


def not_recorded(facts: JobFacts, now: Instant) -> Reason | None:
    """The reason that a run of the job ended long ago and could not be recorded; None without such a run."""
    overdue = [run for _, run, ended in facts.unrecorded if now >= after(ended, _UNRECORDED_SECONDS)]
    return _not_on_record(facts, overdue[0]) if overdue else None


def _not_on_record(facts: JobFacts, run: str) -> Reason:
    missing = of.NotOnRecord(f"{run} in namespace {facts.job.namespace}", _UNRECORDED_SECONDS)
    return reason(ReasonCode.NOT_RECORDED, missing)


def stuck_terminating(
    jobs: Iterable[JobFacts], rental_of: Mapping[NodeName, RentalId], staying: Container[RentalId], now: Instant
) -> list[tuple[RentalId, NodeDoubt]]:
    """The doubts about rentals with pods that should have ended long ago. Only the end of the machine stops such
    pods.

    The doubts include rentals of runs that ended long ago and could not be recorded. Their pods and Nodes stay for the
    record, and only the machine ends.
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


class ForcedReleases:
    """The rentals of one budget that must end now (``ending``, with reasons), and the times at which other rentals
    must end (``again_at``)."""

    def __init__(self, solution: BudgetSolution, placer: Placer) -> None:
        self.again_at: list[Instant] = []
        self.solution = solution
        self.placer = placer
        self._snapshot = solution.inputs.snapshot
        self.ending: dict[RentalId, Reason] = self._draining_too_long() | self._of_staying()

    @property
    def staying(self) -> Sequence[Rental]:
        """The budget's rentals without an earlier decision to end them."""
        return [rental for nodes in self.solution.nodes.values() for rental in nodes.rentals.staying.values()]

    @property
    def leaving(self) -> Sequence[RentalId]:
        """The budget's rentals that drain or must end now."""
        return [*self._draining, *self.ending]

    @property
    def _draining(self) -> Sequence[RentalId]:
        return [
            rental.id
            for nodes in self.solution.nodes.values()
            for rental in nodes.rentals.live
            if rental.id not in nodes.rentals.staying
        ]

    def _draining_too_long(self) -> dict[RentalId, Reason]:
        """Draining rentals that now also end because of the hard limit or the end of a grant.

        These rentals were released for another reason, so other owners' pods could keep them for an hour.
        """
        why = self.placer.must_release
        if why is None:
            return {}
        return {
            rental.id: reason(ReasonCode.HARD_LIMIT, why)
            for nodes in self.solution.nodes.values()
            for rental in nodes.rentals.live
            if rental.phase is RentalPhase.DRAINING and rental.released_because != ReasonCode.HARD_LIMIT
        }

    def _of_staying(self) -> dict[RentalId, Reason]:
        why_all = self._why_all()
        if why_all is not None:
            return {rental.id: why_all for rental in self.staying}
        ending = self._by_pool()
        terminating = [facts for group in self.solution.groups.values() for facts in group.terminating]
        if terminating:
            rental_of, names = self.solution.inputs.rentals.rental_of, {rental.id for rental in self.staying}
            ending |= self._given_up(stuck_terminating(terminating, rental_of, names, self._snapshot.now))
        ending |= self._slow(ending)
        ending |= self._refusing(ending)
        return ending | self._over_hourly_limit(ending)

    def _slow(self, ending: Container[RentalId]) -> dict[RentalId, Reason]:
        """Unused nodes that slowed a run down. Such nodes would slow the next run as well."""
        used, slow = self.placer.capacity.used, self._snapshot.slow_nodes
        why, staying = reason(ReasonCode.SLOW_NODE, of.HeldUp()), self.staying if slow else ()
        idle = [rental.id for rental in staying if rental.id in slow and not used.get(rental.id, 0)]
        return {rental: why for rental in idle if rental not in ending}

    def _refusing(self, ending: Container[RentalId]) -> dict[RentalId, Reason]:
        """Unused nodes that refused a pod. Nodes in use by another job stay, but take no new job."""
        used, refusing = self.placer.capacity.used, self.solution.inputs.refusing
        staying = {rental.id for rental in self.staying} if refusing else ()
        return {
            rental: reason(ReasonCode.POD_REFUSED, of.RefusedPod(node.name, node.refused))
            for rental, node in refusing.items()
            if rental in staying and rental not in ending and not used.get(rental, 0)
        }

    def _why_all(self) -> Reason | None:
        """Why all of the budget's rentals end; None if they need not."""
        budget = self.solution.budget
        if self._snapshot.stop is Stop.DRAIN:
            return reason(ReasonCode.STOPPED, of.NodesDrained())
        if budget.deleting:
            return reason(ReasonCode.BUDGET_DELETED, of.BudgetGoes(budget.id))
        why = self.placer.must_release
        return None if why is None else reason(ReasonCode.HARD_LIMIT, why)

    def _by_pool(self) -> dict[RentalId, Reason]:
        """Rentals of deleted pools, and rentals whose Nodes are lost or never came."""
        snapshot, ending = self._snapshot, dict[RentalId, Reason]()
        for pool_id, nodes in self.solution.nodes.items():
            pool = snapshot.pools.get(pool_id)
            if pool is not None and pool.closed_because:
                why = reason(ReasonCode.POOL_DELETED, of.PoolClosed(pool.closed_because))
                ending |= dict.fromkeys(nodes.rentals.staying, why)
            elif pool_id in snapshot.surveys:
                not_ready = ((rental.id, lost(node, rental, snapshot.now)) for rental, node in nodes.not_ready)
                booting = ((rental.id, never_ready(rental, pool, snapshot.now)) for rental in nodes.rentals.booting)
                ending |= self._given_up(not_ready) | self._given_up(booting)
        return ending

    def _given_up(self, doubts: Iterable[tuple[RentalId, NodeDoubt]]) -> dict[RentalId, Reason]:
        """The rentals that are given up now, with reasons. The times at which other rentals are given up are added to
        ``again_at``."""
        found: dict[RentalId, Reason] = {}
        for rental, doubt in doubts:
            if doubt.why is not None:
                found[rental] = doubt.why
            elif doubt.given_up_at is not None:
                self.again_at.append(doubt.given_up_at)
        return found

    def _over_hourly_limit(self, ending: Mapping[RentalId, Reason]) -> dict[RentalId, Reason]:
        """The rentals that must end, in addition to the ``ending`` rentals, so that the budget keeps its own hourly
        limit."""
        purse, used = self.placer.purse, self.placer.capacity.used
        if purse.max_hourly is None:
            return {}
        return _over_hourly_limit(purse, self.staying, [*self._draining, *ending], used)


def end_over_parents_hourly_limits(
    releases: Sequence[ForcedReleases], purses: Mapping[BudgetId, Purse], tree: BudgetTree
) -> None:
    """End rentals so that budgets with children keep their hourly limits, the lowest of these budgets first."""
    for name in sorted(purses, key=lambda parent: (-len(tree.with_parents(parent)), parent)):
        family = [each for each in releases if name in tree.with_parents(each.solution.budget.id)]
        leaving = [rental for each in family for rental in each.leaving]
        acting = [each for each in family if each.solution.budget.mode is Mode.ENFORCE]
        staying = [rental for each in acting for rental in each.staying]
        over = _over_hourly_limit(purses[name], staying, leaving, family[0].placer.capacity.used) if family else {}
        for each in acting:
            each.ending |= {rental.id: over[rental.id] for rental in each.staying if rental.id in over}


def _over_hourly_limit(
    purse: Purse, staying: Sequence[Rental], leaving: Sequence[RentalId], used: Mapping[RentalId, int]
) -> dict[RentalId, Reason]:
    """The ``staying`` rentals that must end, in addition to the ``leaving`` rentals, so that a purse keeps its hourly
    limit.

    Unused rentals end first, and then the newest rentals.
    """
    found: dict[RentalId, Reason] = {}
    if purse.max_hourly is None:
        return found
    facts = of.HourlyLimitPassed(purse.hourly, purse.max_hourly, purse.parent)
    for rental in sorted(staying, key=lambda rental: (used.get(rental.id, 0) > 0, -rental.created, rental.id)):
        if not purse.over_hourly([*leaving, *found]):
            break
        if rental.id not in leaving:
            found[rental.id] = reason(ReasonCode.HOURLY_LIMIT, facts)
    return found
