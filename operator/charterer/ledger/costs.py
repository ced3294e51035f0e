"""A budget's dollars by pool, cause and namespace: sums over all its months, which never fall.

Each step adds what was spent since the last one, apportioned by who held the GPUs meanwhile, and nothing is ever taken
back: the sums can be read as counters. An amount that turns out too high afterwards (a machine had ended some seconds
before the cloud said so) is made up for by adding less later, to whatever costs something then: one pool keeps what
was too much, and another may lack it. So when all rentals are folded, the sums are ``lifetime`` to the micro-dollar, or
more by what is still to be made up for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from charterer.domain.billing import accrued
from charterer.domain.budget import DAYS_KEPT, Balance, Budget, Cause, Costs, DayCosts
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, apportion, total
from charterer.domain.period import day_bounds
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import AddCosts
from charterer.domain.time import Instant
from charterer.ledger.attribution import by_purpose, gpus_of, in_vain

NAMES_KEPT = 500
"""Most pools, and most namespaces, with sums of their own, to bound a status."""
DAY_NAMES_KEPT = 10
"""The same of the namespaces of one day."""
OTHER = "(other)"
"""Stands for all further pools or namespaces, here and in metrics."""

_Key = tuple[PoolId, Cause, str]
"""A pool, a cause and a namespace: that of the job, else empty."""


def next_costs(budget: Budget, balance: Balance, rentals: Sequence[Rental], snapshot: Snapshot) -> AddCosts | None:
    """The step that adds what was spent since the last one; None when nothing was. ``rentals``: the budget's own."""
    now, since = snapshot.now, balance.costs.through
    running = total(accrued(rental, now) for rental in rentals if rental.uid not in balance.folded)
    amount = balance.lifetime + running - balance.costs.total
    weights: Mapping[_Key, int] = {}
    if amount > ZERO:
        weights = _weights(rentals, snapshot, Instant(0) if since is None else since)
        weights = weights or _weights(rentals, snapshot, Instant(0))
    if not weights and balance.lifetime == balance.costs.lifetime:
        return None
    by_pool: dict[tuple[PoolId, Cause], Money] = defaultdict(lambda: ZERO)
    by_namespace: dict[str, Money] = defaultdict(lambda: ZERO)
    for (pool, cause, namespace), part in apportion(amount, weights).items() if weights else ():
        by_pool[pool, cause] += part
        if cause is Cause.JOB:
            by_namespace[namespace] += part
    added = Costs(dict(by_pool), dict(by_namespace), now, balance.lifetime)
    return AddCosts(budget.id, since, added, day_bounds(budget.time_zone, now)[0])


def _weights(rentals: Sequence[Rental], snapshot: Snapshot, since: Instant) -> Mapping[_Key, int]:
    """Micro-dollars spent since then; of a rental that was found later, all that it cost."""
    weights: dict[_Key, int] = defaultdict(int)
    vain = in_vain(rentals, snapshot)
    for rental in rentals:
        start = Instant(0) if rental.created > since else since
        parts = by_purpose(rental, gpus_of(rental, snapshot), start, snapshot.now, in_vain=rental.id in vain)
        for purpose, share in parts.items():
            weights[rental.pool, purpose.cause, purpose.namespace] += share.cost.micros
    return {key: weight for key, weight in weights.items() if weight}


def apply_costs(balance: Balance, step: AddCosts) -> Balance:
    """Add the step's amounts. The same balance when they, or amounts for the same time, have been added already."""
    costs = balance.costs
    if costs.through != step.since:
        return balance
    by_pool = dict(costs.by_pool)
    pools: set[str] = {pool for pool, _ in by_pool}
    for (pool, cause), amount in sorted(step.added.by_pool.items()):
        key = (PoolId(_kept(pool, pools)), cause)
        by_pool[key] = by_pool.get(key, ZERO) + amount
    by_namespace = _with(costs.by_namespace, step.added.by_namespace, NAMES_KEPT)
    days = _with_day(costs.days, step)
    added = Costs(by_pool, by_namespace, step.added.through, step.added.lifetime, costs.before, days)
    return replace(balance, costs=added)


def _with_day(days: tuple[DayCosts, ...], step: AddCosts) -> tuple[DayCosts, ...]:
    """The days with what the step adds to its own. Nothing is added to a day before the last one: clocks may be set."""
    if not step.added.by_pool:
        return days
    before, last = days[:-1], days[-1] if days else DayCosts(step.day, {}, {})
    if step.day > last.start:
        before, last = days, DayCosts(step.day, {}, {})
    by_cause = dict(last.by_cause)
    for cause, amount in step.added.by_cause.items():
        by_cause[cause] = by_cause.get(cause, ZERO) + amount
    by_namespace = _with(last.by_namespace, step.added.by_namespace, DAY_NAMES_KEPT)
    return (*before, DayCosts(last.start, by_cause, by_namespace))[-DAYS_KEPT:]


def _with(sums: Mapping[str, Money], added: Mapping[str, Money], most: int) -> Mapping[str, Money]:
    """The sums with what is added, under ``OTHER`` for names beyond so many."""
    new, known = dict(sums), set(sums)
    for name, amount in sorted(added.items()):
        kept = _kept(name, known, most)
        new[kept] = new.get(kept, ZERO) + amount
    return new


def _kept(name: str, known: set[str], most: int = NAMES_KEPT) -> str:
    """The name under which an amount is kept; it is added to those known while there is room."""
    if name not in known and len(known) >= most:
        return OTHER
    known.add(name)
    return name
