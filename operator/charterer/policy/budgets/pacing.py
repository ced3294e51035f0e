"""How many dollars a second a budget may commit itself to from now on (docs/theory/budgets.md has the reasoning).

    allowed = b + B / h        b: the period's aim, spread evenly over it       h: the horizon over which B is paid back
    B = b·(time since it opened) − spent − (r − b)·min(L / max(r, b), h / 2)

r is what is being spent a second now and L what running jobs will still cost: for L / r seconds they spend r where the
plan has b. That is committed already, and counted now instead of when it has been spent. Of more than half a horizon
it is no commitment: jobs that can be resized follow θ, and a correction must stay smaller than what it corrects.
"""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.budget import Budget
from charterer.domain.money import Money
from charterer.domain.time import Instant, seconds_between

HORIZON_SECONDS = 10 * 86_400.0
"""Seconds over which a balance is paid back: longer than a week, whose quiet weekend is no surplus, and short enough to
make up for all but 5 % (e⁻³) in a month."""
LEAST_HORIZON_SECONDS = 2 * 86_400.0
"""Seconds below which the horizon does not shrink: the last jobs of a period would bear all of the correction."""


@dataclass(frozen=True, slots=True)
class PacingState:
    """One budget's money at one instant, in dollars and seconds.

    ``aim`` is to be spent over ``seconds``, of which ``elapsed`` are over; ``spent`` of it is. ``rate``: dollars
    a second that are being spent now; ``left``: what running jobs will still cost. ``carried_fraction``: of the balance
    that is not lost at the end. ``opening``: dollars spent in the period before the budget existed, which
    are in neither ``aim`` nor ``spent``. ``unavoidable``: dollars of ``left`` that will be spent in the period whatever
    is planned.
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

    @property
    def target_rate(self) -> float:
        """b: dollars a second that spend the aim evenly."""
        return self.aim / self.seconds

    @property
    def horizon(self) -> float:
        """h, now."""
        return horizon(self.seconds - self.elapsed, self.carried_fraction)

    @property
    def committed_excess(self) -> float:
        """Dollars that running jobs will spend beyond the target for that time; negative if less."""
        most = max(self.rate, self.target_rate)
        return (self.rate - self.target_rate) * min(self.left / most, self.horizon / 2) if most else 0.0

    @property
    def balance(self) -> float:
        """B: dollars of the target up to now that are neither spent nor committed; negative: a deficit."""
        return self.target_rate * self.elapsed - self.spent - self.committed_excess

    @property
    def coming(self) -> float:
        """Seconds ahead whose money may be committed to jobs now: of the present period, ten days at most."""
        return min(max(self.seconds - self.elapsed, 0.0), HORIZON_SECONDS)

    @property
    def committable(self) -> float:
        """Dollars that may still be committed to jobs: the target up to the end of that time, less what is spent and
        what running jobs will still cost."""
        return max(self.target_rate * (self.elapsed + self.coming) - self.spent - self.left, 0.0)


def pacing_state(budget: Budget, spent: Money, period: tuple[Instant, Instant], now: Instant) -> PacingState:
    """The pacing of a budget that spent ``spent`` in the period, with nothing running.

    A budget made within the period spreads its aim over what was left of it then, beside its opening spend.
    """
    start, end = max(period[0], min(budget.created, now)), period[1]
    before = budget.opening_spend.dollars if budget.created >= period[0] else 0.0
    return PacingState(
        aim=max(budget.aim.dollars - before, 0.0),
        seconds=seconds_between(start, end),
        elapsed=seconds_between(start, now),
        spent=spent.dollars - before,
        carried_fraction=budget.carry_over_percent / 100,
        opening=before,
    )


def horizon(time_left: float, carried_fraction: float = 0.0) -> float:
    """h: seconds over which a balance is paid back.

    What will be carried over has the whole horizon; what is lost at the end of the period has until then.
    """
    until_the_end = time_left if time_left < HORIZON_SECONDS else HORIZON_SECONDS
    until_the_end = until_the_end if until_the_end > LEAST_HORIZON_SECONDS else LEAST_HORIZON_SECONDS
    if not carried_fraction:
        return until_the_end
    return 1.0 / (carried_fraction / HORIZON_SECONDS + (1.0 - carried_fraction) / until_the_end)


def allowed_rate(pacing: PacingState) -> float:
    """Dollars a second that may be committed to; never negative."""
    return max(pacing.target_rate + pacing.balance / pacing.horizon, 0.0)
