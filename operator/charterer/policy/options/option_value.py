"""The value of each option to a job at an exchange rate: from now to its end, and as a move of a running job.

J(o) of ``phase_dp`` is the dollars to the job's end on option o, including the worth of its time. With J(o),

    a new run on o costs      J(o) + w·θ·e + g                     e, g: seconds and dollars of entering o once
    a move from o to o' gains J(o) − J(o') − (w·θ + c')·r − b      r: restart or standstill in place; b: dollars for
                                                                   nodes that must boot and pods that join

``phase_dp`` uses the same numbers for a later change, so a job does not postpone a change that pays now.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Stage
from charterer.policy.options.menu import Menu
from charterer.policy.solve.hull import Path
from charterer.policy.solve.phase_dp import BackwardInduction, CostToGo, UnitCosts, key_of

_MANY = 64
"""Number of job sizes whose solutions are kept."""


def in_place(here: Option, here_pods: int, to: Option, to_pods: int, fewest: int) -> bool:
    """Whether the change concerns only the number of equal pods, so that a resizable run need not restart.

    ``fewest``: the least number of pods that the run must have before and after; 0 if the run can never be resized in
    place.
    """
    same_pods = here.gpus * to_pods == to.gpus * here_pods
    enough = 0 < fewest <= min(here_pods, to_pods)
    alike = (here.pool, here.resource, here.variant) == (to.pool, to.resource, to.variant)
    return alike and enough and same_pods


@dataclass(frozen=True, slots=True)
class JobPosition:
    """The work and the progress of a job.

    ``total``: its work, in seconds of the reference option. ``done``: the fraction of the work that is done.
    """

    total: float
    done: float = 0.0

    @property
    def left(self) -> float:
        """The remaining work, in seconds of the reference option."""
        return self.total * (1.0 - self.done)


@dataclass(frozen=True, slots=True)
class Projection:
    """A job on an option, from now to its end.

    ``seconds``, ``dollars``: the remaining time and cost, including the entry into the option if it is still to come.
    ``total_cost``: the dollars plus the worth of the seconds to the budget. The best projection has the least total
    cost.
    """

    option: Option
    seconds: float
    dollars: float
    total_cost: float

    @classmethod
    def on(cls, option: Option, seconds: float, worth: float) -> Projection:
        """The projection of staying on one option for ``seconds``. ``worth``: dollars that a second is worth."""
        dollars = option.price.dollars_per_second * seconds
        return cls(option, seconds, dollars, worth * seconds + dollars)

    def on_nodes_left(self, seconds: float, start_up: float, worth: float) -> Projection:
        """The projection of a job that waits ``seconds`` for nodes that other jobs leave.

        These nodes need no start-up, and the wait costs time only. ``start_up``: seconds of a start-up of the option's
        nodes. ``worth``: dollars that a second of the job is worth.
        """
        later, dollars = seconds - start_up, -start_up * self.option.price.dollars_per_second
        total = self.total_cost + worth * later + dollars
        return Projection(self.option, self.seconds + later, self.dollars + dollars, total)

    @property
    def paid_dollars(self) -> float:
        """Dollars at the price that is really paid, as the job's cost is counted, if it stays on the option."""
        more = self.option.paid_price.dollars_per_second - self.option.price.dollars_per_second
        return self.dollars + more * self.seconds


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a running job.

    ``saved_seconds``: seconds by which the job ends sooner.
    ``cost``: additional dollars that the job costs; negative if the move saves money.
    ``gain``: dollars of the seconds saved, minus the cost.
    """

    to: Option
    saved_seconds: float
    cost: Money
    gain: float


class OptionValues:
    """The values of a menu's options for jobs whose life is worth ``worth`` = w·θ dollars a second."""

    def __init__(self, menu: Menu, worth: float) -> None:
        self.menu = menu
        self.worth = worth
        self._at = menu.table.index
        self._table = table = menu.table
        self._cheapest = min(table.prices, default=0.0)
        self._least_change = table.restart if table.in_place is None else min(table.restart, table.in_place.seconds)
        self._lives: dict[float, BackwardInduction] = {}
        self._fresh: dict[JobPosition, list[Projection]] = {}
        self._last: tuple[JobPosition, CostToGo] | None = None
        self._newcomer: tuple[float, Projection, Path] | None = None
        self._drawn: tuple[Path, tuple[Stage, ...]] | None = None

    def on_menu(self, option: Option) -> bool:
        """Whether the option is on the menu."""
        return key_of(option) in self._at

    def speed(self, option: Option, position: JobPosition) -> float:
        """The option's speed in the phase of the position. If the option is not on the menu, the result is its
        recorded speed."""
        return self.menu.speed(option, position.done)

    def is_trial(self, option: Option) -> bool:
        """Whether the menu offers that option's width to measure it."""
        at = self._at.get(key_of(option))
        return at is not None and self.menu.options[at].trial

    def change_seconds(self, here: Option, to: Option) -> float:
        """Seconds without training when a job goes from ``here`` to ``to``. If only its nodes change, they are those
        of a restart."""
        at = self._at.get(key_of(to))
        if at is None or key_of(here) == key_of(to):
            return self._table.restart
        return self._table.change_seconds(self._table.resizable_pool(here), at)

    def entering(self, position: JobPosition) -> list[Projection]:
        """The projections of all options for a new run, best first.

        Of equally good projections, the cheapest comes first, then the fastest.
        """
        if position.done:
            return self._entering(position)
        if position not in self._fresh:
            self._fresh = {position: self._entering(position)}
        return self._fresh[position]

    def newcomer(self, work: float) -> tuple[Projection, Path]:
        """The best projection of a new job of ``work``, and its path."""
        if self._newcomer is None or self._newcomer[0] != work:
            best = self.entering(JobPosition(work))[0]
            self._newcomer = work, best, self.path(best.option, JobPosition(work))
        return self._newcomer[1:]

    def stages(self, path: Path) -> tuple[Stage, ...]:
        """A path's options, each with the fraction of the work at which it ends. Equal neighbours are merged."""
        if self._drawn is None or self._drawn[0] is not path:
            stages: list[Stage] = []
            for until, option in zip(self.menu.until, path, strict=True):
                if stages and key_of(stages[-1].option) == key_of(option):
                    stages.pop()
                stages.append(Stage(until, option))
            self._drawn = path, tuple(stages)
        return self._drawn[1]

    def _entering(self, position: JobPosition) -> list[Projection]:
        to_go, options = self._to_go(position)
        money, seconds = to_go.points()
        dollars = [paid + option.entry_cost.dollars for paid, option in zip(money, options, strict=True)]
        seconds = [time + option.entry_seconds for time, option in zip(seconds, options, strict=True)]
        totals = [self.worth * time + paid for time, paid in zip(seconds, dollars, strict=True)]
        places = [(option.pool, option.gpus) for option in options]
        order = sorted(zip(totals, dollars, seconds, places, range(len(options)), strict=True))
        return [Projection(options[at], time, paid, total) for total, paid, time, _, at in order]

    def staying(self, here: Option, position: JobPosition) -> Projection:
        """The projection of a job that runs on ``here``."""
        at = self._at.get(key_of(here))
        if at is None:
            return Projection.on(here, position.left / here.speed, self.worth)
        to_go, options = self._to_go(position)
        money, time = to_go.point(at)
        return Projection(options[at], time, money, to_go.cost[at])

    def next_change(self, here: Option, position: JobPosition) -> float | None:
        """Seconds until a phase begins in which the best path leaves ``here``; None if the best path never leaves
        ``here``."""
        at = self._at.get(key_of(here))
        if at is None or len(self.menu.stages) == 1:
            return None
        to_go, _ = self._to_go(position)
        return to_go.seconds_until_switch(at)

    def path(self, option: Option, position: JobPosition) -> tuple[Option, ...]:
        """The option in each phase from the present one on, for a job that has ``option`` now."""
        to_go, _ = self._to_go(position)
        stages = self.menu.stages[self.menu.phase(position.done) :]
        return tuple(stage[at] for stage, at in zip(stages, to_go.path(self._at[key_of(option)]), strict=True))

    def paying(self, here: Option, position: JobPosition) -> list[Move]:
        """The moves that gain if their nodes are ready, the best first. Equally good moves are sorted by pool and
        width."""
        at, (to_go, options) = self._at.get(key_of(here)), self._to_go(position)
        gaining = self._gaining(here, position)
        moves = [self._move(here, at, to, options[to], to_go, position, rented=False) for to, _ in gaining]
        return sorted(
            (move for move in moves if move.gain > 0), key=lambda move: (-move.gain, move.to.pool, move.to.gpus)
        )

    def stays_to_the_end(self, here: Option, position: JobPosition) -> bool:
        """Whether no change can pay, now or later, for a job on ``here``; False if that is not known.

        No change can pay if the best option of each phase would save less than one change costs. This holds for most
        jobs at most times.
        """
        at = self._at.get(key_of(here))
        return at is not None and self._cannot_pay(at, position)

    def gains(self, here: Option, position: JobPosition) -> list[tuple[Option, float, float]]:
        """The moves that gain, as (option, dollars gained if its nodes are ready, dollars by which the gain is less
        if its nodes must boot)."""
        at, options = self._at.get(key_of(here)), self.menu.stages[self.menu.phase(position.done)]
        return [(options[to], gain, self._boot(here, at, to)) for to, gain in self._gaining(here, position)]

    def _gaining(self, here: Option, position: JobPosition) -> list[tuple[int, float]]:
        at = self._at.get(key_of(here))
        if at is not None and self._cannot_pay(at, position):
            return []
        to_go, _ = self._to_go(position)
        stay, worth, table = self.staying(here, position).total_cost, self.worth, self._table
        resizable, here_price = table.resizable_pool(here), self._price(here, at)
        return [
            (to, gain)
            for to, (cost, price) in enumerate(zip(to_go.cost, table.prices, strict=True))
            if to != at
            and (gain := stay - cost - (worth + price) * table.change_seconds(resizable, to)) > 0.0
            and (gain := gain - table.joining_cost(here_price, resizable, to)) > 0.0
        ]

    def move(self, here: Option, to: Option, position: JobPosition, *, rented: bool) -> Move:
        """The value of one move. ``rented``: whether its nodes must still be rented."""
        to_go, options = self._to_go(position)
        at = self._at[key_of(to)]
        return self._move(here, self._at.get(key_of(here)), at, options[at], to_go, position, rented=rented)

    def moving(self, here: Option, to: Option, position: JobPosition, *, rented: bool) -> Projection:
        """The projection to the end of a job that is moved from ``here`` now, the move included."""
        to_go, options = self._to_go(position)
        at = self._at[key_of(to)]
        seconds, dollars = self._moved(here, self._at.get(key_of(here)), at, to_go, rented=rented)
        return Projection(options[at], seconds, dollars, self.worth * seconds + dollars)

    def _move(
        self,
        here: Option,
        at: int | None,
        to: int,
        option: Option,
        to_go: CostToGo,
        position: JobPosition,
        *,
        rented: bool,
    ) -> Move:
        stay = self.staying(here, position)
        seconds, dollars = self._moved(here, at, to, to_go, rented=rented)
        saved, cost = stay.seconds - seconds, dollars - stay.dollars
        return Move(option, saved, Money.of(cost), self.worth * saved - cost)

    def _moved(self, here: Option, at: int | None, to: int, to_go: CostToGo, *, rented: bool) -> tuple[float, float]:
        """Seconds and dollars from now to the end of a job that is moved to ``to`` now."""
        money, time = to_go.point(to)
        table = self._table
        resizable = table.resizable_pool(here)
        change = table.change_seconds(resizable, to)
        boot = self._boot(here, at, to) if rented else 0.0
        joining = table.joining_cost(self._price(here, at), resizable, to)
        return time + change, money + table.prices[to] * change + boot + joining

    def _boot(self, here: Option, at: int | None, to: int) -> float:
        """Dollars for nodes that boot before a move from ``here`` to option ``to``."""
        if at is None:
            return self._table.prices[to] * self._table.start_seconds[to]
        return self._table.start_up_cost(at, to, here.pool == self.menu.options[to].pool)

    def _price(self, here: Option, at: int | None) -> float:
        """Dollars a second of the present option. If the option is on the menu, the menu's price counts."""
        return here.price.dollars_per_second if at is None else self._table.prices[at]

    @cached_property
    def _rates(self) -> UnitCosts:
        return UnitCosts(self._table, self.menu.until, self.worth)

    def _cannot_pay(self, at: int, position: JobPosition) -> bool:
        """Whether the best option of each phase would save less than one change costs, as for most jobs."""
        excess = self._rates.excess(at, position.total, position.done)
        return excess <= (self.worth + self._cheapest) * self._least_change

    def _life(self, total: float) -> BackwardInduction:
        life = self._lives.get(total)
        if life is None:
            if len(self._lives) >= _MANY:
                self._lives.clear()
            life = self._lives[total] = BackwardInduction(self._rates, total)
        return life

    def _to_go(self, position: JobPosition) -> tuple[CostToGo, tuple[Option, ...]]:
        if self._last is None or self._last[0] != position:
            self._last = position, CostToGo(self._life(position.total), position.done)
        return self._last[1], self.menu.stages[self.menu.phase(position.done)]
