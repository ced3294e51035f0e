"""Rented nodes by budget and pool: their states, the jobs that hold their GPUs, their cost so far, and their ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf
from operator import sub
from typing import Final

from charterer.domain.billing import accrued, accrued_before, opening_in
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, NodeName, PoolId, RentalId
from charterer.domain.job import Job, Placement
from charterer.domain.money import Money, Price, total
from charterer.domain.option import GPU
from charterer.domain.pool import Survey
from charterer.domain.rental import Rental, RentalPhase, by_gang
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo, Remember
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position
from charterer.policy.nodes.limits import Exposed, exposure

# The rentals of a snapshot, by the paying budget and by pool, and values that follow from the rentals alone.


BudgetPool = tuple[BudgetId, PoolId]


@dataclass(frozen=True, slots=True, eq=False)
class PoolRentals:
    """The rentals of one pool that one budget pays for, in order of creation. There is at least one.

    ``live``: rentals that have not ended.
    ``staying``: live rentals that do not drain.
    ``ready``: staying rentals whose nodes take pods.
    ``booting``: staying rentals whose nodes are still to come.
    ``launched``: when the staying rentals were launched.
    ``deleting``: live rentals whose object is being deleted.
    ``nodes``: the live rental of each node.
    ``billed``: micro-dollars an hour of each rental that costs money now.
    ``gangs``: the rentals of each gang, by the gang's name.
    """

    rentals: Sequence[Rental]
    live: Sequence[Rental]
    staying: Mapping[RentalId, Rental]
    ready: Sequence[Rental]
    booting: Sequence[Rental]
    launched: Sequence[Instant]
    deleting: Sequence[Rental]
    nodes: Mapping[NodeName, RentalId]
    billed: Mapping[RentalId, int]
    gangs: Mapping[str, Sequence[Rental]]


def pool_rentals(rentals: Sequence[Rental]) -> PoolRentals:
    """Sort the rentals of one pool and budget by their state. ``rentals`` must be in order of creation."""
    live = [rental for rental in rentals if rental.phase is not RentalPhase.ENDED]
    staying = [rental for rental in live if rental.phase is not RentalPhase.DRAINING]
    return PoolRentals(
        rentals=rentals,
        live=live,
        staying={rental.id: rental for rental in staying},
        ready=[rental for rental in staying if rental.phase is RentalPhase.READY],
        booting=[rental for rental in staying if rental.phase is not RentalPhase.READY],
        launched=[rental.launched for rental in staying if rental.launched is not None],
        deleting=[rental for rental in live if rental.deleting],
        nodes={rental.node: rental.id for rental in live if rental.node is not None},
        billed={rental.id: rental.price.micros_per_hour for rental in rentals if rental.billed},
        gangs=by_gang(rentals),
    )


@dataclass(frozen=True, slots=True)
class RentalIndex:
    """All rentals of a snapshot by budget and pool, and by their nodes. ``staying``: live rentals that do not
    drain."""

    by_pool: Mapping[BudgetPool, PoolRentals]
    rental_of: Mapping[NodeName, RentalId]
    staying: frozenset[RentalId]

    def of(self, pool: PoolId) -> Sequence[PoolRentals]:
        """The rentals of a pool, by budget."""
        return [rentals for (_, name), rentals in self.by_pool.items() if name == pool]


def rental_index(rentals: Mapping[RentalId, Rental], memo: Memo) -> RentalIndex:
    """Index the rentals of a snapshot."""
    return memo(_index, memo.each(pool_rentals, memo.grouped(_budget_pool, _order, rentals)))


def _index(by_pool: Mapping[BudgetPool, PoolRentals]) -> RentalIndex:
    by_pool = dict(sorted(by_pool.items()))
    staying = frozenset[RentalId]().union(*[rentals.staying for rentals in by_pool.values()])
    return RentalIndex(by_pool, _rental_of(by_pool.values()), staying)


def _budget_pool(rental: Rental) -> BudgetPool:
    return rental.budget, rental.pool


def _order(rental: Rental) -> tuple[Instant, RentalId]:
    return rental.created, rental.id


def _rental_of(pools: Iterable[PoolRentals]) -> Mapping[NodeName, RentalId]:
    """The rental of each node.

    If several rentals have a node of the same name, the newest rental counts, because the other machines are gone.
    """
    live = sorted((rental for pool in pools for rental in pool.live), key=_order)
    return {rental.node: rental.id for rental in live if rental.node is not None}


# Which jobs hold which GPUs.
#
# The GPUs that a job holds on a node are the larger of two numbers: the GPUs that its allocation names there, and the
# GPUs that its live pods hold there, including pods of a run that is not yet recorded. Runs of one job never overlap,
# because the next run waits until the older run's pods are gone. An allocation that is not believed (``Job.doubts``)
# holds nothing, and pods hold what they use. The allocation of a job that is being deleted holds nothing either: the
# job gets no more pods, and a foreign finalizer may keep its object for ever.


HeldGpus = Mapping[RentalId, int]


def by_rental(placements: Iterable[Placement]) -> dict[RentalId, int]:
    """The GPUs of the placements on each rental."""
    gpus: dict[RentalId, int] = {}
    for place in placements:
        gpus[place.rental] = gpus.get(place.rental, 0) + place.takes
    return gpus


def held_by(job: Job, rental_of: Mapping[NodeName, RentalId]) -> HeldGpus:
    """The GPUs that the job holds on each rental: the largest number among its allocation, its live pods and its
    unrecorded runs."""
    held: dict[RentalId, int] = {}
    living: dict[RentalId, int] = {}
    for run in job.runs:
        for pod in run.pods:
            rental = rental_of.get(pod.node) if pod.node is not None and pod.live else None
            if rental is not None:
                living[rental] = living.get(rental, 0) + pod.gpus
    for allocation in (job.allocation, *job.replaced):
        if allocation is not None and not job.deleting:
            for rental, gpus in by_rental(job.trusted(allocation)).items():
                held[rental] = max(held.get(rental, 0), gpus)
    for rental, gpus in living.items():
        held[rental] = max(held.get(rental, 0), gpus)
    return held


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """The GPUs that all jobs hold on rentals.

    ``used``: GPUs used on each rental.
    ``grace``: for each rental, the longest grace of a job there, in seconds.
    """

    used: HeldGpus
    grace: Mapping[RentalId, int]
    rental_of: Mapping[NodeName, RentalId]

    def held(self, job: Job) -> HeldGpus:
        """The GPUs that the job holds on each rental."""
        return held_by(job, self.rental_of)


def holdings(groups: Iterable[JobGroup], rental_of: Mapping[NodeName, RentalId], memo: Memo) -> Holdings:
    """The GPUs that the jobs of all groups hold."""
    members = tuple(groups)
    return memo.within(_holdings, members, rental_of)


def _holdings(groups: Sequence[JobGroup], rental_of: Mapping[NodeName, RentalId], memo: Memo) -> Holdings:
    held = [memo(_held_by_group, group, tuple(map(rental_of.get, group.nodes))) for group in groups]
    same = memo.stable(
        dict(zip([(group.members[0].job.budget, group.key) for group in groups], held, strict=True)), "held"
    )
    return memo(_sum_up, tuple(same.values()), rental_of)


_GroupHoldings = Mapping[RentalId, tuple[int, int]]


def _held_by_group(group: JobGroup, rentals: Sequence[RentalId | None]) -> _GroupHoldings:
    """GPUs and longest grace of a group's jobs, by rental.

    ``rentals``: the rentals of the nodes on which the jobs have pods.
    """
    rental_of = {node: rental for node, rental in zip(group.nodes, rentals, strict=True) if rental is not None}
    total: dict[RentalId, tuple[int, int]] = {}
    for facts in group.members:
        for rental, gpus in held_by(facts.job, rental_of).items():
            used, grace = total.get(rental, (0, 0))
            total[rental] = used + gpus, max(grace, facts.job.grace_seconds)
    return total


def _sum_up(groups: Sequence[_GroupHoldings], rental_of: Mapping[NodeName, RentalId]) -> Holdings:
    used: dict[RentalId, int] = {}
    graces: dict[RentalId, int] = {}
    for held in groups:
        for rental, (gpus, grace) in held.items():
            used[rental] = used.get(rental, 0) + gpus
            graces[rental] = max(graces.get(rental, 0), grace)
    return Holdings(used, graces, rental_of)


# The rentals of one pool and budget with their nodes, and with the jobs that hold GPUs on them.


_ANY_TIME = Instant(0)
"""The instant for which an exposure is computed if it does not depend on time, as that of a rental that does not
boot."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolNodes:
    """Rentals of one pool and budget with their nodes.

    ``free``: GPUs that no job holds, for each ready rental whose node takes pods.
    ``not_ready``: ready rentals whose node is missing or not ready, with that node.
    ``unused``: staying rentals on which no job holds a GPU.
    ``exposed``: the most that live rentals which do not boot can still cost.
    """

    rentals: PoolRentals
    free: Mapping[RentalId, int]
    not_ready: Sequence[tuple[Rental, Node | None]]
    unused: Sequence[Rental]
    exposed: Exposed


def pool_nodes(
    index: RentalIndex, holdings: Holdings, snapshot: Snapshot, memo: Memo
) -> Mapping[BudgetPool, PoolNodes]:
    """The rentals of all pools with their nodes, by budget and pool."""
    traits: list[tuple[PoolId, float, str]] = []
    for name in dict.fromkeys([name for _, name in index.by_pool]):
        survey, pool = snapshot.surveys.get(name), snapshot.pools.get(name)
        lag = 0.0 if survey is None else survey.traits.lag_seconds
        traits.append((name, lag, GPU if pool is None else pool.resource))
    return memo.within(_all_pool_nodes, index, holdings, snapshot.nodes, tuple(traits))


def _all_pool_nodes(
    index: RentalIndex,
    holdings: Holdings,
    nodes: Mapping[NodeName, Node],
    traits: Sequence[tuple[PoolId, float, str]],
    memo: Memo,
) -> Mapping[BudgetPool, PoolNodes]:
    """``traits``: for each pool, how late its cloud's list may be, and the resource name of its GPUs."""
    of_pool = {name: (lag, resource) for name, lag, resource in traits}
    return {
        place: memo(
            _pool_nodes,
            rentals,
            tuple([None if rental.node is None else nodes.get(rental.node) for rental in rentals.ready]),
            tuple([holdings.used.get(rental.id, 0) for rental in rentals.live]),
            tuple([holdings.grace.get(rental.id, 0) for rental in rentals.live]),
            *of_pool[place[1]],
        )
        for place, rentals in index.by_pool.items()
    }


def _pool_nodes(
    rentals: PoolRentals,
    nodes: Sequence[Node | None],
    used: Sequence[int],
    graces: Sequence[int],
    lag_seconds: float,
    resource: str,
) -> PoolNodes:
    """The rentals with their nodes.

    ``nodes``: for each ready rental, its node.
    ``used``, ``graces``: for each live rental, the GPUs that jobs hold there and their longest grace.
    ``lag_seconds``: seconds by which the cloud's list may be late.
    ``resource``: the resource name of the nodes' GPUs.
    """
    used_of = {rental.id: gpus for rental, gpus in zip(rentals.live, used, strict=True)}
    with_nodes = list(zip(rentals.ready, nodes, strict=True))
    free = [
        (rental.id, node.count(resource) - node.foreign_gpus - used_of[rental.id])
        for rental, node in with_nodes
        if node is not None and node.ready and not node.unschedulable and not node.deleting and not node.refused
    ]
    return PoolNodes(
        rentals=rentals,
        free=dict(sorted(free)),
        not_ready=[(rental, node) for rental, node in with_nodes if node is None or node.not_ready_since is not None],
        unused=[rental for rental in rentals.live if not used_of[rental.id] and rental.id in rentals.staying],
        exposed=_exposed(rentals, graces, lag_seconds),
    )


def _exposed(rentals: PoolRentals, graces: Sequence[int], lag_seconds: float) -> Exposed:
    booting = {rental.id for rental in rentals.booting}
    alike: dict[tuple[Price, int], Money] = {}
    most: dict[RentalId, Money] = {}
    worst: dict[RentalId, Price] = {}
    for rental, grace in zip(rentals.live, graces, strict=True):
        if rental.id not in booting:
            kind = rental.dearest, grace
            if kind not in alike:
                alike[kind] = exposure(rental, grace, lag_seconds, _ANY_TIME)
            most[rental.id] = alike[kind]
            worst[rental.id] = rental.dearest
    return Exposed(
        each=most,
        worst=worst,
        micros=sum([money.micros for money in most.values()]),
        worst_micros=sum([price.micros_per_hour for price in worst.values()]),
    )


# Jobs that are on one node only, with their GPUs on the node and their remaining time.


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """A job that is on one node only.

    ``gpus``: GPUs that it takes on the node. ``left``: seconds to its end at its present speed.
    """

    facts: JobFacts
    gpus: int
    left: float


def occupants(group: JobGroup, mean_work: float) -> Mapping[RentalId, Sequence[Occupant]]:
    """A group's jobs that are on one node only, by node.

    ``mean_work``: the work that is assumed of a job which does not report its remaining work.
    """
    found: dict[RentalId, list[Occupant]] = {}
    for facts in group.runners.values():
        allocation = facts.job.allocation
        there = {} if allocation is None else by_rental(allocation.placements)
        if allocation is not None and len(there) == 1:
            ((rental, gpus),) = there.items()
            left = job_position(facts.job, mean_work).left / allocation.option.speed
            found.setdefault(rental, []).append(Occupant(facts, gpus, left))
    return found


def all_occupants(groups: Iterable[Mapping[RentalId, Sequence[Occupant]]]) -> Mapping[RentalId, Sequence[Occupant]]:
    """The occupants of several groups, by node."""
    found: dict[RentalId, list[Occupant]] = {}
    for group in groups:
        for rental, here in group.items():
            found.setdefault(rental, []).extend(here)
    return found


# Nodes whose end is known in advance, because a reservation or a claim ends.
#
# Jobs may begin on such a node until some minutes before its end, and leave in time to save their work.


USEFUL_SECONDS: Final = 1200.0
"""Seconds that must remain of a node's life so that a job may begin there. A start and the later move take some
minutes of these seconds. If a node had less than twice as many seconds when it became ready, it takes jobs for half
of its life."""
_STOP_SECONDS: Final = 60.0
"""Seconds by which a job is told to stop before it must stop. They cover the time between plans, slow calls and
differences of clocks."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The end of a node on which no job may begin any more.

    ``left``: seconds until the end. ``closed``: seconds before the end in which no job begins there.
    """

    at: Instant
    left: float
    closed: float

    def stay_seconds(self, grace_seconds: float) -> float:
        """Seconds until a job must leave the node, to the microsecond.

        ``grace_seconds``: seconds that the job has to save its work once it is told to stop. A job that began just in
        time stays for at least half of ``closed``, because otherwise it would have to leave at once.
        """
        return round(self.left - min(grace_seconds + _STOP_SECONDS, self.closed / 2.0), 6)


@dataclass(frozen=True, slots=True)
class KnownEnds:
    """The known ends of nodes.

    ``near``: the ends of nodes on which no job begins any more.
    ``next_seconds``: seconds until ``near`` contains one more node; infinite if no further end is known.
    """

    near: Mapping[RentalId, KnownEnd]
    next_seconds: float


def known_ends(rentals: RentalIndex, surveys: Mapping[PoolId, Survey], now: Instant) -> KnownEnds:
    """The known ends of rentals that stay.

    An end before the node was ready is not believed. Otherwise each new node would be given back and another node
    rented.
    """
    near: dict[RentalId, KnownEnd] = {}
    following = inf
    for (_, pool), here in rentals.by_pool.items():
        instances = surveys[pool].instances if pool in surveys else ()
        ends = {instance.id: instance.ends for instance in instances if instance.ends is not None}
        for rental in here.staying.values() if ends else ():
            end = None if rental.instance is None else ends.get(rental.instance)
            if end is None:
                continue
            had, left = seconds_between(min(rental.ready or now, now), end), seconds_between(now, end)
            closed = min(USEFUL_SECONDS, had / 2.0)
            open_seconds = round(left - closed, 6)
            if had > 0.0 and open_seconds <= 0.0:
                near[rental.id] = KnownEnd(end, left, closed)
            elif had > 0.0:
                following = min(following, open_seconds)
    return KnownEnds(near, following)


# The cost of many rentals up to now, summed quickly.
#
# Nearly all rentals have had one price since their launch. For each of these, only three numbers are kept. The result
# equals that of ``domain.billing`` to the micro-dollar, but is computed faster.


_SECOND = 1_000_000
"""Number of microseconds in a second."""


class RentalMeter:
    """The cost of some rentals up to any instant, both since ``start`` and since their launch.

    ``_even``: for each running rental at one price, its launch, micro-dollars an hour and billing minimum in seconds.
    ``_before``: micro-dollars that each rental of ``_even`` cost before ``start``; None if none of them cost anything
    then.
    ``_others``: running rentals that had several prices.
    ``_ended``: the sums of rentals that have ended.
    ``_latest``: the last launch or end of any rental.
    """

    def __init__(self, rentals: Sequence[Rental], start: Instant) -> None:
        self._rentals = rentals
        self._start = start
        known = [at for rental in rentals for at in (rental.launched, rental.ended) if at is not None]
        self._latest = max(known, default=Instant(0))
        self._ended = self._sum([rental for rental in rentals if rental.ended is not None], self._latest)
        running = [rental for rental in rentals if rental.ended is None and rental.launched is not None]
        even = [rental for rental in running if len(rental.segments) < 2]
        self._others = [rental for rental in running if len(rental.segments) >= 2]
        self._even = [
            (launched, _price(rental), rental.billing_minimum_seconds)
            for rental in even
            if (launched := rental.launched) is not None
        ]
        before = [accrued_before(rental, start).micros for rental in even]
        self._before = before if any(before) else None

    def paid(self, now: Instant) -> tuple[Money, Money]:
        """The cost up to ``now``: first since ``start``, then since the launch of each rental."""
        if now < self._latest:
            return self._sum(self._rentals, now)
        costs = [
            (micros * (lasted if (lasted := -((launched - now) // _SECOND)) > least else least) + 1800) // 3600
            for launched, micros, least in self._even
        ]
        later = costs if self._before is None else map(max, map(sub, costs, self._before), repeat(0))
        since, ever = self._sum(self._others, now)
        return since + self._ended[0] + Money(sum(later)), ever + self._ended[1] + Money(sum(costs))

    def _sum(self, rentals: Iterable[Rental], now: Instant) -> tuple[Money, Money]:
        costs = [(rental, accrued(rental, now).micros) for rental in rentals]
        later = sum([max(cost - accrued_before(rental, self._start).micros, 0) for rental, cost in costs])
        return Money(later), Money(sum([cost for _, cost in costs]))


def _price(rental: Rental) -> int:
    return (rental.segments[0].price if rental.segments else rental.worst).micros_per_hour


def spent(budget: Budget, pools: Iterable[PoolRentals], now: Instant, remember: Remember) -> tuple[Money, Money]:
    """Dollars spent in the period (``domain.billing.spent``), and dollars that the budget's rentals have ever cost.

    ``pools``: the budget's rentals by pool.
    """
    balance = budget.balance
    start = budget.calendar.bounds(now)[0] if balance is None else balance.period_start
    folded: frozenset[str] = frozenset() if balance is None else balance.folded
    paid = [remember(rental_meter, pool, _folded_of(pool, folded), start).paid(now) for pool in pools]
    in_period = opening_in(budget, start) + total(since for since, _ in paid)
    ever = total(ever for _, ever in paid)
    return (in_period, ever) if balance is None else (balance.settled + in_period, balance.lifetime + ever)


def _folded_of(pool: PoolRentals, folded: frozenset[str]) -> frozenset[str]:
    return frozenset([rental.uid for rental in pool.rentals if rental.uid in folded]) if folded else folded


class StartUps:
    """The cost of the live nodes of a pool before they took pods. ``_ready``: the sum over nodes that take pods
    now."""

    def __init__(self, pool: PoolRentals) -> None:
        begun = [(rental, launched) for rental in pool.live if (launched := rental.launched) is not None]
        took = [(ready - launched, _price(rental)) for rental, launched in begun if (ready := rental.ready) is not None]
        self._ready = sum([max(micros, 0) * price for micros, price in took])
        self._booting = [(launched, _price(rental)) for rental, launched in begun if rental.ready is None]

    def paid(self, now: Instant) -> Money:
        """Dollars of start-ups up to ``now``."""
        booting = sum([max(now - launched, 0) * price for launched, price in self._booting])
        return Money((self._ready + booting) // (3600 * _SECOND))


def rental_meter(pool: PoolRentals, folded: frozenset[str], start: Instant) -> RentalMeter:
    """The meter of the rentals whose uid is not in ``folded``. The cost of the other rentals is already in the
    balance."""
    return RentalMeter([rental for rental in pool.rentals if rental.uid not in folded], start)
