"""Whatever happens in whatever order, crashes between any two writes included, the cloud keeps its promises.

The bill is what the tests' own arithmetic says; a group ends up with as many machines as its target.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charterer.tools.fakecloud.cloud import RefusedCall
from charterer.tools.fakecloud.http import bill_json
from charterer.tools.fakecloud.records import MachinePhase
from tests import lanes
from tests.unit.fakecloud.world import World, config

STOP, HEAL, RETRY, MINIMUM = 7, 5, 30, 60
LIST_PRICE = Decimal("12.80")
SPEC = {
    "capacityType": "Spot",
    "hourlyPrice": str(LIST_PRICE),
    "repriceRunning": True,
    "billingMinimumSeconds": MINIMUM,
    "stopSeconds": STOP,
    "healSeconds": HEAL,
    "retrySeconds": RETRY,
    "startupSeconds": [3, 40],
    "listLagSeconds": 4,
}
factors = st.sampled_from(["0.1", "0.333333", "0.9", "1"])


class Crash(BaseException):
    """The process dies here."""


@dataclass
class Account:
    """What the test itself saw of one machine: when it came, at which prices, and when it went (microseconds)."""

    came: int
    prices: list[tuple[int, Decimal]]
    went: int | None = None

    def ends(self, at: int) -> None:
        self.went = at if self.went is None else min(at, self.went)

    def costs(self, price: Decimal, since: int) -> None:
        if self.went is None or self.went > since:
            self.prices.append((since, price))

    def micros(self, now: int) -> int:
        until = now if self.went is None or self.went > now else self.went
        prices = [(since, price) for since, price in self.prices if since <= until]
        lengths = [(b - a) // 1_000_000 for (a, _), (b, _) in pairwise(prices)]
        lengths.append(max(MINIMUM, math.ceil(Decimal(until - self.came) / 1_000_000)) - sum(lengths))
        costs = (price * n * 1_000_000 / 3600 for (_, price), n in zip(prices, lengths, strict=True))
        return sum(int(cost.to_integral_value(ROUND_HALF_UP)) for cost in costs)


class AnyCourse(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(config(SPEC), self.folder / "cloud.db")
        self.price = LIST_PRICE * Decimal("0.35")
        self.seen: dict[str, Account] = {}
        self.crash_in: int | None = None

    @initialize(size=st.integers(0, 3))
    def begin(self, size: int) -> None:
        self.world.cloud.set_target("a100", size)

    def teardown(self) -> None:
        self.world.cloud.change_group("a100", {"stock": None})
        self.world.wait(RETRY + HEAL + STOP + 1_000)
        assert len(self.world.alive()) == self.world.cloud.group("a100").target
        self.world.state.close()
        shutil.rmtree(self.folder)

    # --- what the world does ----------------------------------------------------------------------------------------

    @rule(seconds=st.floats(0, 90))
    def time_passes(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(stock=st.none() | st.integers(0, 4))
    def stock_changes(self, stock: int | None) -> None:
        self.attempt(lambda: self.world.cloud.change_group("a100", {"stock": stock}))

    @rule(factor=factors)
    def price_changes(self, factor: str) -> None:
        if self.attempt(lambda: self.world.cloud.change_group("a100", {"spotFactor": factor})):
            new = (LIST_PRICE * Decimal(factor)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
            if new != self.price:
                for account in self.seen.values():
                    account.costs(new, self.world.now)
            self.price = new

    @precondition(lambda self: self.world.alive())
    @rule(data=st.data(), notice=st.none() | st.floats(0, 60))
    def machine_is_lost(self, data: st.DataObject, notice: float | None) -> None:
        victim = data.draw(st.sampled_from(self.world.alive()))
        cloud = self.world.cloud
        if notice is None and self.attempt(lambda: cloud.kill(victim, node_stays=False)):
            self.seen[victim].ends(self.world.now)
        elif notice is not None and self.attempt(lambda: cloud.interrupt(victim, notice)):
            self.seen[victim].ends(self.world.now + round(notice * 1_000_000))

    @rule(writes=st.integers(0, 6))
    def the_process_will_die(self, writes: int) -> None:
        """In the next call, after that many writes of it."""
        self.crash_in = writes

    # --- what callers do --------------------------------------------------------------------------------------------

    @rule(size=st.integers(0, 9))
    def target_is_set(self, size: int) -> None:
        self.attempt(lambda: self.world.cloud.set_target("a100", size))

    @precondition(lambda self: self.world.alive())
    @rule(data=st.data(), decrement=st.booleans())
    def machine_is_terminated(self, data: st.DataObject, decrement: bool) -> None:
        victim = data.draw(st.sampled_from(self.world.alive()))
        fresh = self.world.cloud.machine(victim).state(self.world.now) is not MachinePhase.STOPPING
        target = self.world.cloud.group("a100").target
        if self.attempt(lambda: self.world.cloud.terminate("a100", victim, decrement=decrement)):
            self.seen[victim].ends(self.world.now + STOP * 1_000_000)
            assert self.world.cloud.group("a100").target == target - (fresh and decrement)

    # --- what holds -------------------------------------------------------------------------------------------------

    @invariant()
    def the_bill_is_what_was_seen(self) -> None:
        self.look()
        bill = bill_json(self.world.cloud.machines(), self.world.now)
        mine = {machine: account.micros(self.world.now) for machine, account in self.seen.items()}
        assert {line["instance"]: int(Decimal(line["cost"]) * 1_000_000) for line in bill["lines"]} == mine
        assert int(Decimal(bill["total"]) * 1_000_000) == sum(mine.values())

    @invariant()
    def no_group_has_more_members_than_its_target(self) -> None:
        members = [machine for machine in self.world.cloud.machines() if machine.detached is None]
        assert len(members) <= self.world.cloud.group("a100").target <= 8

    def look(self) -> None:
        for machine in self.world.cloud.machines():
            if machine.id not in self.seen:
                self.seen[machine.id] = Account(machine.launched, [(machine.launched, self.price)])

    def attempt(self, call: Callable[[], Any]) -> bool:
        """Whether the call took effect; a process that died in it has been replaced by a new one."""
        crash_in, self.crash_in = self.crash_in, None
        if crash_in is not None:
            self._arm(crash_in)
        try:
            call()
        except RefusedCall:
            return False
        except Crash:
            self.world.reopen()
            return False
        finally:
            self._disarm()
        if crash_in is not None:
            self.world.reopen()
        return True

    def _arm(self, writes: int) -> None:
        state, left = self.world.state, [writes]
        write = state._write

        def dying(statement: str, values: tuple[object, ...]) -> None:
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            write(statement, values)

        state._write = dying  # type: ignore[method-assign]  # a crash at any write

    def _disarm(self) -> None:
        self.world.state.__dict__.pop("_write", None)


AnyCourse.TestCase.settings = settings(max_examples=lanes.examples(100), stateful_step_count=40)
TestAnyCourse = AnyCourse.TestCase
