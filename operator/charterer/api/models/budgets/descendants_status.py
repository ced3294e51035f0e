"""The dollars of a GPUBudget and all budgets below it, as its status shows them."""

from __future__ import annotations

from typing import Self

from charterer.api.models.base import ApiModel, Cents
from charterer.domain.plan import SpendVerdict


class DescendantsStatus(ApiModel):
    """The dollars of a budget and all budgets below it, in the current month of each."""

    spent: Cents
    """Dollars spent, running nodes included. While the month has begun for some of them only: those of the month in
    which they spent more."""
    committed: Cents
    """Dollars that the period will cost at most if nothing more is rented."""
    forecast: Cents | None = None
    """Dollars expected to be spent by the end of the period. Absent while the forecast of one of them is."""
    forecast_low: Cents | None = None
    """Lower end of the 90 % interval of forecast, as if what they spend were independent."""
    forecast_high: Cents | None = None
    """Upper end of the 90 % interval of forecast."""

    @classmethod
    def from_domain(cls, verdict: SpendVerdict) -> Self:
        """The dollars as they are shown."""
        forecast = verdict.forecast
        return cls(
            spent=verdict.spent,
            committed=verdict.committed,
            forecast=None if forecast is None else forecast.expected,
            forecast_low=None if forecast is None else forecast.low,
            forecast_high=None if forecast is None else forecast.high,
        )
