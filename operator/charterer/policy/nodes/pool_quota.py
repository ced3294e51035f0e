"""Nodes that each pool may still have, and the names of new rentals: shared by all budgets while a plan is made.

No node is asked of a pool that had none to give a while ago, is full, unknown or being deleted; and none at all while
the operator is stopped or has as many as it may.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.nodes.waits import ExpectedWait
from charterer.domain.order import CoolDown
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.estimate.nodes.waits import expected_wait, waits
from charterer.policy.nodes.capacity import FreeNodes
from charterer.policy.nodes.operator_limits import OperatorRoom
from charterer.policy.nodes.pool_size import on_probation
from charterer.policy.nodes.rental_index import RentalIndex


def refusal(pool: Pool, surveyed: bool, live_rentals: int, more: int, now: Instant) -> ReasonCode | None:
    """Why the pool cannot be asked for ``more`` nodes beside ``live_rentals`` now; None when it can.

    A pool that cools is not asked, but nodes it has, ready or booting, are used. A pool whose cloud has not answered
    yet (``surveyed`` False) is not asked blindly.
    """
    if pool.closed_because:
        return ReasonCode.POOL_DELETED
    if pool.cooling(now) is not None:
        return ReasonCode.POOL_COOLING
    if live_rentals + more > pool.max_nodes:
        return ReasonCode.POOL_FULL
    if not surveyed or pool.quote is None or pool.offering is None:
        return ReasonCode.NOT_ASKED_YET
    return None


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """The nodes of a pool, of ``size`` GPUs each, that a budget has or may rent. ``free``: GPUs that no job holds."""

    size: int
    free: Mapping[RentalId, int]


@dataclass(frozen=True, slots=True)
class LaunchWait:
    """The wait until a pool gives a node. ``probation``: the recent cool-down for which that is in doubt, if any."""

    expected: ExpectedWait
    probation: CoolDown | None

    @property
    def seconds(self) -> float:
        """Its expected value."""
        return self.expected.seconds


def launch_wait(pool: Pool, probation: CoolDown | None, now: Instant) -> LaunchWait | None:
    """The wait for a node that the pool is asked for as soon as it may be; None where it is given at once."""
    refused = None if probation is None else probation.row_seconds(pool.cooldown_seconds)
    expected = expected_wait(pool.known_launches, now, refused)
    if probation is not None and (cools := seconds_between(now, probation.until)) > expected.seconds:
        expected = replace(expected, seconds=cools, high=max(cools, expected.high))
    return LaunchWait(expected, probation) if expected.seconds > 0.0 else None


def launch_waits(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, LaunchWait]:
    """The pools that do not give a node at once."""
    probations = on_probation(snapshot, rentals)
    found = {
        name: launch_wait(pool, probations.get(name), snapshot.now) for name, pool in sorted(snapshot.pools.items())
    }
    return {name: wait for name, wait in found.items() if wait is not None}


class PoolQuota:
    """The pools' rooms and names; renting uses them up. Budgets come to it in order, see ``planner``.

    ``probations``: the cool-downs of pools of which it is not known whether they have nodes again. ``cooled``: until
    when pools that were wanted cool, or are in doubt. ``waits``: whether some pool has a ``wait``.
    """

    def __init__(self, snapshot: Snapshot, rentals: RentalIndex) -> None:
        self._snapshot = snapshot
        self._live: dict[PoolId, int] = {}
        for (_, pool), here in rentals.by_pool.items():
            self._live[pool] = self._live.get(pool, 0) + len(here.live)
        self._next: dict[PoolId, int] = {}
        self.cooled: set[Instant] = set()
        self.probations = on_probation(snapshot, rentals)
        self.waits = bool(self.probations) or any([waits(pool.known_launches) for pool in snapshot.pools.values()])
        self._waits: dict[PoolId, LaunchWait | None] = {}
        self.room = OperatorRoom(snapshot)

    def refusal(self, pool: Pool, nodes: int) -> ReasonCode | None:
        """Why the pool cannot give ``nodes`` more now; notes in ``cooled`` until when a pool that was wanted cools."""
        surveyed = pool.id in self._snapshot.surveys
        if self._snapshot.stop is not None:
            return ReasonCode.STOPPED
        if self._snapshot.unread_rental(pool.id) is not None:
            return ReasonCode.RENTAL_UNREADABLE
        code = refusal(pool, surveyed, self._live.get(pool.id, 0), nodes, self._snapshot.now)
        if code is ReasonCode.POOL_COOLING and pool.cool_down is not None:
            self.cooled.add(pool.cool_down.until)
        if code is None and not self.room.allows(pool, nodes):
            return ReasonCode.OPERATOR_LIMIT
        return code

    def lacking(self, pool: Pool) -> int:
        """How many nodes fewer than the most it may have the pool has."""
        return max(pool.max_nodes - self._live.get(pool.id, 0), 0)

    def pool_room(self, nodes: FreeNodes, pool: Pool, gpus: int) -> PoolRoom:
        """The ``nodes`` there are, and those that the pool may still give, as many as ``gpus`` need.

        Each pool has all that the operator's limits allow, whatever limits the budgets have.
        """
        size = pool.gpus_per_node or 1
        there = sorted([*nodes.ready.free.items(), *nodes.booting.free.items()])
        new = {RentalId(f"{pool.id}/{number}"): size for number in range(self.more(pool, -(-gpus // size)))}
        return PoolRoom(size, {name: max(free, 0) for name, free in there} | new)

    def more(self, pool: Pool, most: int) -> int:
        """How many more nodes the pool may give, at most ``most``."""
        most = min(self._left(pool), most)
        return bisect_left(range(1, most + 1), True, key=lambda count: not self.room.allows(pool, count))

    def _left(self, pool: Pool) -> int:
        surveyed = pool.id in self._snapshot.surveys
        if self._snapshot.stop is not None or self._snapshot.unread_rental(pool.id) is not None:
            return 0
        return self.lacking(pool) if refusal(pool, surveyed, 0, 0, self._snapshot.now) is None else 0

    def wait(self, pool: PoolId) -> LaunchWait | None:
        """The wait for a node of the pool that is asked for now; None where it is given at once.

        Notes in ``cooled`` until when the pool is in doubt.
        """
        if pool not in self._waits:
            self._waits[pool] = launch_wait(self._snapshot.pools[pool], self.probations.get(pool), self._snapshot.now)
        wait = self._waits[pool]
        if wait is not None and wait.probation is not None:
            self.cooled.add(wait.probation.probation_until)
        return wait

    def take(self, pool: PoolId) -> RentalId:
        """Count one more node of the pool, and name its rental ``<pool>-<ordinal>``, by the next ordinal.

        Kubernetes tells Events by name, so a name that is used again would show those of a machine that is gone.
        """
        ordinal = self._next.get(pool) or 1 + self._highest(pool)
        while (rental := RentalId(f"{pool}-{ordinal}")) in self._snapshot.rentals:
            ordinal += 1
        self._next[pool] = ordinal + 1
        self._live[pool] = self._live.get(pool, 0) + 1
        self.room.take(self._snapshot.pools[pool])
        return rental

    def _highest(self, pool: PoolId) -> int:
        """The highest ordinal of the pool's rentals, those that are gone included as far as they had a machine."""
        there = (rental.ordinal for rental in self._snapshot.rentals.values() if rental.pool == pool)
        return max(self._snapshot.pools[pool].lifetimes.ordinal, max(there, default=0))
