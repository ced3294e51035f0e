"""Narrow jobs that wait for GPUs that others are about to leave, instead of renting a node that would mostly be idle.

A new node of S GPUs, of which the jobs that wait want K, bills the rest for nobody while it starts: (S − K)·c·T dollars
(c: dollars a second of a GPU, T: seconds to start). No node is rented for them before their waiting has cost as much.
So waiting in vain costs at most twice what knowing the future would have (ski rental, as in ``reversal_guard``). With
Θ = Σ w·θ and L = Σ w·θ·(waited so far), both over these jobs, they wait if GPUs come free on a node in use within

    ((S − K)·c·T − L) / Θ    seconds.

A job that is alone has the longest wait: with others K and Θ are larger. So the latest instant that it is told holds
while θ does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.time import Instant, after, moment, seconds_between
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.budgets import reasons

_RENTED_AFTER = 0.001
"""Seconds after the end of a wait at which the plan is made again: then nothing of it is left."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A job for which a node would be rented. ``worth``: dollars of a second; ``waited``: seconds so far."""

    job: Job
    option: Option
    worth: float
    waited: float


class HoleWaits:
    """The pools of one budget of which no node is rented now for narrow jobs, and why."""

    def __init__(self, draft: PlanBuilder) -> None:
        self._draft = draft
        self._solution = draft.solution
        self._now = draft.snapshot.now
        self._soonest: dict[PoolId, float] = {}

    def look(self, queue: Iterable[tuple[Job, Option]]) -> None:
        """Find the pools, given who waits, each with the option that it would be given first.

        A job that has a target waits for nothing.
        """
        if not self._solution.feasible:
            return
        waiting: dict[PoolId, list[_Waiter]] = {}
        for job, option in queue:
            narrow = option.gpus < self._size(option.pool)
            if narrow and job.id not in self._solution.deadline_needs and self._draft.must_rent(job, option):
                waiting.setdefault(option.pool, []).append(self._waiter(job, option))
        for pool, waiters in waiting.items():
            allowed = self._allowed(pool, waiters)
            if allowed <= 0.0 or not self._draft.may_rent(pool):
                continue
            soonest = self._next_hole(pool, min(waiter.option.gpus for waiter in waiters))
            if soonest <= allowed:
                self._soonest[pool] = soonest
                self._draft.decided.again_at.append(after(self._now, allowed + _RENTED_AFTER))

    def reason(self, job: Job, option: Option) -> Reason | None:
        """Why no node is rented for the job's option now; None where one may be."""
        soonest = self._soonest.get(option.pool)
        narrow = option.gpus < self._size(option.pool)
        if soonest is None or not narrow or job.id in self._solution.deadline_needs:
            return None
        if not self._draft.must_rent(job, option):
            return None
        waiter = self._waiter(job, option)
        idle = self._idle_cost(option.pool, option.gpus)
        text = f"{reasons.name(option)} wanted: expected in {reasons.format_duration(soonest)} on a node that is in use"
        text += f", whereas the other GPUs of a new node would cost {reasons.format_money(idle)} while it starts"
        text += f"; it is rented at {moment(self._latest(waiter)):%Y-%m-%dT%H:%M:%SZ} at the latest"
        seconds = -job.weight * soonest
        return Reason(ReasonCode.WAITING_FOR_FREE_GPUS, seconds, Money.of(-idle), text)

    def _size(self, pool: PoolId) -> int:
        return self._draft.snapshot.pools[pool].gpus_per_node or 1

    def _waiter(self, job: Job, option: Option) -> _Waiter:
        share = self._solution.share(job)
        worth = 0.0 if share is None else share.group.worth(self._solution.rate)
        since = (
            self._now if job.allocation is not None else max([job.created, *(run.until for run in job.records[-1:])])
        )
        return _Waiter(job, option, worth, max(seconds_between(since, self._now), 0.0))

    def _idle_cost(self, pool: PoolId, wanted: int) -> float:
        """Dollars for the GPUs of a new node that nobody wants, while it starts."""
        there, size = self._draft.snapshot.pools[pool], self._size(pool)
        price = 0.0 if there.quote is None else there.quote.price.dollars_per_second
        return max(size - wanted, 0) / size * price * there.likely_start_seconds

    def _allowed(self, pool: PoolId, waiters: Sequence[_Waiter]) -> float:
        """Seconds for which all of them may still wait."""
        rate = sum(waiter.worth for waiter in waiters)
        lost = sum(waiter.worth * waiter.waited for waiter in waiters)
        idle = self._idle_cost(pool, sum(waiter.option.gpus for waiter in waiters))
        return (idle - lost) / rate if rate else 0.0

    def _latest(self, waiter: _Waiter) -> Instant:
        """When a node is rented for the job at the latest."""
        left = self._allowed(waiter.option.pool, [waiter])
        return after(self._now, left)

    def _next_hole(self, pool: PoolId, gpus: int) -> float:
        """Seconds until a node of the pool that is in use has so many GPUs free; infinite if none ever has."""
        free = self._draft.free_nodes(pool).ready.free
        soonest = inf
        for rental, guests in self._solution.guests().items():
            left = free.get(rental)
            if left is None:
                continue
            for guest in sorted(guests, key=lambda guest: guest.left):
                left += guest.gpus
                if left >= gpus:
                    soonest = min(soonest, guest.left)
                    break
        return soonest
