"""Pools with the same machines: one acts for all of them, and every machine has one rental."""

from __future__ import annotations

from charterer.domain.ids import PoolId
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import Adopt, AskCloud, Forget, SetFinalizer, Terminate, Wait
from charterer.lifecycle.next_steps import pool_guard
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests import factory as make

OTHER = PoolId("other")
TAKEN = make.pool(id=OTHER, uid="other-uid", taken_by=make.POOL, guarded=False)
MACHINE = make.instance()


def test_a_machine_that_a_rental_of_any_pool_names_is_nobody_elses() -> None:
    elsewhere = make.rental("other-1", MACHINE, pool=OTHER)
    view = LifecycleView.of(make.snapshot(make.pool(), elsewhere, make.survey(MACHINE)))
    assert pool_step(make.POOL, view) is None


def test_a_taken_pool_does_nothing_and_its_rentals_are_seen_to_by_the_other() -> None:
    asking = make.rental("other-1", pool=OTHER)
    snapshot = make.snapshot(make.pool(), TAKEN, asking, make.survey(MACHINE), make.survey(MACHINE, pool=OTHER))
    view = LifecycleView.of(snapshot)
    assert pool_step(OTHER, view) is None
    assert pool_step(make.POOL, view) == Adopt(asking.id, MACHINE)


def test_machines_of_a_taken_pools_rentals_count_towards_the_one_target() -> None:
    serving, asking = make.rental("other-1", MACHINE, pool=OTHER), make.rental("a100-1")
    step = pool_step(
        make.POOL, LifecycleView.of(make.snapshot(make.pool(), TAKEN, serving, asking, make.survey(MACHINE)))
    )
    assert isinstance(step, AskCloud)
    assert step.ask.at_least == 2


def test_a_machine_of_a_pool_that_is_gone_is_ended_by_the_pool_that_acts() -> None:
    left = make.pool(id=OTHER, gone=True, deleting=True, taken_by=make.POOL)
    leaving = make.rental("other-1", MACHINE, pool=OTHER, phase=RentalPhase.DRAINING)
    node = make.node(unschedulable=True)
    step = rental_step(
        leaving.id, LifecycleView.of(make.snapshot(make.pool(), left, leaving, node, make.survey(MACHINE)))
    )
    assert isinstance(step, Terminate)
    assert (step.rental, step.pool, step.instance, step.node) == (leaving.id, make.POOL, MACHINE, node.name)


def test_a_machine_of_a_pool_that_is_gone_is_ended_where_no_other_pool_has_it() -> None:
    left = make.pool(gone=True, deleting=True)
    leaving = make.rental(machine=MACHINE, phase=RentalPhase.DRAINING)
    node = make.node(unschedulable=True)
    step = rental_step(leaving.id, LifecycleView.of(make.snapshot(left, leaving, node, make.survey(MACHINE))))
    assert isinstance(step, Terminate)
    assert (step.rental, step.pool, step.instance, step.node) == (leaving.id, make.POOL, MACHINE, node.name)


def test_a_taken_pool_is_kept_only_by_rentals_of_its_own_name() -> None:
    going = make.pool(id=OTHER, uid="other-uid", taken_by=make.POOL, deleting=True)
    foreign = make.rental(machine=MACHINE)
    survey = make.survey(MACHINE)
    view = LifecycleView.of(make.snapshot(make.pool(), going, foreign, survey))
    assert pool_guard(OTHER, view) == SetFinalizer("GPUPool", OTHER, "other-uid", present=False)
    own = make.rental("other-1", pool=OTHER)
    assert isinstance(pool_guard(OTHER, LifecycleView.of(make.snapshot(make.pool(), going, own, survey))), Wait)


def test_a_rental_is_forgotten_only_when_no_pools_list_can_show_its_machine_again() -> None:
    over = make.ended(MACHINE, make.at(100))
    past = make.rental(machine=over, phase=RentalPhase.ENDED, ended=make.at(100), cost=make.PRICE.cost(100))
    budget = make.budget(balance=make.balance(folded=frozenset({past.uid})))
    late = 100 + make.LISTED + make.LAG
    current, old = make.survey(asked=late), make.survey(over, asked=200, pool=OTHER)
    view = LifecycleView.of(make.snapshot(budget, make.pool(), TAKEN, past, current, old))
    assert isinstance(rental_step(past.id, view), Wait)
    view = LifecycleView.of(
        make.snapshot(budget, make.pool(), TAKEN, past, current, make.survey(asked=late, pool=OTHER))
    )
    assert rental_step(past.id, view) == Forget(past.id)
