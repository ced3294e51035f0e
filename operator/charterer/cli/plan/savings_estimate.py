"""Estimates what Charterer would have saved in the cluster's last days, for budgets in mode Observe."""

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
"""Days of history that are simulated."""
MOST_JOBS = 300
"""Jobs that are simulated at most, the latest ones: ten simulations of them take some seconds on two cores."""
_ROUNDS = 2
"""Rounds in which rates are tried between known ones; after two, neighbours differ by a factor of √2."""
_SEED = 0
"""Seed of the bootstrap, constant so that the same history always has the same interval."""


@dataclass(frozen=True, slots=True)
class SavingsEstimate:
    """``measured_seconds``: the measured mean completion time, if known. ``savings`` is None because of ``why_not``."""

    budget: BudgetId
    history: ClusterHistory
    jobs: int
    jobs_with_curve: int
    measured_seconds: float | None
    savings: Savings | None
    why_not: str = ""


def savings_estimate(state: ClusterState, now: Instant, others: OtherJobs) -> tuple[SavingsEstimate, ...]:
    """An estimate for each budget in mode Observe, by name."""
    snapshot, payers = snapshot_of(state, now), payers_of(state.budgets, state.namespaces)
    estimates = []
    for budget in sorted(snapshot.budgets.values(), key=lambda budget: budget.id):
        if budget.mode is Mode.OBSERVE:
            job_filter = JobFilter(since=after(now, -DAYS * 86_400.0), budget=budget, most=MOST_JOBS)
            estimates.append(_estimate(budget.id, cluster_history(snapshot, others, payers, job_filter)))
    return tuple(estimates)


def _estimate(budget: BudgetId, past: ClusterHistory) -> SavingsEstimate:
    history = past.history
    if history is None:
        return SavingsEstimate(budget, past, 0, 0, None, None, _too_few(0))
    took = [job.took for job in history.jobs if job.took is not None]
    measured = sum(took) / len(took) if took else None
    count = len(history.jobs)
    if count < LEAST_JOBS:
        return SavingsEstimate(budget, past, count, history.jobs_with_curve, measured, None, _too_few(count))
    try:
        return SavingsEstimate(budget, past, count, history.jobs_with_curve, measured, _simulated_savings(history))
    except (PlannerError, _NotComplete) as error:
        return SavingsEstimate(
            budget, past, count, history.jobs_with_curve, measured, None, f"the simulation failed ({error}); report it"
        )


class _NotComplete(Exception):
    """A job does not end under a policy."""


def _too_few(count: int) -> str:
    return (
        f"too little history: {count} jobs of the last {DAYS} days can be simulated, and with fewer than {LEAST_JOBS} "
        "any number would be accidental"
    )


def _simulated_savings(history: History) -> Savings | None:
    asked, *paying = _replay_all(history, [PolicyChoice("as-asked"), *_paying(rates_around(history, 4.0))])
    for _ in range(_ROUNDS):
        paying += _replay_all(history, _paying(next_rates(asked, paying)))
    return savings(asked, paying, Random(_SEED).random)


def _paying(rates: Sequence[float]) -> list[PolicyChoice]:
    return [PolicyChoice("charterer", rate) for rate in rates]


def _replay_all(history: History, choices: Sequence[PolicyChoice]) -> list[SavingsReplay]:
    if not choices:
        return []
    results = iter(side_by_side([partial(replay, part, choice) for choice in choices for part in history.parts]))
    return [_joined(history, choice, [next(results) for _ in history.parts]) for choice in choices]


def _joined(history: History, choice: PolicyChoice, parts: Sequence[ReplayResult]) -> SavingsReplay:
    seconds: dict[str, float] = {}
    for job in (job for part in parts for job in part.result.jobs):
        if job.completion_seconds is None:
            raise _NotComplete(f"{job.name} never ends under {choice.label}")
        seconds[job.name] = job.completion_seconds
    return savings_replay(history, choice.rate, seconds, dollars_by_job(parts))
