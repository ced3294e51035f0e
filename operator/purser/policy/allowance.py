"""How many dollars a second a budget may spend from now on."""

from __future__ import annotations

from purser.domain.money import Money
from purser.domain.time import Instant, seconds_between

BLEND_SECONDS = 86_400.0
"""Over its last day a period blends into the next one, so that θ* does not jump at midnight of the first."""


def allowed_rate(amount: Money, spent: Money, period: tuple[Instant, Instant], now: Instant) -> float:
    """Dollars per second that just use up what is left by the period's end; never negative.

    With less than a day left the next day is looked at instead: what is left, and the next period's share of it.
    """
    start, end = period
    left = max(amount.dollars - spent.dollars, 0.0)
    time_left = max(seconds_between(now, end), 0.0)
    if time_left >= BLEND_SECONDS:
        return left / time_left
    next_share = amount.dollars * (BLEND_SECONDS - time_left) / seconds_between(start, end)
    return (left + next_share) / BLEND_SECONDS
