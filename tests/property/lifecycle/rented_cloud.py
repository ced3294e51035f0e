"""A group of a cloud with lag, healing, prices that change and a stock that runs out, and the bill of its machines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import floor

from charterer.domain.ids import InstanceId, NodeName, PoolId
from charterer.domain.money import Price
from charterer.domain.pool import FailureKind, Instance, InstanceState, LaunchFailure, PriceSegment, Survey
from charterer.domain.time import Instant, after, instant
from tests import factory as make

SECOND = 1_000_000
NEW_YEARS_EVE = instant(datetime(2025, 12, 31, 23, 40, tzinfo=UTC))
LAG, LISTED, HEAL, STOP, BOOT, RETRY, MINIMUM = 5, 86_400, 20, 10, 60, 30, 60


class Refused(Exception):
    """The cloud said no."""


@dataclass
class Machine:
    """One machine's true life. ``detached``: the group no longer counts it."""

    name: str
    launched: Instant
    segments: list[tuple[Instant, int]]
    stops: Instant | None = None
    ends: Instant | None = None
    detached: bool = False
    silent: bool = False
    node_gone: bool = False
    cordoned: bool = False

    def ended(self, now: Instant) -> bool:
        return self.ends is not None and self.ends <= now

    def seen(self, when: Instant) -> Instance:
        """As a list shows it that is as old as ``when``."""
        state = InstanceState.RUNNING if when >= after(self.launched, BOOT) else InstanceState.PENDING
        if self.stops is not None and self.stops <= when:
            state = InstanceState.STOPPING
        over = self.ended(when)
        return Instance(
            id=InstanceId(self.name),
            state=InstanceState.ENDED if over else state,
            provider_id=f"fake://{self.name}",
            node=NodeName(f"n-{self.name}") if when >= after(self.launched, BOOT) else None,
            launched=self.launched,
            ended=self.ends if over else None,
            segments=tuple(PriceSegment(since, Price(price)) for since, price in self.segments if since <= when),
            billing_minimum_seconds=MINIMUM,
        )

    def bill(self, now: Instant) -> int:
        """Micro-dollars, by the rule in docs/fakecloud.md."""
        end = now if self.ends is None else min(self.ends, now)
        left = max(-floor(Fraction(self.launched - end, SECOND)), MINIMUM)
        amount = 0
        for position, (since, price) in enumerate(self.segments):
            last = position == len(self.segments) - 1
            seconds = left if last else floor(Fraction(self.segments[position + 1][0] - since, SECOND))
            left -= seconds
            amount += floor(Fraction(price * seconds, 3600) + Fraction(1, 2))
        return amount


@dataclass
class Cloud:
    """A group that holds its target, heals, and runs out of stock."""

    now: Instant = NEW_YEARS_EVE
    target: int = 0
    stock: int = 99
    price: int = 19_800_001
    machines: list[Machine] = field(default_factory=list)
    failures: list[LaunchFailure] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)

    def members(self) -> list[Machine]:
        return [machine for machine in self.machines if not machine.detached]

    def advance(self, seconds: int) -> None:
        until = after(self.now, seconds)
        while self.now < until:
            members = self.members()
            settled = len(members) == self.target and all(machine.ends is None for machine in members)
            self.now = until if settled else after(self.now, 1)
            for machine in self.members():
                if machine.ends is not None and self.now >= after(machine.ends, HEAL):
                    machine.detached = True
            self._launch()

    def _launch(self) -> None:
        last = max((item.at for item in self.failures), default=None)
        if last is not None and self.now < after(last, RETRY) and self.stock <= self.alive():
            return
        while len(self.members()) < self.target:
            if self.alive() >= self.stock:
                self.failures.append(LaunchFailure(self.now, FailureKind.STOCK_OUT, "none left"))
                return
            self.machines.append(Machine(f"i{len(self.machines)}", self.now, [(self.now, self.price)]))

    def alive(self) -> int:
        return sum(not machine.ended(self.now) for machine in self.machines)

    def raise_target(self, at_least: int, token: str) -> None:
        if self.tokens.setdefault(token, at_least) != at_least:
            raise AssertionError(f"token {token} was used for {self.tokens[token]} and now for {at_least}")
        self.target = max(self.target, at_least)
        self._launch()

    def cancel(self, keep: int) -> None:
        if keep < len(self.members()):
            raise Refused
        self.target = min(self.target, keep)

    def terminate(self, name: str) -> None:
        machine = next(item for item in self.machines if item.name == name)
        if machine.detached:
            return
        machine.detached = True
        self.target -= 1
        if machine.ends is None:
            machine.stops, machine.ends = self.now, after(self.now, STOP)

    def survey(self, behind: float, pool: PoolId) -> Survey:
        """The list may be as old as ``behind`` seconds, the target never is."""
        seen = after(self.now, -behind)
        listed = [
            machine.seen(seen)
            for machine in self.machines
            if machine.launched <= seen and (machine.ends is None or after(machine.ends, LISTED) > seen)
        ]
        failures = tuple(item for item in self.failures if item.at <= seen)
        return Survey(
            pool=pool,
            target=self.target,
            instances=tuple(listed),
            failures=failures,
            notices=(),
            asked=self.now,
            lag_seconds=float(LAG),
            listed_seconds=float(LISTED),
            offering=replace(make.OFFERING, group_id="group-1"),
        )
