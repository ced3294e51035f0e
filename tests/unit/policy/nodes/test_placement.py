"""Claims of GPUs on ready, booting and new nodes."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.policy.nodes.placement import FreeNodes, PoolAllocator


def option(gpus: int, speed: float, price: str = "3600", pool: str = "a") -> Option:
    each = Price(Price.parse(price).micros_per_hour * gpus)
    return Option(PoolId(pool), gpus, speed, each, 150.0, each.cost(150))


def yard(ready: dict[str, int], booting: Iterable[str] = (), room: int = 0) -> PoolAllocator:
    cell = FreeNodes()
    for name, free in ready.items():
        cell.ready.put(RentalId(name), free)
    for name in booting:
        cell.booting.put(RentalId(name), 8)

    def rent(nodes: int, there: int) -> list[RentalId]:
        return [RentalId(f"new-{at}") for at in range(nodes)]

    return PoolAllocator(cell, 8, lambda nodes: None if nodes <= room else ReasonCode.POOL_FULL, rent)


def test_only_what_is_missing_is_rented() -> None:
    claim = yard({"a": 8, "b": 3}, ["c"], room=5).claim(option(32, 1.0), {}, lambda _: True)
    assert claim.placements is None
    assert claim.nodes == ("a", "c", "new-0", "new-1")


def test_a_blocked_claim_takes_nothing() -> None:
    pool = yard({"a": 8})
    assert pool.claim(option(16, 1.0), {}, lambda _: True).blocked is ReasonCode.POOL_FULL
    assert pool.claim(option(8, 1.0), {}, lambda _: True).placements is not None


def test_a_jobs_own_gpus_are_free_for_its_own_next_run_only() -> None:
    pool = yard({"a": 4})
    own = {RentalId("a"): 4}
    assert pool.look(option(8, 1.0), own)[2] == 0
    assert pool.look(option(8, 1.0), {})[2] == 1
    assert pool.claim(option(8, 1.0), own, lambda _: True).placements is not None
    assert pool.claim(option(1, 1.0), {}, lambda _: True, only_ready=True).placements is None


def test_gpus_given_up_by_a_move_are_not_free_before_the_old_pods_are_gone() -> None:
    pool = yard({"a": 0, "b": 4})
    assert pool.claim(option(4, 1.0), {RentalId("a"): 8}, lambda _: True).placements is not None
    assert pool.claim(option(8, 1.0), {}, lambda _: True, only_ready=True).placements is None
