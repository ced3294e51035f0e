"""The cost of many rentals up to now, summed quickly.

Nearly all have cost one price since their launch: of those only three numbers are kept. The rule is
``domain.billing``'s; this only goes through the rentals faster, to the same micro-dollar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import sub

from charterer.domain.billing import accrued, accrued_before, opening_in
from charterer.domain.budget import Budget
from charterer.domain.money import Money, total
from charterer.domain.period import period_bounds
from charterer.domain.rental import Rental
from charterer.domain.time import Instant
from charterer.incremental import Remember
from charterer.policy.nodes.rental_index import PoolRentals

_SECOND = 1_000_000
"""Microseconds."""


class RentalMeter:
    """The cost of some rentals up to any instant, since ``start`` and in all.

    ``_even``: launch, micro-dollars an hour and billing minimum in seconds of each that runs at one price. ``_before``:
    micro-dollars that each of these cost before ``start``, None where none did. ``_others``: those with several prices.
    ``_ended``: sums of those that have ended. ``_latest``: the last begin or end of any.
    """

    def __init__(self, rentals: Sequence[Rental], start: Instant) -> None:
        self._rentals = rentals
        self._start = start
        known = [at for rental in rentals for at in (rental.launched, rental.ended) if at is not None]
        self._latest = max(known, default=Instant(0))
        self._ended = self._sum([rental for rental in rentals if rental.ended is not None], self._latest)
        running = [rental for rental in rentals if rental.ended is None and rental.launched is not None]
        even = [rental for rental in running if len(rental.segments) < 2]
        self._others = [rental for rental in running if len(rental.segments) >= 2]
        self._even = [
            (launched, _price(rental), rental.billing_minimum_seconds)
            for rental in even
            if (launched := rental.launched) is not None
        ]
        before = [accrued_before(rental, start).micros for rental in even]
        self._before = before if any(before) else None

    def paid(self, now: Instant) -> tuple[Money, Money]:
        """The cost up to ``now``: since ``start``, and in all."""
        if now < self._latest:
            return self._sum(self._rentals, now)
        costs = [
            (micros * (lasted if (lasted := -((launched - now) // _SECOND)) > least else least) + 1800) // 3600
            for launched, micros, least in self._even
        ]
        later = costs if self._before is None else map(max, map(sub, costs, self._before), repeat(0))
        since, ever = self._sum(self._others, now)
        return since + self._ended[0] + Money(sum(later)), ever + self._ended[1] + Money(sum(costs))

    def _sum(self, rentals: Iterable[Rental], now: Instant) -> tuple[Money, Money]:
        costs = [(rental, accrued(rental, now).micros) for rental in rentals]
        later = sum([max(cost - accrued_before(rental, self._start).micros, 0) for rental, cost in costs])
        return Money(later), Money(sum([cost for _, cost in costs]))


def _price(rental: Rental) -> int:
    return (rental.segments[0].price if rental.segments else rental.worst).micros_per_hour


def spent(budget: Budget, pools: Iterable[PoolRentals], now: Instant, remember: Remember) -> tuple[Money, Money]:
    """``domain.billing.spent``, and all that the budget's rentals have ever cost, whatever the period.

    ``pools``: the budget's rentals by pool.
    """
    balance = budget.balance
    start = period_bounds(budget.time_zone, now)[0] if balance is None else balance.period_start
    folded: frozenset[str] = frozenset() if balance is None else balance.folded
    paid = [
        remember(rental_meter, pool, folded & {rental.uid for rental in pool.rentals}, start).paid(now)
        for pool in pools
    ]
    in_period = opening_in(budget, start) + total(since for since, _ in paid)
    ever = total(ever for _, ever in paid)
    return (in_period, ever) if balance is None else (balance.settled + in_period, balance.lifetime + ever)


class StartUps:
    """What the live nodes of a pool have cost before they took pods: ``ready``, in micro-dollars, of those that do."""

    def __init__(self, pool: PoolRentals) -> None:
        begun = [(rental, launched) for rental in pool.live if (launched := rental.launched) is not None]
        took = [(ready - launched, _price(rental)) for rental, launched in begun if (ready := rental.ready) is not None]
        self._ready = sum([max(micros, 0) * price for micros, price in took])
        self._booting = [(launched, _price(rental)) for rental, launched in begun if rental.ready is None]

    def paid(self, now: Instant) -> Money:
        """Dollars up to now."""
        booting = sum([max(now - launched, 0) * price for launched, price in self._booting])
        return Money((self._ready + booting) // (3600 * _SECOND))


def rental_meter(pool: PoolRentals, folded: frozenset[str], start: Instant) -> RentalMeter:
    """The meter of the rentals whose uid is not in ``folded``; the others are in the balance already."""
    return RentalMeter([rental for rental in pool.rentals if rental.uid not in folded], start)
