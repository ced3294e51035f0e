"""The jobs of a budget's last days, simulated again: what Charterer saves, and what more or less money would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from charterer.cli.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.cli.shared.processes import side_by_side
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import OtherJobs, snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget, Mode
from charterer.domain.time import Instant, after
from charterer.policy.planner import plan
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
class MonthEstimate:
    """The estimate of one budget. ``factors``: times today's money, which was asked about.

    ``rate``: dollars that it pays now for a job-hour saved; None in mode Observe, or where it pays for no job.
    ``measured_seconds``: the measured mean completion time, if known. ``savings`` is None because of ``why_not``.
    ``frontier``: (dollars, mean seconds) of Charterer at the rates that were simulated.
    """

    budget: Budget
    factors: tuple[float, ...]
    rate: float | None
    history: ClusterHistory
    jobs: int
    jobs_with_curve: int
    measured_seconds: float | None
    savings: Savings | None
    why_not: str = ""
    frontier: tuple[tuple[float, float], ...] = ()


def month_estimates(
    state: ClusterState, now: Instant, others: OtherJobs, name: str | None, factors: tuple[float, ...]
) -> tuple[MonthEstimate, ...]:
    """An estimate for each budget, or for the one of that ``name``. ``factors``: times today's dollars, asked about."""
    snapshot, payers = snapshot_of(state, now), payers_of(state.budgets, state.namespaces)
    verdicts = plan(snapshot).budgets
    estimates = []
    for budget in sorted(snapshot.budgets.values(), key=lambda budget: budget.id):
        if name is not None and budget.id != name:
            continue
        verdict = verdicts.get(budget.id)
        paid = None if verdict is None or budget.mode is Mode.OBSERVE or not verdict.rate else verdict.rate * 3600.0
        job_filter = JobFilter(since=after(now, -DAYS * 86_400.0), budget=budget, most=MOST_JOBS)
        estimates.append(_estimate(budget, paid, cluster_history(snapshot, others, payers, job_filter), factors))
    return tuple(estimates)


def _estimate(budget: Budget, rate: float | None, past: ClusterHistory, factors: tuple[float, ...]) -> MonthEstimate:
    history = past.history
    nothing = MonthEstimate(budget, factors, rate, past, 0, 0, None, None, _too_few(0))
    if history is None:
        return nothing
    took = [job.took for job in history.jobs if job.took is not None]
    count = len(history.jobs)
    estimate = replace(
        nothing,
        jobs=count,
        jobs_with_curve=history.jobs_with_curve,
        measured_seconds=sum(took) / len(took) if took else None,
        why_not=_too_few(count),
    )
    if count < LEAST_JOBS:
        return estimate
    try:
        asked, today, paying = _simulated(history, rate, factors)
    except (PlannerError, _NotComplete) as error:
        return replace(estimate, why_not=f"the simulation failed ({error}); report it")
    found = savings(asked, paying, Random(_SEED).random, today=today, factors=factors)
    return replace(estimate, savings=found, why_not="", frontier=tuple(sorted(each.point for each in paying)))


class _NotComplete(Exception):
    """A job does not end under a policy."""


def _too_few(count: int) -> str:
    return (
        f"too little history: {count} jobs of the last {DAYS} days can be simulated, and with fewer than {LEAST_JOBS} "
        "any number would be accidental"
    )


def _simulated(
    history: History, rate: float | None, factors: Sequence[float]
) -> tuple[SavingsReplay, SavingsReplay, list[SavingsReplay]]:
    """The jobs as asked for, what is paid today (at ``rate``, or as asked), and Charterer at each rate tried."""
    rates = rates_around(history, 4.0)
    asked, *paying = _replay_all(history, [PolicyChoice("as-asked"), *_paying(rates)])
    today = asked
    if rate is not None:
        (today,) = _replay_all(history, _paying([rate]))
        paying.append(today)
    for _ in range(_ROUNDS):
        wanted = [today.point[0] * factor for factor in factors]
        paying += _replay_all(history, _paying(next_rates(asked, paying, wanted)))
    return asked, today, paying


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
