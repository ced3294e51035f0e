"""The operator's heartbeat: each account is told of all its pools again and again, whatever happens in another."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.surveys import Renewals, pools_to_renew
from charterer.domain.pool import Pool
from charterer.providers.accounts import Accounts
from charterer.providers.errors import CloudUnreachable
from charterer.providers.guarded import Guards
from tests.factory.pools import fake_group
from tests.unit.api import values
from tests.unit.controller.test_surveys import FAR, NEAR, Cloud, pool_at
from tests.virtual_time import run_for, run_in_virtual_time


class Renewed(Cloud):
    """A cloud that remembers which pools it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[list[str]] = []

    async def renew(self, pools: Sequence[Pool]) -> None:
        self.renewed.append([pool.id for pool in pools])
        if self.fails:
            raise CloudUnreachable(pools[0].id, "renew", "Refused", "no answer")


def told(near_fails: bool = False, guards: Guards | None = None) -> dict[str, list[list[str]]]:
    """What two clouds with three pools are told in two minutes."""

    async def main() -> dict[str, list[list[str]]]:
        clouds = {NEAR: Renewed(), FAR: Renewed()}
        clouds[NEAR].fails = near_fails
        pools = {each.id: each for each in (pool_at(NEAR, "a"), pool_at(NEAR, "b"), pool_at(FAR, "c"))}
        accounts = Accounts({}, guards, lambda pool, environ: clouds[fake_group(pool).endpoint])
        await run_for(119.0, Renewals(accounts, lambda: pools, 60.0).run())
        return {name: cloud.renewed for name, cloud in clouds.items()}

    return run_in_virtual_time(main())


def test_each_account_is_told_of_all_its_pools_each_time() -> None:
    assert told() == {NEAR: [["a", "b"]] * 2, FAR: [["c"]] * 2}


def test_a_cloud_that_cannot_be_told_is_tried_again_and_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert told(near_fails=True) == {NEAR: [["a", "b"]] * 2, FAR: [["c"]] * 2}
    assert "were not all renewed: GPUPool a: renew: Refused: no answer" in caplog.text


@pytest.mark.parametrize("guards", [Guards(dry_run=True), Guards(fence=lambda: 0.0)])
def test_whoever_does_not_lead_or_runs_dry_renews_nothing(guards: Guards, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert told(guards=guards) == {NEAR: [], FAR: []}
    assert caplog.text == ""


def test_a_pool_that_cannot_be_read_is_renewed_as_its_rentals_remember_it() -> None:
    store = Store([kinds.GPU_POOLS, kinds.GPU_RENTALS])
    unread = values.raw("GPUPool", {"fake": {}}, name="a100")
    store.put(kinds.GPU_POOLS, unread)
    assert store.view(kinds.GPU_POOLS).problems
    assert pools_to_renew(store) == {}
    rental = values.raw_rental()
    store.put(kinds.GPU_RENTALS, rental)
    [(name, kept)] = pools_to_renew(store).items()
    assert (name, kept.gone) == (rental["spec"]["pool"], True)
    assert name == unread["metadata"]["name"]
