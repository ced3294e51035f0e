"""Whether moving a running job to another option pays: its net gain in dollars.

    gain = w·θ·(x/s − x/s' − e) − (x·c'/s' + g − x·c/s)

with x the work left, s and c speed and price now, s' and c' there, and e and g what entering really costs: the
restart in seconds and, at the new price, in dollars; the start-up of nodes in dollars only, and only if they must
first be rented, because the job runs on meanwhile. These are the numbers that ``Option.entry_*`` is made of, so that
the plan never charges for less than what the act then costs.
"""

from __future__ import annotations

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


def gain_bound(here: Option, unit_cost: float, work: float, rate: Rate, weight: float, restart_seconds: float) -> float:
    """No move gains more; ``unit_cost`` is min (w·θ + c)/s over the menu, what a unit of work costs at best."""
    now = (weight * rate + here.price.dollars_per_second) / here.speed
    return work * (now - unit_cost) - weight * rate * restart_seconds


def unit_cost(option: Option, rate: Rate, weight: float) -> float:
    """(w·θ + c)/s: time and money of one unit of work, in dollars."""
    return (weight * rate + option.price.dollars_per_second) / option.speed


def in_place(here: Option, here_pods: int, to: Option, to_pods: int) -> bool:
    """Whether only the number of equal pods changes, so that a resizable run need not be restarted."""
    same_pods = here.gpus * to_pods == to.gpus * here_pods
    return here.pool == to.pool and here.variant == to.variant and here_pods > 1 and to_pods > 1 and same_pods
