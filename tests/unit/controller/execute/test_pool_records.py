"""A refusal and a start are counted in the same write that records the cool-down or the offer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from charterer.controller.execute.context import ExecutionContext
from charterer.controller.execute.rental_steps import cool, record_offer, reopen
from charterer.domain.order import RefusalKind, cool_down
from charterer.domain.pool import NO_LAUNCHES, NodeStart, Pool
from charterer.domain.steps import Cool, RecordOffer, Reopen
from tests import factory as make

POOL = make.pool(launches=NO_LAUNCHES)


class Scene:
    """A pool that nobody has changed, and what is recorded of it."""

    def __init__(self, pool: Pool = POOL) -> None:
        self.recorded: list[Pool] = []
        decided = SimpleNamespace(pool=lambda name: pool)
        self.context = cast(ExecutionContext, SimpleNamespace(decided=decided, objects=self))

    async def record_pool(self, pool: Pool) -> None:
        self.recorded.append(pool)


@pytest.mark.parametrize(
    ("kind", "counts"),
    [(kind, kind in ("StockOut", "QuotaExceeded", "LaunchFailed")) for kind in RefusalKind],
)
async def test_a_refusal_for_lack_of_nodes_is_counted_and_a_mistake_is_not(kind: RefusalKind, counts: bool) -> None:
    scene = Scene()
    new = replace(cool_down((), make.refusal(0), 60.0, make.at(0), None), kind=kind)
    await cool(scene.context, Cool(POOL.id, new))
    [pool] = scene.recorded
    assert pool.cooled == (new,)
    assert sum(pool.launches.refused) == counts


async def test_cool_downs_since_which_nodes_were_launched_are_forgotten_and_others_are_not() -> None:
    over, holds = (replace(make.cooled(make.at(second))[0], where=f"{second}") for second in (600, 900))
    scene = Scene(replace(POOL, cooled=(over, holds)))
    await reopen(scene.context, Reopen(POOL.id, frozenset({over.since})))
    [pool] = scene.recorded
    assert pool.cooled == (holds,)


async def test_the_starts_of_nodes_are_counted_with_the_offer() -> None:
    scene = Scene()
    starts = tuple([NodeStart(make.at(second), make.at(second + 5), make.at(second + 65)) for second in (0, 10)])
    await record_offer(scene.context, RecordOffer(POOL.id, POOL.offering, POOL.quote, starts=starts))
    [pool] = scene.recorded
    assert pool.launches.starts == pytest.approx(2.0, rel=1e-3)
    assert pool.launches.through == make.at(75)
    assert pool.likely_start_seconds < POOL.start_seconds
