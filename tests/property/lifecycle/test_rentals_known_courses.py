"""Courses that once ended with a machine paid for twice or not at all."""

from __future__ import annotations

from charterer.domain.ids import InstanceId
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import RecordOrphan
from tests import factory as make
from tests.property.lifecycle.rented_cloud import LAG
from tests.property.lifecycle.rented_course import Course


def test_two_pools_of_a_group_that_find_one_machine_at_once_make_one_rental_for_it() -> None:
    course = Course(make.NAMED)
    world = course.world
    for _ in range(3):
        course.pass_time(1)
        course.turn()
    world.rent()
    course.think()
    course.carry_out_all()
    (rental,) = world.rentals.values()
    assert world.cloud.alive() == 1
    world.write(rental, deleting=True)
    while world.rentals[rental.id].phase is not RentalPhase.ENDED:  # lists that are too old to show the machine
        course.decide(LAG)
        course.carry_out_all()
    world.tear_out(make.POOL)
    world.cloud.advance(LAG)
    world.look()
    course.think()
    course.declare_again(older=False)
    world.look()
    course.think()
    both = [each.step for each in course.pending.values() if isinstance(each.step, RecordOrphan)]
    assert len(both) == 2
    assert len({step.rental for step in both}) == 1
    course.carry_out_all()
    course.end()


def test_a_machine_that_died_at_once_is_paid_for_though_its_rental_had_waited_and_one_list_is_empty() -> None:
    course = Course(make.REPLYING)
    world = course.world
    for _ in range(3):
        course.pass_time(1)
        course.turn()
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
    course.end()


def test_a_late_reply_to_a_pool_does_not_close_the_rental_for_which_another_pool_of_the_group_has_asked_too() -> None:
    course = Course(make.REPLYING)
    course.world.rent()
    course.decide()
    course.cloud_answers("a100")
    course.declare_again(older=True)
    course.decide(LAG)
    course.carry_out("pool", "renamed")
    course.turn()
    course.check()
    course.end()


def test_a_pool_does_not_go_before_a_machine_that_died_at_once_is_on_record() -> None:
    course = Course(make.REPLYING)
    course.world.rent()
    course.decide()
    course.cloud_answers("a100")
    course.world.tear_out("a100")
    course.world.delete("a100-1")
    course.a_machine_dies("i0")
    course.lose_the_answer("pool", "a100")
    course.create_pool()
    course.turn(LAG)
    course.declare_again(older=True)
    course.turn(LAG)
    course.turn(LAG)
    course.world.tear_out("a100")
    course.world.delete_pool("renamed")
    course.end()
