"""How many dollars a second a budget may plan with from now on (docs/theory/budgets.md has the reasoning).

    allowed = M / h,   M = aim − spent + b·(h − left) = b·h + B        B = b·(time since it opened) − spent

b is the period's aim, spread evenly over it, and ``left`` the time until its end. h is the horizon: that time, but two
days at least. M is all the money there is for it, also for what running jobs will still cost: they are in the load
(``demand``), so that it makes no difference to the exchange rate which jobs already run.

What commitments will cost within h, nodes that are paid for whether they are used or not, is no longer there to decide
about: it is taken out of M. Jobs cost next to nothing there, and none of it is in the load (ADR 77).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from charterer.domain.billing import opening_in
from charterer.domain.budget import Budget
from charterer.domain.money import Money
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, seconds_between

LEAST_HORIZON_SECONDS = 2 * 86_400.0
"""Seconds below which the horizon does not shrink: the last jobs of a period would bear all of the correction."""
CARRIED_HORIZON_SECONDS = 30 * 86_400.0
"""The horizon of money that is carried over: no period's end is ahead of it."""
COMMITTED_AHEAD_SECONDS = 10 * 86_400.0
"""Seconds ahead whose money may be committed to jobs where it is too little for all of them."""


@dataclass(frozen=True, slots=True)
class PacingState:
    """One budget's money at one instant, in dollars and seconds.

    ``aim`` is to be spent over ``seconds``, of which ``elapsed`` are over; ``spent`` of it is. ``rate``: dollars
    a second that are being spent now; ``left``: what running jobs will still cost. ``carried_fraction``: of the balance
    that is not lost at the end. ``opening``: dollars spent in the period before the budget existed, which
    are in neither ``aim`` nor ``spent``. ``unavoidable``: dollars of ``left`` that will be spent in the period whatever
    is planned. ``commitments``: each with its dollars a second, and for how many seconds it still goes on.
    """

    aim: float
    seconds: float
    elapsed: float
    spent: float
    rate: float = 0.0
    left: float = 0.0
    carried_fraction: float = 0.0
    opening: float = 0.0
    unavoidable: float = 0.0
    commitments: tuple[tuple[float, float], ...] = ()

    def committed(self, seconds: float) -> float:
        """Dollars that commitments cost within so many seconds."""
        return sum([rate * min(left, seconds) for rate, left in self.commitments])

    @property
    def still_committed(self) -> float:
        """Dollars that commitments cost until the period's end."""
        return self.committed(max(self.seconds - self.elapsed, 0.0))

    def without_commitments(self) -> PacingState:
        """The money for jobs alone, as if commitments had no future."""
        return replace(self, aim=max(self.aim - self.still_committed, 0.0), commitments=())

    @property
    def target_rate(self) -> float:
        """b: dollars a second that spend the aim evenly."""
        return self.aim / self.seconds

    @property
    def horizon(self) -> float:
        """h, now."""
        return horizon(self.seconds - self.elapsed, self.carried_fraction)

    @property
    def balance(self) -> float:
        """B: dollars of the target up to now that are not spent; negative: a deficit."""
        return self.target_rate * self.elapsed - self.spent

    @property
    def coming(self) -> float:
        """Seconds ahead whose money may be committed to jobs now: of the present period, ten days at most."""
        return min(max(self.seconds - self.elapsed, 0.0), COMMITTED_AHEAD_SECONDS)

    @property
    def committable(self) -> float:
        """Dollars that may be committed to jobs, those that run included: the target up to the end of that time, less
        what is spent and what commitments will still cost."""
        target = self.target_rate * (self.elapsed + self.coming)
        return max(target - self.spent - self.committed(self.coming), 0.0)


def pacing_state(budget: Budget, spent: Money, period: tuple[Instant, Instant], now: Instant) -> PacingState:
    """The pacing of a budget that spent ``spent`` in the period, with nothing running.

    A budget made within the period spreads its aim over what was left of it then, beside its opening spend: where that
    is not known, the aim is the part of the amount for that time, so that the rate is that of a whole period.
    """
    start, end = max(period[0], min(budget.created, now)), period[1]
    before = opening_in(budget, period[0]).dollars
    return PacingState(
        aim=max(budget.aim.dollars - before, 0.0),
        seconds=seconds_between(start, end),
        elapsed=seconds_between(start, now),
        spent=spent.dollars - before,
        carried_fraction=budget.carry_over_percent / 100,
        opening=before,
    )


def commitments_of(pools: Iterable[Pool], now: Instant) -> tuple[tuple[float, float], ...]:
    """What all nodes of a committed pool cost in dollars a second, and the seconds until its end, for each pool."""
    return tuple(
        [
            (pool.price_override.dollars_per_second * pool.max_nodes, seconds_between(now, pool.committed.until))
            for pool in pools
            if pool.committed is not None and pool.price_override is not None
        ]
    )


def horizon(time_left: float, carried_fraction: float = 0.0) -> float:
    """h: seconds for which the money that is left has to last.

    What will be carried over lasts longer than to the end of the period; what is lost there does not.
    """
    until_the_end = max(time_left, LEAST_HORIZON_SECONDS)
    if not carried_fraction:
        return until_the_end
    return 1.0 / (carried_fraction / CARRIED_HORIZON_SECONDS + (1.0 - carried_fraction) / until_the_end)


def allowed_rate(pacing: PacingState) -> float:
    """Dollars a second that may be committed to; never negative."""
    committed = pacing.committed(pacing.horizon) / pacing.horizon
    return max(pacing.target_rate + pacing.balance / pacing.horizon - committed, 0.0)
