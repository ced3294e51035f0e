"""How long a pool's nodes lived is counted before their rentals are forgotten, each once."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.rental import ENDED_BY_ITSELF, Rental, RentalPhase
from charterer.domain.steps import CountLifetime
from charterer.domain.time import seconds_between

_WITH_NOTICE = ReasonCode.INTERRUPTION.value
TAKEN = ENDED_BY_ITSELF | {_WITH_NOTICE, ReasonCode.LOST_NODE.value}
"""Reasons for which a node ended that would have gone on; all others are decisions to give it back."""


def lifetime_to_count(pool: Pool, rentals: Sequence[Rental]) -> CountLifetime | None:
    """The pool's rental that ended first of those that are not counted; None where all are."""
    ended = [
        (rental.ended, rental.launched, rental)
        for rental in rentals
        if rental.phase is RentalPhase.ENDED and rental.ended is not None and rental.launched is not None
    ]
    left = [row for row in ended if row[2].uid not in pool.lifetimes.counted]
    if not left:
        return None
    at, launched, rental = min(left, key=lambda row: (row[0], row[2].id))
    others = [
        other
        for other in rentals
        if other is not rental
        and other.launched is not None
        and other.launched <= at
        and (other.ended is None or (other.ended, other.id) > (at, rental.id))
    ]
    return CountLifetime(
        pool=pool.id,
        uid=rental.uid,
        hours=max(seconds_between(launched, at), 0.0) / 3600.0,
        at=at,
        taken=rental.released_because in TAKEN,
        announced=rental.released_because == _WITH_NOTICE,
        others=len(others),
        there=tuple(sorted(other.uid for other in rentals)),
        ordinal=rental.ordinal,
    )
