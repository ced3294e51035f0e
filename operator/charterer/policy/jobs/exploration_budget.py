"""Money for trials of widths never measured (``policy.options.optimism``): a fraction of what counts of the budget's
amount."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from charterer.domain.budget import Budget
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.jobs.job_facts import JobFacts

TRIAL_SECONDS = 300.0
"""Seconds from a run's first step within which it is measured: a job reports every ten seconds, the first report after
a start is not counted, and a batch size or two are tried as well."""


def may_explore(budget: Budget, tried: Iterable[JobFacts], period_start: Instant, now: Instant) -> bool:
    """Whether the budget still pays for trials in this period. ``tried``: its jobs that had any.

    A trial costs the whole price of its GPUs until it ends, or until it is measured at the latest.
    """
    if not budget.exploration_percent:
        return False
    spent = ZERO
    for facts in tried:
        for option, since, until in facts.trials:
            over = after(since, option.entry_seconds + TRIAL_SECONDS)
            spent += _cost(option, max(since, period_start), min(now if until is None else until, over))
    return spent < Money(budget.counted.micros * budget.exploration_percent // 100)


def _cost(option: Option, since: Instant, until: Instant) -> Money:
    return option.price.cost(ceil(max(seconds_between(since, until), 0.0)))
