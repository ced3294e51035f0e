"""How the room of pools that are too small is allotted to the jobs in sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import JobId, PoolId
from charterer.domain.option import Option
from charterer.domain.plan import PoolVerdict
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.facts_of_waits import RoomAllotted
from charterer.policy.options.option_value import Projection
from charterer.policy.solve.allocation_program import NEAR


@dataclass(frozen=True, slots=True)
class RoomWait:
    """A job's wait for GPUs that come free in ``seconds``. ``end``: on them to its end, the wait included.

    ``instead``: what it could have now, to its end; None where there is nothing. ``until``: seconds after which the
    wait no longer pays, if nothing comes free.
    """

    seconds: float
    end: Projection
    instead: Projection | None = None
    until: float = inf

    @property
    def option(self) -> Option:
        """What it waits for."""
        return self.end.option


@dataclass(frozen=True, slots=True)
class RoomAllotment:
    """``starts``: the options of waiting jobs that get room. ``narrowed``: of running jobs that make it.

    ``waits``: of jobs that get none, for GPUs that are expected to come free. ``pools``: the verdicts on those that
    are too small. ``waiting``: jobs that want their GPUs. ``making_room``: not all of the room of ``starts`` is there
    yet. ``gap``: by which fraction a better answer could be better at most.
    ``any_price``: whether a job waits that is late for its target whatever it gets, so that only time counts for it.
    """

    starts: Mapping[JobId, Option]
    narrowed: Mapping[JobId, Option]
    waits: Mapping[JobId, RoomWait]
    pools: Mapping[PoolId, PoolVerdict]
    waiting: int
    making_room: bool
    gap: float
    any_price: bool = False

    def about(self, pool: PoolId, why: Fact) -> Fact:
        """How a full pool's room is allotted, and what one more node would bring, told after ``why``; only that for
        other pools.
        """
        verdict = self.pools.get(pool)
        if verdict is None:
            return why
        gap = self.gap if self.gap > NEAR else None
        return RoomAllotted(why, pool, self.waiting, gap, self.any_price, verdict.node_scarcity, verdict.payable)
