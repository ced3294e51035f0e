"""Renting waits until demand has rested."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.controller.loop import RentBatch
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.money import ZERO, Price
from charterer.domain.plan import Allocate, Command, Reason, ReasonCode, Release, Rent
from charterer.domain.reasons.nodes import AnyDemand


def rents(nodes: int, begin: int = 1) -> list[Command]:
    why = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
    names = [RentalId(f"a100-{begin + ordinal}") for ordinal in range(nodes)]
    return [Rent(name, PoolId("a100"), BudgetId("team"), ZERO, Price(0), why) for name in names]


def release(code: ReasonCode, name: str = "a100-9") -> Command:
    return Release(RentalId(name), Reason(code, 0.0, ZERO, AnyDemand(ZERO)))


PLACE: Command = Allocate(JobId("train"), None, Reason(ReasonCode.SUSPENDED, 0.0, ZERO, AnyDemand(ZERO)))


class Clerk:
    """A batch with a second of rest, at most five in all."""

    def __init__(self) -> None:
        self.batch = RentBatch(1.0, 5.0)

    def at(self, now: float, commands: Sequence[Command]) -> tuple[int, float | None]:
        """How many commands are let through at this time, and how long the others have to wait."""
        through, wait = self.batch.ready(commands, now)
        return len(through), None if wait is None else round(wait, 6)


def test_nodes_are_rented_a_second_after_the_last_change_of_the_demand() -> None:
    clerk = Clerk()
    assert clerk.at(0.0, rents(4)) == (0, 1.0)
    assert clerk.at(0.5, rents(2)) == (0, 1.0)
    assert clerk.at(1.0, rents(2)) == (0, 0.5)
    assert clerk.at(1.5, rents(2)) == (2, None)


def test_demand_that_never_rests_waits_five_seconds() -> None:
    clerk = Clerk()
    for tenth in range(50):
        assert clerk.at(tenth / 10, rents(1 + tenth % 2))[0] == 0
    assert clerk.at(5.0, rents(2)) == (2, None)


def test_demand_that_goes_away_rents_nothing_and_the_next_begins_anew() -> None:
    clerk = Clerk()
    assert clerk.at(0.0, rents(4)) == (0, 1.0)
    assert clerk.at(0.9, []) == (0, None)
    assert clerk.at(1.1, rents(4)) == (0, 1.0)


def test_what_was_let_through_and_failed_is_not_held_back_again_but_more_is() -> None:
    clerk = Clerk()
    clerk.at(0.0, rents(2))
    assert clerk.at(1.0, rents(2)) == (2, None)
    assert clerk.at(1.1, rents(1, begin=2)) == (1, None)
    assert clerk.at(1.2, rents(2)) == (0, 1.0)


def test_idle_nodes_are_given_back_by_the_same_rule_and_all_else_is_done_at_once() -> None:
    clerk = Clerk()
    commands = [PLACE, release(ReasonCode.IDLE), release(ReasonCode.HARD_LIMIT, "a100-8"), *rents(1)]
    assert clerk.at(0.0, commands) == (2, 1.0)
    assert clerk.at(1.0, commands) == (4, None)
