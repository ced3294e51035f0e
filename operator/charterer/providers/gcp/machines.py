"""All instances of this cluster in a zone, with those that ended lately and whose ends only operations tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, seconds_between
from charterer.providers.errors import NotFoundInCloud
from charterer.providers.gcp.calls import Calls
from charterer.providers.gcp.history import Operation, OperationHistory
from charterer.providers.gcp.listing import LISTED_SECONDS, ListedInstance, instances_of, listed_instance
from charterer.providers.gcp.names import label_value, order_of
from charterer.providers.gcp.permissions import Call
from charterer.providers.provider import KnownMachines


@dataclass(slots=True)
class _ZoneInstances:
    """What is known of a zone's instances: as last listed and when, those that have ended, and who asked for what."""

    listed: dict[InstanceId, tuple[ListedInstance, Instant]] = field(default_factory=dict)
    ended: dict[InstanceId, ListedInstance] = field(default_factory=dict)
    asked: dict[OrderToken, PoolId] = field(default_factory=dict)


class Machines:
    """Lists instances. An instance that vanished between two lists is told as ended for an hour."""

    def __init__(self, calls: Calls, history: OperationHistory) -> None:
        self._calls = calls
        self._history = history
        self._zones: dict[str, _ZoneInstances] = {}

    def asked(self, pool: Pool, zone: str, orders: Iterable[OrderToken]) -> None:
        """The pool has asked for these orders: an instance of them is the pool's, even if no list ever shows it."""
        self._zone(zone).asked |= dict.fromkeys(orders, pool.id)

    def given_up(self, zone: str, orders: Iterable[OrderToken]) -> None:
        """Nobody waits for these orders any more."""
        for order in orders:
            self._zone(zone).asked.pop(order, None)

    async def look(
        self, pools: Sequence[Pool], zone: str, cluster: str, known: KnownMachines
    ) -> tuple[Mapping[PoolId, Sequence[ListedInstance]], Instant]:
        """The instances of these pools, which are in that zone, and the cloud's time."""
        state, first = self._zone(zone), pools[0].id
        listed, asked = await instances_of(self._calls, first, zone, cluster)
        await self._history.read(first, zone)
        names = {label_value(pool.id): pool.id for pool in pools}
        found = {id: replace(row, pool=names[row.pool]) for id, row in listed.items() if row.pool in names}
        for pool in pools:
            for id in set(known.get(pool.id, ())) - found.keys() - state.listed.keys() - state.ended.keys():
                await self._look_for(pool.id, zone, id, found)
        await self._see_ends(zone, found, asked, frozenset(pool.id for pool in pools))
        rows = [*found.values(), *state.ended.values()]
        return {pool.id: [row for row in rows if row.pool == pool.id] for pool in pools}, asked

    async def _look_for(self, pool: PoolId, zone: str, id: InstanceId, found: dict[InstanceId, ListedInstance]) -> None:
        """A known instance that no label finds: it may have lost its labels, or have ended."""
        try:
            answer = await self._calls(pool, Call.GET_INSTANCE, zone=zone, instance=id)
        except NotFoundInCloud:
            end = self._history.end_of(zone, id)
            launched = None if end is None else await self._history.launch_of(pool, zone, id)
            if end is not None and launched is not None:
                self._zone(zone).ended[id] = _ended(end, launched, zone, pool)
        else:
            found[id] = replace(listed_instance(answer.body), pool=pool)

    async def _see_ends(
        self, zone: str, found: Mapping[InstanceId, ListedInstance], asked: Instant, pools: frozenset[PoolId]
    ) -> None:
        """Take in which instances have ended since the last look, and forget those that ended long ago."""
        state = self._zone(zone)
        for id, (row, seen) in list(state.listed.items()):
            if id not in found and row.pool in pools:
                end = self._history.end_of(zone, id)
                if end is not None and end.ended is not None:
                    state.ended[id] = row.end(end.ended)
                if id in state.ended or seconds_between(seen, asked) > LISTED_SECONDS:
                    del state.listed[id]
        state.listed |= {id: (row, asked) for id, row in found.items()}
        for order in (row.order for row in found.values() if row.order is not None):
            state.asked.pop(order, None)
        await self._see_unlisted(zone, found)
        for id, row in list(state.ended.items()):
            if id in found or (row.ended is not None and seconds_between(row.ended, asked) > LISTED_SECONDS):
                del state.ended[id]

    async def _see_unlisted(self, zone: str, found: Mapping[InstanceId, ListedInstance]) -> None:
        """Instances that were asked for and ended before any list showed them."""
        state = self._zone(zone)
        for each in self._history.operations(zone):
            order = order_of(each.name)
            pool = None if order is None else state.asked.get(order)
            if pool is None or not each.ends_instance or each.target in found or each.target in state.ended:
                continue
            end = self._history.end_of(zone, each.target) or each
            launched = await self._history.launch_of(pool, zone, each.target)
            if launched is not None:
                state.ended[each.target] = _ended(end, launched, zone, pool)
                self.given_up(zone, [order] if order is not None else [])

    def _zone(self, zone: str) -> _ZoneInstances:
        return self._zones.setdefault(zone, _ZoneInstances())


def _ended(end: Operation, launched: Instant, zone: str, pool: PoolId) -> ListedInstance:
    """An instance of which only operations are known."""
    row = ListedInstance(end.target, end.name, zone, "", pool, "TERMINATED", launched, None)
    return row.end(end.ended if end.ended is not None else end.began)
