"""Whether moving a running job to another option pays: its net gain in dollars.

    gain = w·θ·(x/s − x/s' − e) − (x·c'/s' + g − x·c/s)

with x the work left, s and c speed and price now, s' and c' there, and e and g what entering really costs: the
restart in seconds and, at the new price, in dollars; the start-up of nodes in dollars only, and only if they must
first be rented, because the job runs on meanwhile. These are the numbers that ``Option.entry_*`` is made of, so that
the plan never charges for less than what the act then costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from purser.domain.ids import Rate
from purser.domain.money import Money
from purser.domain.option import Option


@dataclass(frozen=True, slots=True)
class Move:
    """``saved_seconds`` of the job's life for ``cost`` (negative: money saved); ``gain`` in dollars, net."""

    to: Option
    saved_seconds: float
    cost: Money
    gain: float


def net_gain(
    here: Option, to: Option, work: float, rate: Rate, weight: float, restart_seconds: float, rented: bool
) -> Move:
    """The move's worth; ``rented`` says that its nodes are still to be rented."""
    saved = work / here.speed - work / to.speed - restart_seconds
    entry = to.price.dollars_per_second * (to.entry_seconds if rented else restart_seconds)
    cost = to.price.dollars_per_second * work / to.speed + entry - here.price.dollars_per_second * work / here.speed
    return Move(to, saved, Money(round(cost * 1_000_000)), weight * rate * saved - cost)


def unit_cost(option: Option, rate: Rate, weight: float) -> float:
    """(w·θ + c)/s: time and money of one unit of work, in dollars."""
    return (weight * rate + option.price.dollars_per_second) / option.speed


class Offers:
    """A menu's options with what each costs a unit of work at θ*: finds the moves that pay among many quickly."""

    def __init__(self, options: Sequence[Option], rate: Rate, weight: float, restart_seconds: float) -> None:
        self._rate = rate
        self._weight = weight
        self._restart = restart_seconds
        restart = [(weight * rate + option.price.dollars_per_second) * restart_seconds for option in options]
        units = [unit_cost(option, rate, weight) for option in options]
        self._offers = list(zip(units, restart, options, strict=True))
        self._least_unit, self._least_restart = min(units), min(restart)

    def paying(self, here: Option, work: float) -> list[Move]:
        """The moves with a gain (nodes ready), the best first; ties by pool and width."""
        now = unit_cost(here, self._rate, self._weight)
        if work * (now - self._least_unit) <= self._least_restart:
            return []
        gaining = [to for unit, restart, to in self._offers if work * (now - unit) > restart]
        moves = [self.net(here, to, work, rented=False) for to in gaining]
        return sorted((move for move in moves if move.gain > 0), key=lambda one: (-one.gain, one.to.pool, one.to.gpus))

    def net(self, here: Option, to: Option, work: float, *, rented: bool) -> Move:
        """The worth of one move."""
        return net_gain(here, to, work, self._rate, self._weight, self._restart, rented)


def in_place(here: Option, here_pods: int, to: Option, to_pods: int) -> bool:
    """Whether only the number of equal pods changes, so that a resizable run need not be restarted."""
    same_pods = here.gpus * to_pods == to.gpus * here_pods
    return here.pool == to.pool and here.variant == to.variant and here_pods > 1 and to_pods > 1 and same_pods
