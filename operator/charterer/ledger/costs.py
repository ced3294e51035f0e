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
from charterer.domain.budget import Balance, Cause, Costs
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import AddCosts
from charterer.domain.time import Instant
from charterer.ledger.attribution import by_purpose, gpus_of, in_vain
from charterer.ledger.shares import apportion

NAMES_KEPT = 500
"""Most pools, and most namespaces, with sums of their own, to bound a status."""
OTHER = "(other)"
"""Stands for all further pools or namespaces, here and in metrics."""

_Key = tuple[PoolId, Cause, str]
"""A pool, a cause and a namespace: that of the job, else empty."""


def next_costs(budget: BudgetId, balance: Balance, rentals: Sequence[Rental], snapshot: Snapshot) -> AddCosts | None:
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
    return AddCosts(budget, since, Costs(dict(by_pool), dict(by_namespace), now, balance.lifetime))


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
    by_pool, by_namespace = dict(costs.by_pool), dict(costs.by_namespace)
    pools: set[str] = {pool for pool, _ in by_pool}
    for (pool, cause), amount in sorted(step.added.by_pool.items()):
        key = (PoolId(_kept(pool, pools)), cause)
        by_pool[key] = by_pool.get(key, ZERO) + amount
    namespaces = set(by_namespace)
    for name, amount in sorted(step.added.by_namespace.items()):
        kept = _kept(name, namespaces)
        by_namespace[kept] = by_namespace.get(kept, ZERO) + amount
    return replace(balance, costs=Costs(by_pool, by_namespace, step.added.through, step.added.lifetime, costs.before))


def _kept(name: str, known: set[str]) -> str:
    """The name under which an amount is kept; it is added to those known while there is room."""
    if name not in known and len(known) >= NAMES_KEPT:
        return OTHER
    known.add(name)
    return name
