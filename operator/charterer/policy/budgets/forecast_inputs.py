"""The forecast of one budget, from what the planner gives its groups of jobs and from what it remembers of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from charterer.domain.budget import Balance
from charterer.domain.time import Instant
from charterer.policy.budgets.arrivals import arrivals
from charterer.policy.budgets.cost_calibration import CostCalibration
from charterer.policy.budgets.pacing import PacingState
from charterer.policy.budgets.spend_forecast import Forecast, JobStream, SpendBounds, forecast, remembered
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.solve.exchange_rate import Demand

if TYPE_CHECKING:
    from charterer.policy.budgets.solution import GroupAssignment

_PERIODS = 12
"""A year of months: what is longer ago says little of how jobs come now."""


def forecast_budget(
    money: PacingState,
    shares: Mapping[GroupKey, GroupAssignment],
    demands: Sequence[Demand],
    reckoning: CostCalibration,
    balance: Balance | None,
    now: Instant,
) -> Forecast:
    """The forecast at what the groups are given.

    Classes of which no job is in sight may take whatever the plan gives them; the balance knows what they have cost.
    """
    streams = [_stream(key, share, reckoning) for key, share in shares.items()]
    seen = {key[0] for key in shares}
    known = {} if balance is None else balance.class_history
    coming = {class_id: arrivals(one, (), now) for class_id, one in known.items() if class_id not in seen}
    absent = [
        remembered(known[class_id], reckoning.of(class_id).squared_cv, reckoning.overhead, found)
        for class_id, found in coming.items()
        if found is not None
    ]
    most = sum(demand.load * demand.spends[-1] for demand in demands)
    bounds = SpendBounds(inf if any(one.spends for one in absent) else most)
    past = [] if balance is None else [period.spent_fraction for period in balance.history[-_PERIODS:]]
    return forecast(
        money, [*streams, *absent], bounds, reckoning.spread, [fraction for fraction in past if fraction is not None]
    )


def forecast_at_fixed_rate(
    money: PacingState, shares: Mapping[GroupKey, GroupAssignment], reckoning: CostCalibration
) -> Forecast:
    """The forecast at an exchange rate that is kept whatever is spent."""
    streams = [_stream(key, share, reckoning) for key, share in shares.items()]
    rate = sum(stream.spends for stream in streams)
    return forecast(money, streams, SpendBounds(rate, rate), reckoning.spread)


def _stream(key: GroupKey, share: GroupAssignment, reckoning: CostCalibration) -> JobStream:
    """Where arrivals are not counted, the jobs in sight are what they would be counted from (Little's law)."""
    known = reckoning.of(key[0])
    seconds, group = share.seconds * known.value, share.group
    return JobStream(
        arrivals=group.active / seconds if group.arrivals is None else group.arrivals,
        dollars=share.dollars * reckoning.factor(key[0]),
        seconds=seconds,
        squared_cv=known.squared_cv,
        counted=float(group.active) if group.arrivals is None else group.counted,
        kappa_error=known.error,
    )
