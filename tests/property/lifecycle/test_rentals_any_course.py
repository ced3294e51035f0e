"""Whatever the cloud, the cluster and crashes do, every machine is paid for once, ended and forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charterer.domain.ids import PoolId
from charterer.domain.rental import Gang, Rental, RentalPhase, by_gang
from charterer.domain.time import Calendar, Grant, Period
from tests import factory as make
from tests import lanes
from tests.property.lifecycle.rented_cloud import LAG
from tests.property.lifecycle.rented_course import Course
from tests.property.lifecycle.rented_objects import RENAMED

CALENDARS = (
    *(Calendar("UTC", period) for period in (Period.WEEK, Period.MONTH, Period.QUARTER, Period.YEAR)),
    Calendar("UTC", Period.GRANT, Grant(date(2026, 1, 1), date(2026, 1, 1))),
    Calendar("UTC", Period.GRANT, Grant(date(2025, 12, 1), date(2025, 12, 31))),
)
"""Courses begin on New Year's Eve: most have a period that ends then, or a grant that begins or ends."""


class RentalsOnAnyCourse(RuleBasedStateMachine):
    """Steps are decided on a snapshot and carried out later, in any order, or never: the operator crashed."""

    traits = make.COUNTED

    def __init__(self) -> None:
        super().__init__()
        self.course = Course(self.traits)
        self.world = self.course.world
        self.gangs = 0

    @initialize(calendar=st.sampled_from(CALENDARS))
    def the_budget_has_a_period(self, calendar: Calendar) -> None:
        self.world.budget = replace(self.world.budget, calendar=calendar)

    # --- the operator ----

    @rule(behind=st.integers(0, LAG), only=st.sampled_from([None, make.POOL, RENAMED.id]))
    def ask_the_cloud(self, behind: int, only: PoolId | None) -> None:
        self.world.look(behind, only=only)

    @rule()
    def think(self) -> None:
        self.course.think()

    @precondition(lambda self: self.course.pending)
    @rule(data=st.data())
    def carry_out_one(self, data: st.DataObject) -> None:
        self.course.carry_out(*data.draw(st.sampled_from(sorted(self.course.pending))))

    @rule()
    def carry_out_all(self) -> None:
        self.course.carry_out_all()

    @precondition(lambda self: self.course.pending)
    @rule(data=st.data())
    def lose_the_answer(self, data: st.DataObject) -> None:
        """It took effect, and is done again."""
        key = data.draw(st.sampled_from(sorted(self.course.pending)))
        again = self.course.pending[key]
        self.course.carry_out(*key)
        self.course.pending[key] = again

    @rule(turns=st.integers(1, 12), behind=st.integers(0, LAG), seconds=st.integers(0, 20))
    def work_undisturbed(self, turns: int, behind: int, seconds: int) -> None:
        for _ in range(turns):
            self.world.cloud.advance(seconds)
            self.world.look(behind)
            self.think()
            self.carry_out_all()

    @rule()
    def crash(self) -> None:
        self.course.crash()

    @precondition(lambda self: self.course.late_files)
    @rule()
    def a_file_of_costs_arrives_late(self) -> None:
        self.course.a_file_arrives_late()

    @rule(dies=st.booleans())
    def an_answer_is_recorded_or_not(self, dies: bool) -> None:
        self.world.dies_after_asking = dies

    @rule(full=st.booleans())
    def the_record_of_costs_is_full_or_not(self, full: bool) -> None:
        self.world.full = full

    # --- the planner and people ----

    @precondition(lambda self: sum(rental.phase is not RentalPhase.ENDED for rental in self._rentals()) < 5)
    @rule(nodes=st.integers(1, 2))
    def rent(self, nodes: int) -> None:
        for _ in range(nodes):
            self.world.rent()

    @precondition(lambda self: sum(rental.phase is not RentalPhase.ENDED for rental in self._rentals()) < 5)
    @rule(nodes=st.integers(2, 4), unwritten=st.sampled_from([0, 0, 1]))
    def rent_a_gang(self, nodes: int, unwritten: int) -> None:
        """For one job; the operator may end before all rentals are written."""
        self.gangs += 1
        gang = Gang(f"gang-{self.gangs}", make.job().id, "research/sft", nodes)
        for _ in range(nodes - unwritten):
            self.world.rent(gang)

    @rule()
    def a_gang_is_completed(self) -> None:
        """By the planner, as long as its job waits for it."""
        for members in by_gang(self._rentals()).values():
            gang = members[0].gang
            assert gang is not None
            for _ in range(gang.nodes - sum(rental.stays for rental in members)):
                self.world.rent(gang)

    @precondition(lambda self: self.world.rentals)
    @rule(data=st.data(), how=st.sampled_from(["release", "delete", "start a pod"]))
    def use_or_release(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.rentals)))
        if how == "release":
            self.world.release(name)
        elif how == "delete":
            self.world.write(self.world.rentals[name], deleting=True)
        else:
            self.world.start_pod(name)

    @rule(older=st.booleans())
    def the_same_group_is_declared_again(self, older: bool) -> None:
        self.course.declare_again(older=older)

    @rule(name=st.sampled_from([make.POOL, RENAMED.id]))
    def a_pool_is_torn_out(self, name: PoolId) -> None:
        self.world.tear_out(name)

    @rule()
    def the_pool_is_created_again(self) -> None:
        self.course.create_pool()

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), recorded=st.booleans())
    def finish_a_pod(self, data: st.DataObject, recorded: bool) -> None:
        job = data.draw(st.sampled_from(sorted(self.world.jobs)))
        self.world.finish_pod(job)
        if recorded:
            self.world.record(job)

    # --- the cloud ----

    @rule(seconds=st.sampled_from([1, 7, 30, 65]))
    def time_passes(self, seconds: int) -> None:
        self.world.cloud.advance(seconds)

    @precondition(lambda self: self.world.cloud.alive())
    @rule(data=st.data(), silent=st.booleans())
    def a_machine_dies(self, data: st.DataObject, silent: bool) -> None:
        cloud = self.world.cloud
        machine = data.draw(st.sampled_from([item for item in cloud.machines if not item.ended(cloud.now)]))
        machine.ends, machine.silent = cloud.now, silent

    @rule(stock=st.sampled_from([0, 1, 2, 99]))
    def stock_changes(self, stock: int) -> None:
        self.world.cloud.stock = stock

    @rule(price=st.integers(1_000_000, 50_000_000))
    def the_price_changes(self, price: int) -> None:
        cloud = self.world.cloud
        cloud.price = price
        for machine in cloud.machines:
            if not machine.ended(cloud.now):
                machine.segments.append((cloud.now, price))

    @rule(every=st.sampled_from([2, 99]))
    def an_answer_is_half_or_empty(self, every: int) -> None:
        """Once; the next look, at which the operator acts too, has all again."""
        self.world.look_once_wrongly(every)
        self.think()
        self.carry_out_all()
        self.work_undisturbed(turns=1, behind=0, seconds=0)

    @rule(seconds=st.sampled_from([0.0, -20.0, 20.0, -7_200.0, 1_200.0, 40 * 86_400.0]), server=st.booleans())
    def a_clock_jumps(self, seconds: float, server: bool) -> None:
        self.world.wrong_by, self.world.server_wrong = seconds, server

    # --- what must hold ----

    def _rentals(self) -> list[Rental]:
        return list(self.world.rentals.values())

    @invariant()
    def all_is_well_so_far(self) -> None:
        self.course.check()

    def teardown(self) -> None:
        self.course.end()


class _WithNamedOrders(RentalsOnAnyCourse):
    traits = make.NAMED


class _WithReplies(RentalsOnAnyCourse):
    traits = make.REPLYING


_SETTINGS = settings(max_examples=lanes.examples(70), stateful_step_count=50)
TestRentalsOnAnyCourse = RentalsOnAnyCourse.TestCase
TestRentalsOnAnyCourse.settings = _SETTINGS
TestRentalsOfNamedOrders = _WithNamedOrders.TestCase
TestRentalsOfNamedOrders.settings = _SETTINGS
TestRentalsOfOrdersWithReplies = _WithReplies.TestCase
TestRentalsOfOrdersWithReplies.settings = _SETTINGS
