"""A pool is looked at when it is new or changed, again every hour, and sooner where something would fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from charterer.controller.preflights import Preflights
from charterer.domain.pool import Pool
from charterer.providers.accounts import Accounts
from charterer.providers.errors import CloudUnauthorized
from charterer.providers.provider import PreflightFinding
from tests import factory as make
from tests.unit.controller.test_surveys import Cloud
from tests.virtual_time import clock, run_for, run_in_virtual_time

WELL = PreflightFinding("group", True, "sells g.4")
FAILS = PreflightFinding("size", False, "lower maxNodes")


def nothing() -> None:
    """No snapshot yet."""


class Checked(Cloud):
    """A cloud that remembers when each pool was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.finds: tuple[PreflightFinding, ...] = (WELL,)
        self.refuses = False
        self.looked: list[float] = []
        self.began = clock()

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        self.looked.append(clock())
        if self.refuses:
            raise CloudUnauthorized(pool.id, "preflight", "Denied", "you may not look")
        return self.finds


def watched(seconds: float, finds: tuple[PreflightFinding, ...]) -> tuple[Checked, int]:
    """A cloud that always finds this, and how often the findings changed in so many seconds."""

    async def main() -> tuple[Checked, int]:
        cloud, changes = Checked(), []
        cloud.finds = finds
        pools = {make.POOL: make.pool()}
        preflights = Preflights(
            Accounts({}, adapter=lambda *_: cloud), lambda: pools, lambda: changes.append(1), nothing
        )
        await run_for(seconds, preflights.run())
        return cloud, len(changes)

    return run_in_virtual_time(main())


@pytest.mark.parametrize(("finds", "looks"), [((WELL,), 2), ((WELL, FAILS), 13)])
def test_a_pool_is_looked_at_at_once_and_the_sooner_again_the_worse_it_is(
    finds: tuple[PreflightFinding, ...], looks: int
) -> None:
    cloud, changes = watched(3_610, finds)
    assert cloud.looked[0] == cloud.began
    assert len(cloud.looked) == looks
    assert changes == 1


def test_a_changed_spec_is_looked_at_soon_and_a_pool_that_goes_is_not() -> None:
    async def main() -> None:
        cloud, pools = Checked(), {make.POOL: make.pool()}
        preflights = Preflights(Accounts({}, adapter=lambda *_: cloud), lambda: pools, lambda: None, nothing)
        await run_for(20, preflights.run())
        pools[make.POOL] = replace(make.pool(), generation=2)
        await run_for(20, preflights.run())
        assert len(cloud.looked) == 2
        pools[make.POOL] = replace(make.pool(), generation=3, deleting=True)
        await run_for(20, preflights.run())
        assert len(cloud.looked) == 2
        assert preflights.latest == {}

    run_in_virtual_time(main())


def test_what_nodes_show_is_told_at_once_and_kept_when_they_are_gone() -> None:
    async def main() -> None:
        cloud, pools = Checked(), {make.POOL: make.pool()}
        rental, bare = make.rental("a100-1", make.instance()), make.node(gpus=0)
        latest = [make.snapshot(rental, bare)]
        changes: list[int] = []
        preflights = Preflights(
            Accounts({}, adapter=lambda *_: cloud), lambda: pools, lambda: changes.append(1), lambda: latest[-1]
        )
        await run_for(1, preflights.run())
        subjects = [(each.subject, each.well) for each in preflights.latest[make.POOL]]
        assert subjects == [("group", True), ("device plugin", False), ("taints", True)]
        latest.append(make.snapshot())
        await run_for(20, preflights.run())
        assert [(each.subject, each.well) for each in preflights.latest[make.POOL]] == subjects
        latest.append(make.snapshot(rental, make.node()))
        await run_for(20, preflights.run())
        assert all(each.well for each in preflights.latest[make.POOL])
        assert (len(cloud.looked), len(changes)) == (1, 3), "Nodes cost no call of the cloud"
        pools.clear()
        await run_for(20, preflights.run())
        assert preflights.latest == {}

    run_in_virtual_time(main())


def test_a_cloud_that_refuses_to_be_asked_is_a_finding() -> None:
    async def main() -> None:
        cloud = Checked()
        cloud.refuses = True
        preflights = Preflights(
            Accounts({}, adapter=lambda *_: cloud), lambda: {make.POOL: make.pool()}, lambda: None, nothing
        )
        await run_for(1, preflights.run())
        (found,) = preflights.latest[make.POOL]
        assert (found.subject, found.well) == ("cloud", False)
        assert found.message.startswith("preflight: Denied: you may not look")

    run_in_virtual_time(main())
