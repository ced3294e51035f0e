"""Courses that once ended with a machine paid for twice or not at all."""

from __future__ import annotations

from charterer.domain.ids import InstanceId
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import RecordOrphan
from tests import factory as make
from tests.property.lifecycle.rented_cloud import LAG
from tests.property.lifecycle.test_rentals_any_course import RentalsOnAnyCourse


class _Named(RentalsOnAnyCourse):
    traits = make.NAMED


class _Replying(RentalsOnAnyCourse):
    traits = make.REPLYING


def test_two_pools_of_a_group_that_find_one_machine_at_once_make_one_rental_for_it() -> None:
    course = _Named()
    world = course.world
    course.work_undisturbed(turns=3, behind=0, seconds=1)
    world.rent()
    course.think()
    course.carry_out_all()
    (rental,) = world.rentals.values()
    assert world.cloud.alive() == 1
    world.write(rental, deleting=True)
    while world.rentals[rental.id].phase is not RentalPhase.ENDED:  # lists that are too old to show the machine
        course.ask_the_cloud(behind=LAG, only=None)
        course.think()
        course.carry_out_all()
    world.tear_out(make.POOL)
    world.cloud.advance(LAG)
    world.look()
    course.think()
    course.the_same_group_is_declared_again(older=False)
    world.look()
    course.think()
    both = [step for step, _ in course.pending.values() if isinstance(step, RecordOrphan)]
    assert len(both) == 2
    assert len({step.rental for step in both}) == 1
    course.carry_out_all()
    course.teardown()


def test_a_machine_that_died_at_once_is_paid_for_though_its_rental_had_waited_and_one_list_is_empty() -> None:
    course = _Replying()
    world = course.world
    course.work_undisturbed(turns=3, behind=0, seconds=1)
    world.rent()
    world.cloud.advance(30)
    course.think()
    course.carry_out_all()
    (rental,) = world.rentals.values()
    assert rental.instance == InstanceId("i0")
    machine = world.cloud.machines[0]
    machine.ends = world.cloud.now
    world.cloud.advance(1)
    world.look(LAG)
    course.think()
    course.carry_out_all()
    world.cloud.advance(80)
    world.look()
    world.look_once_wrongly(99)
    course.think()
    course.carry_out_all()
    course.teardown()
