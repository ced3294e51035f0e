"""What a job's owner was told before it was submitted, and how that came out."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from charterer.domain.money import Money
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class JobQuote:
    """What was told at ``at``: that the job costs ``cost_low`` to ``cost_high``, and ends from ``end_low`` to
    ``end_high``, each in nine of ten cases. The ends are None where nobody knew when the job would start.
    """

    at: Instant
    cost_low: Money
    cost_high: Money
    end_low: Instant | None = None
    end_high: Instant | None = None


@dataclass(frozen=True, slots=True)
class QuoteOutcome:
    """Whether cost and end were within the quote; ``end`` is None where it named no end."""

    cost: bool
    end: bool | None


def outcome(quote: JobQuote, cost: Money, end: Instant) -> QuoteOutcome:
    """The outcome for a job that is complete."""
    ends = None
    if quote.end_low is not None and quote.end_high is not None:
        ends = quote.end_low <= end <= quote.end_high
    return QuoteOutcome(quote.cost_low <= cost <= quote.cost_high, ends)


_MOST_LOG = log(1e3)
"""The logarithm beyond which a ratio says only that something went wrong, as with a job that ended at once."""


def log_ratio(actual: float, predicted: float) -> float:
    """The logarithm of what came by what was predicted, both at least 0, within a factor of a thousand."""
    if actual <= 0.0 or predicted <= 0.0:
        return 0.0 if actual == predicted else _MOST_LOG if actual > predicted else -_MOST_LOG
    return min(max(log(actual / predicted), -_MOST_LOG), _MOST_LOG)
