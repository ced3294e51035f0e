"""How the room of pools that are too small is shared among the jobs in sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import JobId, PoolId
from charterer.domain.option import Option
from charterer.domain.plan import PoolVerdict
from charterer.policy.solve.allocation_program import NEAR


@dataclass(frozen=True, slots=True)
class Shares:
    """``starts``: the options of waiting jobs that get room. ``narrowed``: of running jobs that make it.

    ``pools``: the verdicts on those that are too small. ``waiting``: jobs that want their GPUs. ``making_room``: not
    all of the room of ``starts`` is there yet. ``gap``: by which fraction a better answer could be better at most.
    ``any_price``: whether a job waits that is late for its target whatever it gets, so that only time counts for it.
    """

    starts: Mapping[JobId, Option]
    narrowed: Mapping[JobId, Option]
    pools: Mapping[PoolId, PoolVerdict]
    waiting: int
    making_room: bool
    gap: float
    any_price: bool = False

    def about(self, pool: PoolId) -> str:
        """How a full pool's room is shared, and what one more node would bring, in words; empty for other pools."""
        verdict = self.pools.get(pool)
        if verdict is None:
            return ""
        text, whom, one = "", "it", "it"
        if self.waiting > 1:
            text = f"; the room of {pool} is shared among {self.waiting} waiting jobs by what their time is worth"
            whom, one = "them", "one of them"
        if self.gap > NEAR:
            text += f" (another sharing is worth {self.gap:.0%} more at most)"
        if self.any_price:
            return f"{text}; {one} is late for its targetCompletionTime whatever it gets, so it pays any price"
        if verdict.node_scarcity > verdict.payable:
            worth = f"more to {whom} than the {verdict.payable} that the budget may spend"
        else:
            worth = f"{verdict.node_scarcity} to {whom}, beyond its price"
        return f"{text}; one more node would be worth {worth}"
