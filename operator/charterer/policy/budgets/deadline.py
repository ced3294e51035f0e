"""Deadlines (spec.targetCompletionTime): what a second must be worth at least for a job's path to end in time.

A target is a wish within the budget: the dollars of its path beyond the cheapest are set aside before what a second is
worth to the others is solved for. They must be left in the period, and all limits of the budget apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.option import Option
from charterer.domain.plan import TargetOutlook
from charterer.domain.time import Instant, after, moment, seconds_between
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.bisection import bisect

MARGIN = 0.1
"""Fraction of its time by which a path must end before the target to be entered; staying on it needs no margin.
Measured speeds vary by a few percent from one report to the next, and a job must not move back and forth for that."""
_STARTS, _SETBACKS = 4.0, 2.0
"""What the reserve on nodes that are taken back is for, instead of the margin; who stays there needs a start less. Of
the rules that were tried on traces with 15 to 100 % of slack this one was within 2 % of the optimum by dynamic
programming. It hardly depends on the two numbers (1 to 4)."""
_LEAST, _MOST = 1e-9, 1e6
"""Multiples of the dearest option's price a second at which only money, or only time, counts."""
_HALVINGS = 16
"""Halvings of the range between those two: exact to 0.1 %."""


@dataclass(frozen=True, slots=True)
class DeadlineNeed:
    """A job with a target. ``worth``: dollars that a second of it is worth at least.

    ``ends``: seconds in which its path is expected to end; ``met``: whether that is in time. ``extra``: dollars that
    the path costs beyond the cheapest. ``fastest``: seconds that the fastest path of all takes.
    """

    job: Job
    worth: float
    ends: float
    extra: float
    met: bool
    fastest: float

    @property
    def outlook(self) -> TargetOutlook:
        """The end that is expected."""
        return TargetOutlook(self.ends, self.fastest, self.met)

    def note(self, now: Instant) -> str:
        """The sentence about the target."""
        target = self.job.target_completion or now
        words = f"target {moment(target):%Y-%m-%dT%H:%MZ}"
        if self.met:
            return words
        end = f"{moment(after(now, self.ends)):%Y-%m-%dT%H:%MZ}"
        if self.ends > self.fastest:
            return f"{words} cannot be met with what is left of the budget: the fastest path for that ends {end}"
        return f"{words} cannot be met: the fastest path ends {end}"


def deadline_need(
    job: Job, menu: Menu, position: JobPosition, now: Instant, money: float, waits: Mapping[PoolId, float]
) -> DeadlineNeed | None:
    """The job's way to its target; None without one that lies ahead, or where there is nothing to choose.

    ``money``: dollars that its path may cost beyond the cheapest. Where no path that costs no more ends in time, it is
    the fastest of those. ``waits``: seconds until a pool gives a node, of the pools where the job would have to wait.
    """
    left = 0.0 if job.target_completion is None else seconds_between(now, job.target_completion)
    fixed = job.allocation is not None and job.resize is ResizePolicy.NEVER
    if left <= 0.0 or fixed or not menu.known:
        return None
    dearest = max(menu.table.prices)
    least, most = _LEAST * dearest, _MOST * dearest

    def end_at(worth: float) -> _End:
        return _end(job, OptionValues(menu, worth), position, waits)

    slow, fast = end_at(least), end_at(most)

    def result(worth: float, end: _End) -> DeadlineNeed:
        return DeadlineNeed(
            job, worth, end.seconds, max(end.dollars - slow.dollars, 0.0), end.seconds <= left, fast.seconds
        )

    def search(enough: Callable[[_End], bool]) -> tuple[float, float]:
        """Two worths that are almost one: the last that is not enough, the first that is."""
        return bisect(least, most, lambda worth: enough(end_at(worth)), _HALVINGS)

    if slow.within(left):
        return result(least, slow)
    worth = search(lambda end: end.within(left))[1] if fast.within(left) else most
    if end_at(worth).dollars - slow.dollars > money:
        worth = search(lambda end: end.dollars - slow.dollars > money)[0]
    return result(worth, end_at(worth))


@dataclass(frozen=True, slots=True)
class _End:
    """Where a job ends up that does what pays: ``seconds`` and ``dollars`` to its end; ``stay``: if it changes nothing.

    ``stay`` is None while it does not run. ``reserve``: seconds by which it should end sooner.
    """

    seconds: float
    dollars: float
    stay: float | None
    reserve: float = 0.0

    def within(self, left: float) -> bool:
        """Whether the job ends in time; a change needs a margin unless staying is in time and the change is faster."""
        if self.stay is not None and self.stay + self.reserve <= left and self.seconds <= self.stay:
            return True
        return self.seconds + (self.reserve or MARGIN * self.seconds) <= left


def _end(job: Job, values: OptionValues, position: JobPosition, waits: Mapping[PoolId, float]) -> _End:
    if job.allocation is None:
        ways = [(way, waits.get(way.option.pool, 0.0)) for way in values.entering(position)]
        best, wait = min(ways, key=lambda entry: entry[0].worth + values.worth * entry[1])
        return _End(best.seconds + wait, best.dollars, None, _reserve(best.option, _STARTS))
    here = job.allocation.option
    stay = values.staying(here, position)
    moves = values.paying(here, position)
    if not moves:
        return _End(stay.seconds, stay.dollars, stay.seconds, _reserve(stay.option, _STARTS - 1.0))
    move = moves[0]
    return _End(
        stay.seconds - move.saved_seconds, stay.dollars + move.cost.dollars, stay.seconds, _reserve(move.to, _STARTS)
    )


def _reserve(option: Option, starts: float) -> float:
    """Seconds that a job on nodes that are taken back keeps until its target, beside the expected interruptions.

    They are for that many starts and ``_SETBACKS`` interruptions, each a start and half the work between two
    checkpoints.
    """
    lost = option.interruptions
    if lost is None:
        return 0.0
    return starts * option.entry_seconds + _SETBACKS * (option.entry_seconds + lost.interval / 2.0)
