"""When the GPUs of some pools come free, and for which of them no job waits yet."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.option import Option
from charterer.policy.nodes.pool_quota import PoolRoom


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """GPUs of one node that a run holds, and the seconds until they come free."""

    pool: PoolId
    rental: RentalId
    gpus: int
    seconds: float


class RoomToCome:
    """The GPUs of each node, by the seconds until each of them is free: 0 now, infinite where no end is in sight."""

    def __init__(self, rooms: Mapping[PoolId, PoolRoom], held: Iterable[HeldRoom]) -> None:
        self._rooms = rooms
        self._held: dict[PoolId, list[HeldRoom]] = {}
        for run in held:
            self._held.setdefault(run.pool, []).append(run)
        self._pools: dict[PoolId, _PoolNodes] = {}

    def wait(self, option: Option) -> float:
        """Seconds until the option's GPUs are free together; infinite where that is not in sight."""
        part, count = self._shape(option)
        soonest = self._nodes(option.pool).soonest(part)
        return soonest[count - 1].seconds if len(soonest) >= count else inf

    def take(self, option: Option, seconds: float) -> None:
        """Give the option's GPUs away for so many seconds as soon as they are free."""
        (part, count), nodes, until = self._shape(option), self._nodes(option.pool), self.wait(option) + seconds
        for free in list(nodes.soonest(part)[:count]):
            nodes.take(free.rental, part, until)

    def _shape(self, option: Option) -> tuple[int, int]:
        """GPUs of each node, and nodes."""
        size = self._rooms[option.pool].size
        return min(option.takes, size), max(option.takes // size, 1)

    def _nodes(self, pool: PoolId) -> _PoolNodes:
        if pool not in self._pools:
            self._pools[pool] = _PoolNodes(self._rooms[pool].free, self._held.get(pool, ()))
        return self._pools[pool]


class _FreeNode(NamedTuple):
    """A node by when it has some GPUs free together. Of those that have them as soon, the one is first that is wholly
    free last: ``all_free``, negative seconds until then.
    """

    seconds: float
    all_free: float
    rental: RentalId


class _PoolNodes:
    """One pool's nodes. ``_free``: the seconds until each GPU of a node is free; ``_soonest``: the nodes, by GPUs."""

    def __init__(self, free: Mapping[RentalId, int], held: Iterable[HeldRoom]) -> None:
        self._free = {name: [0.0] * gpus for name, gpus in free.items()}
        self._soonest: dict[int, list[_FreeNode]] = {}
        for run in held:
            self._free[run.rental] += [run.seconds] * run.gpus
        for node in self._free.values():
            node.sort()

    def soonest(self, part: int) -> Sequence[_FreeNode]:
        """The nodes in the order in which they have so many GPUs free; without those that never have."""
        if part not in self._soonest:
            enough = [name for name, node in self._free.items() if len(node) >= part]
            self._soonest[part] = sorted([self._key(name, part) for name in enough])
        return self._soonest[part]

    def take(self, rental: RentalId, part: int, until: float) -> None:
        """Give the GPUs of the node that are free first away."""
        before = {gpus: self._key(rental, gpus) for gpus in self._soonest if len(self._free[rental]) >= gpus}
        self._free[rental] = sorted([*self._free[rental][part:], *[until] * part])
        for gpus, key in before.items():
            order = self._soonest[gpus]
            del order[bisect_left(order, key)]
            insort(order, self._key(rental, gpus))

    def _key(self, rental: RentalId, part: int) -> _FreeNode:
        node = self._free[rental]
        return _FreeNode(node[part - 1], -node[-1], rental)
