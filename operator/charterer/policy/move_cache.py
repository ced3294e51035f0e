"""What running jobs would gain by moving, kept for as long as neither they nor their menus change.

With x units of work left, r seconds to change, and s, c an option's speed and price, a job on a gains by a move to o

    gain_o(θ) = x·(θ + c_a)/s_a − x·(θ + c_o)/s_o − (θ + c_o)·r                 (θ times the job's weight)

and b_o dollars less where nodes of o must start up first. Exchange rates change a little with most events, so jobs are
looked at for all rates around the present one. Two things are known of such an interval from its ends:

- Keeping a to the end costs more than the best option of each phase by E(θ), a sum of straight lines less the least of
  some: a convex function. Where E is less than the cheapest change, itself a straight line, no move can pay and none
  will later; so if that is so at both ends it is so between them. That is where most jobs are.
- With a single phase each gain_o is a straight line. Where none pays on nodes still to be rented, what is left are
  options that pay if they are there already.

Where neither says enough, and where pools are full (their prices move with θ), what is found holds at its own θ only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from charterer.domain.ids import BudgetId, JobId, Rate
from charterer.domain.option import Option
from charterer.domain.plan import Verdict
from charterer.policy.budgets.demand import GroupKey
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import SURE, JobPosition, OptionValues, ScarcityCharge
from charterer.policy.solve.phase_dp import key_of

if TYPE_CHECKING:
    from charterer.policy.budgets.solution import BudgetSolution, GroupAssignment


@dataclass(frozen=True, slots=True)
class CandidateMove:
    """A move that may pay: by slope·(worth of a second) − ``cost`` dollars where its nodes are ready, and by ``boot``
    less where they must be rented.
    """

    to: Option
    slope: float
    cost: float
    boot: float

    def gain(self, worth: float) -> float:
        """Dollars, where its nodes are ready."""
        return self.slope * worth - self.cost


@dataclass(frozen=True, slots=True)
class StableInterval:
    """What a job, as it was read, can gain on a menu while a second of it is worth ``least`` to ``most`` dollars.

    ``chances``: all moves that pay somewhere in that interval. ``again``: seconds to the next phase for which another
    option is better. ``forced``: why it may not stay at all; empty when it may. A menu is another one as soon as
    anything of the pools is by which jobs choose.
    """

    reading: JobFacts
    menu: Menu
    charge: ScarcityCharge | None
    least: float
    most: float
    chances: Sequence[CandidateMove] = ()
    again: float | None = None
    forced: str = ""

    @property
    def still(self) -> bool:
        """Whether there is nothing for it to gain."""
        return not self.chances and not self.forced

    def holds(self, reading: JobFacts, prospects: OptionValues) -> bool:
        """Whether it still says the truth."""
        return (
            self.reading is reading
            and self.menu is prospects.menu
            and self.least <= prospects.worth <= self.most
            and self.charge == prospects.charge
        )


@dataclass(frozen=True, slots=True)
class StableGroup:
    """Of a cohort's movable jobs only the ``restless`` may move while a second is worth ``least`` to ``most`` dollars.

    ``again``: of all others together.
    """

    cohort: JobGroup
    menu: Menu
    charge: ScarcityCharge | None
    least: float
    most: float
    restless: Sequence[JobFacts]
    again: float | None

    def holds(self, cohort: JobGroup, prospects: OptionValues) -> bool:
        """Whether it still says the truth."""
        return (
            self.cohort is cohort
            and self.menu is prospects.menu
            and self.least <= prospects.worth <= self.most
            and self.charge == prospects.charge
        )


def calm(cohort: JobGroup, prospects: OptionValues, rests: Mapping[JobId, StableInterval]) -> StableGroup:
    """What the rests of all movable jobs say together."""
    still = [one for one in rests.values() if one.still]
    return StableGroup(
        cohort=cohort,
        menu=prospects.menu,
        charge=prospects.charge,
        least=max([one.least for one in still], default=0.0),
        most=min([one.most for one in still], default=inf),
        restless=[one.reading for one in rests.values() if not one.still],
        again=min([one.again for one in still if one.again is not None], default=None),
    )


@dataclass(frozen=True, slots=True)
class CachedVerdicts:
    """What was thought of a cohort's runners, ``verdicts``, and all that it follows from."""

    cohort: JobGroup
    prospects: OptionValues
    work: float
    rate: Rate
    feasible: bool
    verdicts: Mapping[JobId, Verdict]

    def holds(self, cohort: JobGroup, share: GroupAssignment, standing: BudgetSolution) -> bool:
        """Whether the same would be said again."""
        return (
            self.cohort is cohort
            and self.prospects is share.prospects
            and self.rate == standing.rate
            and self.feasible == standing.feasible
            and self.work == share.group.work
        )


@dataclass(slots=True)
class GroupCache:
    """What was found out about the runners of one cohort."""

    rests: dict[JobId, StableInterval] = field(default_factory=dict)
    calm: StableGroup | None = None
    said: CachedVerdicts | None = None


GroupCaches = dict[tuple[BudgetId, GroupKey], GroupCache]
"""By budget and cohort; filled while a plan is made, from that of the plan before."""


def look(
    reading: JobFacts, here: Option, prospects: OptionValues, position: JobPosition, forced: str
) -> StableInterval:
    """What the job can gain, from scratch."""
    menu, charge, worth = prospects.menu, prospects.charge, prospects.worth
    if forced or not menu.known or not reading.job.remaining:
        return StableInterval(reading, menu, charge, 0.0, inf, forced=forced)
    if charge is None:
        if prospects.nothing_pays(here, position):
            return StableInterval(reading, menu, charge, *prospects.around)
        at = menu.ways.places.get(key_of(here))
        if at is not None and len(menu.stages) == 1:
            least, most, found = unless_rented(menu, at, position.left, prospects.around)
            if least <= worth <= most:
                return StableInterval(reading, menu, charge, least, most, found)
    found = [CandidateMove(to, 0.0, -gain, boot) for to, gain, boot in prospects.gains(here, position)]
    return StableInterval(reading, menu, charge, worth, worth, found, prospects.next_change(here, position))


def unless_rented(
    menu: Menu, here: int, left: float, around: tuple[float, float]
) -> tuple[float, float, Sequence[CandidateMove]]:
    """Of a menu with one phase: the part of ``around`` in which no move pays whose nodes must be rented (empty where
    the first is more than the second), and the moves that pay somewhere in it if their nodes are ready.
    """
    ways = menu.ways
    prices, starts, fleet, pool = ways.prices, ways.starts, ways.fleets[here], menu.options[here].pool
    stay = left / ways.speeds[0][here]
    bill = prices[here] * stay
    low, high = least, most = around
    found: list[CandidateMove] = []
    for to, (speed, price, start, option) in enumerate(zip(ways.speeds[0], prices, starts, menu.options, strict=True)):
        if to == here:
            continue
        go = left / speed + ways.change(fleet, to)
        slope, cost = stay - go, price * go - bill
        steep, cheap = slope + SURE * (stay + go), cost - SURE * (price * go + bill)
        if steep * low <= cheap and steep * high <= cheap:
            continue
        boot = max(price - prices[here] if option.pool == pool else price, 0.0) * start
        found.append(CandidateMove(option, slope, cost, boot))
        bound = cheap + boot * (1.0 - SURE)
        if steep > 0.0:
            most = min(most, bound / steep)
        elif steep < 0.0:
            least = max(least, bound / steep)
        elif bound < 0.0:
            return inf, 0.0, ()
    return least, most, found
