"""The quote that a job's owner got before submitting it, and whether the quote was right."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from charterer.domain.money import Money
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class JobQuote:
    """A quote made at ``at``: the 90 % intervals of the job's cost and of its end.

    The ends are None if it was unknown when the job would start.
    """

    at: Instant
    cost_low: Money
    cost_high: Money
    end_low: Instant | None = None
    end_high: Instant | None = None


@dataclass(frozen=True, slots=True)
class QuoteOutcome:
    """Whether cost and end were within the quote. ``end`` is None if the quote named no end."""

    cost: bool
    end: bool | None


def outcome(quote: JobQuote, cost: Money, end: Instant) -> QuoteOutcome:
    """The outcome of a quote for a completed job."""
    ends = None
    if quote.end_low is not None and quote.end_high is not None:
        ends = quote.end_low <= end <= quote.end_high
    return QuoteOutcome(quote.cost_low <= cost <= quote.cost_high, ends)


_MOST_LOG = log(1e3)
"""Largest logarithm of a ratio. A larger ratio only says that something went wrong, as for a job that ended at once."""


def log_ratio(actual: float, predicted: float) -> float:
    """log(actual ÷ predicted), limited to a factor of a thousand. Both must be at least 0."""
    if actual <= 0.0 or predicted <= 0.0:
        return 0.0 if actual == predicted else _MOST_LOG if actual > predicted else -_MOST_LOG
    return min(max(log(actual / predicted), -_MOST_LOG), _MOST_LOG)
