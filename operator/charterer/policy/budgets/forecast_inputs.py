"""The forecast of one budget: of the jobs to come of its groups, and of classes that only its history remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, inf

from charterer.domain.budget import Balance, Budget
from charterer.domain.money import Money, total
from charterer.domain.plan import ForecastVerdict
from charterer.policy.budgets.arrivals import Arrivals
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.cost_calibration import CostCalibration
from charterer.policy.budgets.pacing import PacingState
from charterer.policy.budgets.spend_forecast import Forecast, JobStream, SpendBounds, forecast, remembered
from charterer.policy.jobs.group_key import GroupKey

_PERIODS = 12
"""Past months that are compared with their aim: a year. Older ones say little of how jobs come now."""


def forecast_budget(
    pacing: PacingState,
    streams: Mapping[GroupKey, JobStream],
    most: float,
    calibration: CostCalibration,
    balance: Balance | None,
    came: Arrivals,
) -> Forecast:
    """The forecast of a budget whose groups' jobs come as ``streams`` and spend ``most`` dollars a second at most.

    Classes of which no job is in sight may take whatever the plan gives them; the balance has what they cost.
    """
    in_sight = {key[0] for key in streams}
    history = {} if balance is None else balance.class_history
    absent = [
        remembered(known, calibration.of(class_id).squared_cv, calibration.overhead, came.of(class_id), came.jobs)
        for class_id, known in history.items()
        if class_id not in in_sight and came.of(class_id)
    ]
    bounds = SpendBounds(inf if any(stream.spends for stream in absent) else most)
    periods = () if balance is None else balance.history[-_PERIODS:]
    past = [fraction for period in periods if (fraction := period.spent_fraction) is not None]
    return forecast(pacing, [*streams.values(), *absent], bounds, calibration.spread, past)


def forecast_assigned(
    pacing: PacingState,
    assignments: Mapping[GroupKey, GroupAssignment],
    calibration: CostCalibration,
    budget: Budget,
    came: Arrivals,
) -> Forecast:
    """The forecast of the budget at what its groups are given."""
    streams = {key: assignment.job_stream(key, calibration) for key, assignment in assignments.items()}
    most = sum(
        assignment.group.spend_at(-1, calibration.factor(key[0]), calibration.overhead)
        for key, assignment in assignments.items()
    )
    return forecast_budget(pacing, streams, most, calibration, budget.balance, came)


def forecast_at_fixed_rate(pacing: PacingState, streams: Sequence[JobStream], calibration: CostCalibration) -> Forecast:
    """The forecast at an exchange rate that is kept whatever is spent."""
    rate = sum(stream.spends for stream in streams)
    return forecast(pacing, streams, SpendBounds(rate, rate), calibration.spread)


def sum_of_forecasts(forecasts: Sequence[ForecastVerdict], most: Money | None) -> ForecastVerdict:
    """The forecast of several budgets together, at most ``most``: half an interval is the root of the sum of squares of
    theirs, as if what they spend were independent.
    """
    expected = total(each.expected for each in forecasts)
    below = Money(round(hypot(*(each.expected.micros - each.low.micros for each in forecasts))))
    above = Money(round(hypot(*(each.high.micros - each.expected.micros for each in forecasts))))
    three = (expected, expected - below, expected + above)
    return ForecastVerdict(*(each if most is None else min(each, most) for each in three))
