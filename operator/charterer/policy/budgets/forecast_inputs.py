"""The forecast of one budget: of the jobs to come of its groups, and of classes that only its history remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from charterer.domain.budget import Balance
from charterer.policy.budgets.arrivals import Arrivals
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


def forecast_at_fixed_rate(pacing: PacingState, streams: Sequence[JobStream], calibration: CostCalibration) -> Forecast:
    """The forecast at an exchange rate that is kept whatever is spent."""
    rate = sum(stream.spends for stream in streams)
    return forecast(pacing, streams, SpendBounds(rate, rate), calibration.spread)
