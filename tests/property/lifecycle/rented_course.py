"""A course of rentals: what the operator decides, what of it happens and when, and what must hold all the time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from charterer.domain.billing import spent
from charterer.domain.ids import PoolId, StepKey, StepKind
from charterer.domain.money import ZERO, Money, total
from charterer.domain.order import Reply, Traits
from charterer.domain.rental import Gang, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import AskCloud, RecordCosts, Step
from charterer.domain.time import Instant
from charterer.lifecycle import next_steps
from tests import factory as make
from tests.property.lifecycle.rented_cloud import LAG, LISTED, NEW_YEARS_EVE, Cloud, Refused
from tests.property.lifecycle.rented_objects import RENAMED
from tests.property.lifecycle.rented_world import Stale, World

_ROUNDS = 400
"""More rounds than any course needs to end: each does every step there is."""
_FULL_ROUNDS = 60
"""Rounds for which a place that takes no costs goes on so: long enough for all else to be done."""
CLAIMS = replace(make.NAMED, together=False)
"""Of a cloud with an object for each order."""
ONE_BY_ONE = replace(make.REPLYING, together=False)
"""Of one that launches each order by itself at once, or says why not."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A step under way. ``reply``: the cloud has given it, and it is not on record yet."""

    step: Step
    decided: Snapshot
    reply: Reply | None = None


class Course:
    """Steps are decided on a snapshot and carried out later, in any order, or never: the operator crashed.

    ``pending``: the steps under way, one at most of each object. ``abandoned``: calls to the cloud by a process that
    has ended, which may arrive still; ``late_files``: files of costs, the same.
    """

    def __init__(self, traits: Traits = make.COUNTED, begins: Instant = NEW_YEARS_EVE) -> None:
        budget = make.budget(balance=None, created=begins)
        self.world = World(Cloud(traits=traits, now=begins), budget=budget)
        self.pending: dict[StepKey, Pending] = {}
        self.abandoned: list[Pending] = []
        self.late_files: list[RecordCosts] = []
        self.seen: Snapshot | None = None
        """What the operator observed last."""
        self.wrong_lists = 0
        """Lists that lacked machines that they had to show."""

    def copied(self) -> Course:
        """Another course that was the same so far."""
        other = object.__new__(type(self))
        other.world = self.world.copied()
        other.pending, other.abandoned, other.seen = dict(self.pending), list(self.abandoned), self.seen
        other.wrong_lists, other.late_files = self.wrong_lists, list(self.late_files)
        return other

    # --- the operator -------------------------------------------------------------------------------------------------

    def think(self) -> None:
        """Begin the next step of each object that has none under way."""
        self.seen = snapshot = self.world.snapshot()
        steps, waits = next_steps(snapshot)
        for wait in waits.values():
            assert wait.error is None, wait.reason
        for key, step in steps.items():
            if key.kind is not StepKind.JOB:  # pods come and go by rules of their own
                self.pending.setdefault(key, Pending(step, snapshot))

    def decide(self, behind: float = 0, *, every: int = 1, only: str | None = None) -> None:
        """Look, and think. The list is so old, and has each so-manieth machine only."""
        self.world.look(behind, only=None if only is None else PoolId(only))
        if every > 1:
            self.wrong_lists += 1
            self.world.look_once_wrongly(every)
        self.think()

    def carry_out(self, kind: str, name: str) -> None:
        """It takes effect now, or is refused."""
        key = StepKey(StepKind(kind), name)
        under_way = self.pending.pop(key)
        try:
            if under_way.reply is None:
                self.world.execute(under_way.step, under_way.decided)
            else:
                assert isinstance(under_way.step, AskCloud)
                assert self.seen is not None
                self.world.record_reply(under_way.step, under_way.reply, self.seen)
        except (Stale, Refused):
            return

    def carry_out_all(self) -> None:
        for kind, name in sorted(self.pending):
            self.carry_out(kind.value, name)

    def turn(self, behind: float = 0) -> None:
        """Undisturbed: a look, and every step there is."""
        self.decide(behind)
        self.carry_out_all()

    def cloud_answers(self, name: str) -> None:
        """The cloud has done what this pool's step asks for; the operator does not know yet."""
        key = StepKey(StepKind.POOL, name)
        under_way = self.pending.pop(key)
        assert isinstance(under_way.step, AskCloud)
        try:
            reply = self.world.ask_cloud(under_way.step, under_way.decided)
        except (Stale, Refused):
            return
        self.pending[key] = replace(under_way, reply=reply)

    def lose_the_answer(self, kind: str, name: str) -> None:
        """It takes effect, and the operator is told that nobody knows."""
        key = StepKey(StepKind(kind), name)
        self.world.dies_after_asking, before = True, self.world.dies_after_asking
        if self.pending[key].reply is None:
            self.carry_out(kind, name)
        else:
            del self.pending[key]
        self.world.dies_after_asking = before

    def crash(self) -> None:
        """What is under way is lost, but for calls to the cloud, which may arrive still."""
        calls = (each for each in self.pending.values() if isinstance(each.step, AskCloud) and each.reply is None)
        self.abandoned = list(calls)
        self.late_files += [each.step for each in self.pending.values() if isinstance(each.step, RecordCosts)]
        self.pending.clear()

    def a_file_arrives_late(self) -> None:
        """One of a process that has ended: whatever it says of costs, nothing is marked any more."""
        step = self.late_files.pop()
        self.world.cost_files.append([row for part in step.parts for row in part.rows])

    def a_call_arrives_late(self) -> None:
        """One of a process that has ended, to which nobody hears the answer."""
        call = self.abandoned.pop()
        assert isinstance(call.step, AskCloud)
        self.world.cloud.ask(call.step.ask)

    # --- people and time ----------------------------------------------------------------------------------------------

    def declare_again(self, *, older: bool) -> None:
        """Another pool of the same group."""
        created = make.at(-600 if older else 600)
        self.world.pools.setdefault(RENAMED.id, replace(RENAMED, created=created))

    def rent_gang(self, nodes: int) -> None:
        """For one job that needs them at once."""
        gang = Gang(f"gang-{self.world.created}", make.job().id, "research/sft", nodes)
        for _ in range(nodes):
            self.world.rent(gang)

    def a_machine_dies(self, name: str) -> None:
        """Of itself, now."""
        machine = next(machine for machine in self.world.cloud.machines if machine.name == name)
        machine.ends = self.world.cloud.now

    def stock(self, machines: int) -> None:
        """As many the cloud has from now on."""
        self.world.cloud.stock = machines

    def create_budget(self) -> None:
        """Another of the same name, some time after the former one has gone."""
        self.pass_time(1)
        self.world.create_budget()

    def create_pool(self) -> None:
        """The pool once more, after its object has gone."""
        self.world.pools.setdefault(make.POOL, make.pool(created=make.at(300)))

    def pass_time(self, seconds: int) -> None:
        """Calls of a process that has ended do not take that long."""
        self.abandoned.clear()
        self.world.cloud.advance(seconds)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Of each state."""
        world = self.world
        assert world.estimated or world.ledger() <= world.bill(), "the books show more than the bill"
        assert len(set(world.folded)) == len(world.folded), "folded twice"
        named = [rental for rental in world.rentals.values() if rental.instance is not None]
        paid = Counter(rental.instance for rental in named if rental.cost != ZERO)
        for rental in named:
            assert paid[rental.instance] <= 1, f"{rental.instance} is paid for by two rentals"
            assert rental.cost != ZERO, f"{rental.instance} ran, and costs nothing"

    def end(self) -> None:
        """From here on the operator lives, releases everything, and must come to an end."""
        world = self.world
        self.pending.clear()
        self.abandoned.clear()
        world.cloud.stock = 99
        world.dies_after_asking = False
        if not world.pools:
            self.create_pool()
        rest = 0
        for number in range(_ROUNDS):
            world.full = world.full and number < _FULL_ROUNDS
            if world.budget_gone:
                self.create_budget()
            world.look(LAG)
            for name, rental in world.rentals.items():
                if rental.phase is not RentalPhase.REQUESTED or rental.instance is None:
                    world.release(name)
            for job in sorted(world.jobs):
                world.finish_pod(job)
                world.record(job)
            self.think()
            quiet = all(world.full and isinstance(each.step, RecordCosts) for each in self.pending.values())
            self.carry_out_all()
            rest = rest + 1 if quiet and not (world.rentals or world.cloud.alive() or world.cloud.wants()) else 0
            if rest > 1:  # a list that is late enough shows nothing more
                break
            world.cloud.advance(LISTED // 4 if quiet else 3)
        while self.late_files:
            self.a_file_arrives_late()
        self._nothing_is_left()

    def _nothing_is_left(self) -> None:
        world = self.world
        assert not world.rentals, f"never forgotten: {world.rentals}"
        assert world.cloud.alive() == 0
        assert not world.cloud.wants()
        assert len(world.adopted) == len(world.cloud.machines), "a machine was never anybody's"
        self._all_is_paid_for()

    def _all_is_paid_for(self) -> None:
        world = self.world
        balance = world.budget.balance
        assert balance is not None
        assert not world.estimated, "a cost was estimated though the cloud told it"
        machines = {machine.name: machine.bill(world.cloud.now) for machine in world.cloud.machines}
        known = {name: bill for name, bill in machines.items() if name not in world.waived}
        assert world.ledger() == Money(sum(known.values()))
        assert world.on_record() == world.ledger(), "the record of costs is not the ledger"
        assert balance.costs.total >= balance.lifetime, "a cost was never shared out by cause"
        assert not balance.folded
        in_periods = total(period.spent for period in balance.history) + spent(world.budget, (), world.cloud.now)
        assert in_periods == balance.lifetime or world.hurried or world.cheapened
