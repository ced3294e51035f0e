"""An option: one way to run a job, with its speed, its price and the one-time cost of entering it."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, Price


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a job: a pool, a width and a variant.

    ``speed`` is units of work per second (the class's reference option has speed 1); ``price`` is the marginal
    bill while it runs (the width's share of its nodes). ``entry_seconds`` and ``entry_cost`` are paid once when the
    option is entered: node start-up, restart, billing minimum. Plan and act use these same two numbers.
    ``trial``: its speed was never measured, and is as hoped (``policy.options.optimism``).
    """

    pool: PoolId
    gpus: int
    speed: float
    price: Price
    entry_seconds: float = 0.0
    entry_cost: Money = ZERO
    variant: str = ""
    trial: bool = False
