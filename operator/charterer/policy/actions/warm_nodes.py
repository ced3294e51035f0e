"""Idle nodes worth keeping: a job that would otherwise wait for a new node to start is likely to come.

A node that is ended and rented again takes a start-up time T. The start-up costs T times the node's price p. If a job
waits for it, that costs T times what a second of the job is worth. Jobs come at a rate Λ; a fraction a_i of them need
n_i nodes of the pool, and a second of such a job is worth w_i·θ dollars. Jobs end as often as jobs come, and leave
their nodes. So a job that finds no node waits for min(T, the next to end): (1 − exp(−Λ·T)) / Λ on average. Each second
in which a k-th idle node is kept therefore saves

    P·V_k    with  P = 1 − exp(−Λ·T),  V_k = Σ_i a_i·(p·[n_i ≥ k] + w_i·θ·[n_i = k])    dollars

and costs p. The last of the nodes that a job needs saves its wait; the others save the bill of their start-up. Nodes
are kept as long as P·V > p. They are kept in blocks of falling mean V, because one node does not help a job that needs
two.

Λ is the load that the budget is solved for, or the rate in the classes' history (``domain.budget.ClassHistory``). Jobs
of classes without a job in sight are assumed to need one node, or the free GPUs of one that is in use. Load changes
within hours, which such a mean does not show: it is at most one job for the time since a job last came or finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, log1p

from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after
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


def warm_nodes(
    solution: BudgetSolution, pool: Pool, rented: Counter[PoolId], idle: int, fragment: int
) -> list[Instant]:
    """The instants until which a pool's ``idle`` nodes are kept, longest first; empty if none is worth keeping now.

    ``rented``: the budget's nodes by pool; jobs of classes that are not in sight are spread over pools like them.
    ``fragment``: the most free GPUs of a node that is in use. A job that fits there needs no idle node.
    """
    last = _last_sign(solution)
    if not solution.feasible or last is None or pool.offering is None or pool.quote is None:
        return []
    found = streams(solution, pool.id, pool.offering.gpus_per_node, rented, fragment)
    kept: list[Instant] = []
    for group in _warm_groups(found, pool.quote.price.dollars_per_second, pool.likely_start_seconds):
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
    solution: BudgetSolution, pool: PoolId, gpus_per_node: int, rented: Counter[PoolId], fragment: int = 0
) -> list[ExpectedArrivals]:
    """The jobs that may come to the pool and need idle nodes: of each group in sight, and of classes remembered."""
    found: list[ExpectedArrivals] = []
    for assignment in solution.assignments.values():
        group = assignment.group
        found += [
            ExpectedArrivals(
                group.foreseen * taken.fraction, ceil(taken.path[0].takes / gpus_per_node), group.worth(solution.rate)
            )
            for taken in assignment.assigned_paths
            if taken.path[0].pool == pool and taken.path[0].takes > fragment
        ]
    nodes = rented.total()
    present = {key[0] for key in solution.assignments}
    absent = sum(solution.arrivals.of(name) for name in solution.arrivals.parts if name not in present)
    if absent and nodes and not fragment:
        found.append(ExpectedArrivals(absent * rented[pool] / nodes, 1, solution.rate))
    return found


def _last_sign(solution: BudgetSolution) -> Instant | None:
    """When a job last came or finished."""
    balance = solution.budget.balance
    finished: Iterable[Instant] = () if balance is None else (history.at for history in balance.class_history.values())
    created = (group.created[-1] for group in solution.groups.values())
    return max([*created, *finished], default=None)
