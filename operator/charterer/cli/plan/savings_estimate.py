"""What Charterer would have saved on the cluster's own last days, for a budget that only observes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from charterer.cli.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.cli.shared.processes import side_by_side
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import OtherJobs, snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId
from charterer.domain.time import Instant, after
from charterer.simulate.engine.world import PlannerError
from charterer.simulate.history.history import History
from charterer.simulate.history.savings import (
    LEAST_JOBS,
    Savings,
    SavingsReplay,
    next_rates,
    rates_around,
    savings,
    savings_replay,
)
from charterer.simulate.policy_registry import PolicyChoice
from charterer.simulate.replay import ReplayResult, dollars_by_job, replay

DAYS = 30
MOST_JOBS = 300
"""Ten simulations of so many jobs take some seconds on two cores."""
_ROUNDS = 2
"""How often rates are tried between known ones: after that neighbours differ by a factor of √2."""
_SEED = 0
"""The same history always has the same interval."""


@dataclass(frozen=True, slots=True)
class SavingsEstimate:
    """``really``: the mean completion time that there was, if known. ``savings`` is None where ``why_not`` says why."""

    budget: BudgetId
    past: ClusterHistory
    jobs: int
    known: int
    really: float | None
    savings: Savings | None
    why_not: str = ""


def savings_estimate(seen: ClusterState, now: Instant, others: OtherJobs) -> tuple[SavingsEstimate, ...]:
    """For each budget that only observes, by name."""
    snapshot, payers = snapshot_of(seen, now), payers_of(seen.budgets, seen.namespaces)
    found = []
    for budget in sorted(snapshot.budgets.values(), key=lambda one: one.id):
        if budget.mode is Mode.OBSERVE:
            choosing = JobFilter(since=after(now, -DAYS * 86_400.0), budget=budget, most=MOST_JOBS)
            found.append(_saved(budget.id, cluster_history(snapshot, others, payers, choosing)))
    return tuple(found)


def _saved(budget: BudgetId, past: ClusterHistory) -> SavingsEstimate:
    history = past.history
    if history is None:
        return SavingsEstimate(budget, past, 0, 0, None, None, _few(0))
    took = [job.took for job in history.jobs if job.took is not None]
    really = sum(took) / len(took) if took else None
    count = len(history.jobs)
    if count < LEAST_JOBS:
        return SavingsEstimate(budget, past, count, history.jobs_with_curve, really, None, _few(count))
    try:
        return SavingsEstimate(budget, past, count, history.jobs_with_curve, really, _savings(history))
    except (PlannerError, _NotComplete) as error:
        return SavingsEstimate(
            budget, past, count, history.jobs_with_curve, really, None, f"the simulation failed ({error}); report it"
        )


class _NotComplete(Exception):
    """A job that never ends under a policy."""


def _few(count: int) -> str:
    return (
        f"too little history: {count} jobs of the last {DAYS} days can be simulated, and with fewer than {LEAST_JOBS} "
        "any number would be an accident of which jobs they were"
    )


def _savings(history: History) -> Savings | None:
    asked, *paying = _replays(history, [PolicyChoice("as-asked"), *_paying(rates_around(history, 4.0))])
    for _ in range(_ROUNDS):
        paying += _replays(history, _paying(next_rates(asked, paying)))
    return savings(asked, paying, Random(_SEED).random)


def _paying(rates: Sequence[float]) -> list[PolicyChoice]:
    return [PolicyChoice("charterer", rate) for rate in rates]


def _replays(history: History, choices: Sequence[PolicyChoice]) -> list[SavingsReplay]:
    if not choices:
        return []
    results = iter(side_by_side([partial(replay, fleet, choice) for choice in choices for fleet in history.pools]))
    return [_replay(history, choice, [next(results) for _ in history.pools]) for choice in choices]


def _replay(history: History, choice: PolicyChoice, parts: Sequence[ReplayResult]) -> SavingsReplay:
    seconds: dict[str, float] = {}
    for job in (job for part in parts for job in part.result.jobs):
        if job.completion_seconds is None:
            raise _NotComplete(f"{job.name} never ends under {choice.label}")
        seconds[job.name] = job.completion_seconds
    return savings_replay(history, choice.rate, seconds, dollars_by_job(parts))
