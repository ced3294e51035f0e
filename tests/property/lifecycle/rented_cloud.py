"""A group of a cloud with lag, healing, prices that change and a stock that runs out, and the bill of its machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import floor

from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope, Traits
from charterer.domain.pool import Instance, InstanceState, PriceSegment, Survey
from charterer.domain.time import Instant, after, instant
from tests import factory as make

SECOND = 1_000_000
NEW_YEARS_EVE = instant(datetime(2025, 12, 31, 23, 40, tzinfo=UTC))
LAG, LISTED, HEAL, STOP, BOOT, RETRY, MINIMUM = 5, 86_400, 20, 10, 60, 30, 60


class Refused(Exception):
    """The cloud said no."""


@dataclass
class Machine:
    """One machine's true life. ``detached``: the group no longer counts it. ``order``: what it was launched for."""

    name: str
    launched: Instant
    segments: list[tuple[Instant, int]]
    stops: Instant | None = None
    ends: Instant | None = None
    detached: bool = False
    silent: bool = False
    node_gone: bool = False
    cordoned: bool = False
    order: OrderToken | None = None

    def copied(self) -> Machine:
        return replace(self, segments=list(self.segments))

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
            order=self.order,
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
    """A group that runs out of stock. ``traits``: it holds a target and heals, or takes orders.

    ``waiting``: orders without a machine, of a group that keeps trying; each part is launched whole or not at all.
    """

    traits: Traits = make.COUNTED

    now: Instant = NEW_YEARS_EVE
    target: int = 0
    stock: int = 99
    price: int = 19_800_001
    machines: list[Machine] = field(default_factory=list)
    waiting: list[tuple[OrderToken, ...]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def copied(self) -> Cloud:
        """Another one that is the same now."""
        machines = [machine.copied() for machine in self.machines]
        return replace(self, machines=machines, waiting=list(self.waiting), refusals=list(self.refusals))

    def members(self) -> list[Machine]:
        return [machine for machine in self.machines if not machine.detached]

    def advance(self, seconds: int) -> None:
        until = after(self.now, seconds)
        while self.now < until:
            members = self.members()
            missing = self.waiting if self.traits.named else len(members) != self.target
            settled = not missing and all(machine.ends is None for machine in members)
            self.now = until if settled else after(self.now, 1)
            for machine in self.members():
                if machine.ends is not None and self.now >= after(machine.ends, HEAL):
                    machine.detached = True
            self._launch()

    def _launch(self) -> None:
        last = max((item.at for item in self.refusals), default=None)
        if last is not None and self.now < after(last, RETRY) and self.stock <= self.alive():
            return
        for part in list(self.waiting):
            if self._launch_all(part):
                self.waiting.remove(part)
        while not self.traits.named and len(self.members()) < self.target:
            if not self._launch_all((None,)):
                return

    def _launch_all(self, part: Sequence[OrderToken | None]) -> bool:
        """All of them or none."""
        if self.alive() + len(part) > self.stock:
            said = "InsufficientInstanceCapacity", "none left"
            self.refusals += [Refusal(RefusalKind.STOCK_OUT, Scope.POOL, "g", *said, self.now, order) for order in part]
            return False
        for order in part:
            self.machines.append(Machine(f"i{len(self.machines)}", self.now, [(self.now, self.price)], order=order))
        return True

    def ordered(self) -> frozenset[OrderToken]:
        return frozenset(order for part in self.waiting for order in part)

    def replies(self) -> bool:
        """Whether its answer to an order names the machine."""
        return not self.traits.keeps_trying

    def wants(self) -> bool:
        """Whether it may launch a machine by itself."""
        return bool(self.waiting) or self.target > 0

    def alive(self) -> int:
        return sum(not machine.ended(self.now) for machine in self.machines)

    def ask(self, ask: Ask) -> Reply:
        if not self.traits.named:
            self.target = max(self.target, ask.at_least)
            self._launch()
            return Reply()
        known = self.ordered() | {machine.order for machine in self.machines}
        new = [order.token for order in ask.orders if order.token not in known]
        for part in [tuple(new)] if ask.together else [(token,) for token in new]:
            if part and not self._launch_all(part) and self.traits.keeps_trying:
                self.waiting.append(part)
        if self.traits.keeps_trying:
            return Reply()
        asked = {order.token for order in ask.orders}
        launched = {machine.order: InstanceId(machine.name) for machine in self.machines if machine.order in asked}
        return Reply({token: name for token, name in launched.items() if token is not None})

    def withdraw(self, orders: Sequence[OrderToken], keep: int) -> None:
        left = (tuple(order for order in part if order not in orders) for part in self.waiting)
        self.waiting = [part for part in left if part]
        if not self.traits.named:
            if keep < len(self.members()):
                raise Refused
            self.target = min(self.target, keep)

    def terminate(self, name: str) -> None:
        machine = next(item for item in self.machines if item.name == name)
        if machine.detached:
            return
        machine.detached = True
        if not self.traits.named:
            self.target -= 1
        if machine.ends is None:
            machine.stops, machine.ends = self.now, after(self.now, STOP)

    def survey(self, behind: float, pool: PoolId) -> Survey:
        """The list may be as old as ``behind`` seconds, the target and the orders never are."""
        seen = after(self.now, -behind)
        listed = [
            machine.seen(seen)
            for machine in self.machines
            if machine.launched <= seen and (machine.ends is None or after(machine.ends, LISTED) > seen)
        ]
        refusals = tuple(item for item in self.refusals if item.at <= seen or not self.traits.keeps_trying)
        return Survey(
            pool=pool,
            target=None if self.traits.named else self.target,
            ordered=self.ordered(),
            instances=tuple(listed),
            refusals=refusals,
            notices=(),
            asked=self.now,
            traits=replace(self.traits, lag_seconds=float(LAG), listed_seconds=float(LISTED)),
            offering=replace(make.OFFERING, group_id="group-1"),
        )
