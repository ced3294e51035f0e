"""Idle nodes worth keeping: a job is likely to come that would else wait for a new one to start.

A node given back and rented again a start-up time T later costs T of its price p and, if a job waits for it, T of what
a second of that job is worth. Jobs come at a rate Λ, a part a_i of them such as need n_i nodes of the pool, for which a
second is worth w_i·θ dollars. As often as jobs come, others end and leave theirs, so who finds nothing waits for
min(T, the next to end), (1 − exp(−Λ·T)) / Λ on average. So each second in which a k-th idle node is there saves

    P·V_k    with  P = 1 − exp(−Λ·T),  V_k = Σ_i a_i·(p·[n_i ≥ k] + w_i·θ·[n_i = k])    dollars

for which p are paid: the last of the nodes that a job needs saves its wait, the others their start-up's bill. Nodes are
kept as long as P·V > p, in blocks of falling mean V, for jobs that need several are not helped by one.

Λ is what the load is solved for, or what is remembered of the classes (``domain.budget.Experience``); jobs of classes
out of sight are taken to need one node. Load changes within hours, of which such a mean knows nothing: it is no more
than one job for the time since a job last came or finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, log1p

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after
from charterer.policy.budgets.arrivals import first_arrivals
from charterer.policy.budgets.solution import BudgetSolution


@dataclass(frozen=True, slots=True)
class ExpectedArrivals:
    """Jobs to come: ``arrivals`` a second, each needing ``nodes`` nodes; a second of one is worth ``worth`` dollars."""

    arrivals: float
    nodes: int
    worth: float


@dataclass(frozen=True, slots=True)
class WarmNodes:
    """``nodes`` that are worth keeping together for ``seconds`` after a job last came or finished."""

    nodes: int
    seconds: float


def warm_nodes(solution: BudgetSolution, pool: Pool, rented: Counter[PoolId], idle: int) -> list[Instant]:
    """Until when which of a pool's ``idle`` nodes are kept, the first for longest; empty where none is worth it now.

    ``rented``: the budget's nodes by pool, as which jobs out of sight are spread over pools.
    """
    last = _last_sign(solution)
    if not solution.feasible or last is None or pool.offering is None or pool.quote is None:
        return []
    found = streams(solution, pool.id, pool.offering.gpus_per_node, rented)
    kept: list[Instant] = []
    for group in _warm_groups(found, pool.quote.price.dollars_per_second, pool.start_seconds):
        until = after(last, group.seconds)
        if solution.now >= until or len(kept) + group.nodes > idle:
            break
        kept += [until] * group.nodes
    return kept


def _warm_groups(found: Sequence[ExpectedArrivals], price: float, start_seconds: float) -> list[WarmNodes]:
    """The nodes worth keeping, those worth most first. ``price``: dollars a second of a node."""
    arrivals = sum(expected.arrivals for expected in found)
    if arrivals <= 0.0 or start_seconds <= 0.0 or price <= 0.0:
        return []
    saved = [
        sum(
            expected.arrivals * (price + (expected.worth if expected.nodes == count else 0.0))
            for expected in found
            if expected.nodes >= count
        )
        for count in range(1, max(expected.nodes for expected in found) + 1)
    ]
    kept: list[WarmNodes] = []
    begin = 0
    while begin < len(saved):
        means = [total / count / arrivals for count, total in enumerate(accumulate(saved[begin:]), 1)]
        mean = max(means)
        if mean <= price:
            break
        needed = -log1p(-price / mean) / start_seconds
        if arrivals <= needed:
            break
        nodes = means.index(mean) + 1
        kept.append(WarmNodes(nodes, 1.0 / needed))
        begin += nodes
    return kept


def streams(
    solution: BudgetSolution, pool: PoolId, gpus_per_node: int, rented: Counter[PoolId]
) -> list[ExpectedArrivals]:
    """The jobs that may come to the pool: of each group in sight, and of classes remembered."""
    remembered = _remembered(solution)
    active: Counter[ClassId] = Counter()
    for key, share in solution.shares.items():
        active[key[0]] += share.group.active
    found: list[ExpectedArrivals] = []
    for key, share in solution.shares.items():
        group, known = share.group, remembered.get(key[0], 0.0)
        rate = known * group.active / active[key[0]] if group.arrivals is None and known else share.arrivals
        found += [
            ExpectedArrivals(
                rate * taken.fraction, ceil(taken.path[0].gpus / gpus_per_node), solution.rate * group.weight
            )
            for taken in share.path_shares
            if taken.path[0].pool == pool
        ]
    nodes = rented.total()
    absent = sum(rate for name, rate in remembered.items() if name not in active)
    if absent and nodes:
        found.append(ExpectedArrivals(absent * rented[pool] / nodes, 1, solution.rate))
    return found


def _remembered(solution: BudgetSolution) -> dict[ClassId, float]:
    """Jobs a second that come, by class, as far as finished ones tell."""
    balance = solution.budget.balance
    known = {} if balance is None else balance.class_history
    found = {name: first_arrivals(history, solution.now) for name, history in known.items()}
    return {name: arrivals.rate for name, arrivals in found.items() if arrivals is not None}


def _last_sign(solution: BudgetSolution) -> Instant | None:
    """When a job last came or finished."""
    balance = solution.budget.balance
    finished: Iterable[Instant] = () if balance is None else (history.at for history in balance.class_history.values())
    created = (group.created[-1] for group in solution.groups.values())
    return max([*created, *finished], default=None)
