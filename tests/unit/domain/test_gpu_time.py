"""GPU-time of rentals and budgets: who held what, in which period, counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import GPU_HOUR, GpuHours
from charterer.domain.cost_row import USES_KEPT, Use
from charterer.domain.gpu_time import ended_in, gpu_time, held_in, held_on
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import Fold, OpenPeriod
from charterer.domain.time import Instant, after
from charterer.ledger.balance import StalePeriod, apply_fold, apply_open_period
from charterer.lifecycle.rental import fold
from charterer.lifecycle.view import LifecycleView, uses_now
from tests import factory
from tests.factory import OFFERING, POOL, T0, TEAM
from tests.factory.cost_rows import payer

HOUR = 3_600.0
START = factory.budget().period[0]
KIND = OFFERING.gpu_type


def use(job: str, gpus: int, since: float, until: float | None = None) -> Use:
    """Hours since T0."""
    holder = payer(job_uid=job)
    return Use(holder, gpus, _at(since), None if until is None else _at(until))


def _at(hours: float) -> Instant:
    return after(T0, hours * HOUR)


def rental(*uses: Use, **changes: object) -> Rental:
    made = factory.rental("a100-1", pool=POOL, budget=TEAM, launched=T0, gpu_type=KIND)
    return replace(made, uses=uses, **changes)  # type: ignore[arg-type]


def test_ended_and_present_uses_are_counted_in_a_span_and_not_beyond_the_machines_end() -> None:
    held = rental(use("one", 4, 0, 2), use("two", 2, 1))
    assert held_in(held, T0, _at(3)) == (4 * 2 + 2 * 2) * GPU_HOUR
    assert held_in(held, _at(1), _at(3)) == (4 + 2 * 2) * GPU_HOUR
    ended = replace(held, ended=_at(1.5))
    assert held_in(ended, T0, _at(9)) == (4 * 1.5 + 2 * 0.5) * GPU_HOUR
    for each in (held, ended):
        assert ended_in(each, T0) + held_on(each, T0, _at(3)) == held_in(each, T0, _at(3))


def test_uses_that_a_rental_lists_no_more_still_count_in_their_period_and_not_in_the_next() -> None:
    many = [use(f"j{number}", 1, number * 0.1, number * 0.1 + 0.05) for number in range(USES_KEPT + 60)]
    world = factory.snapshot(factory.budget(), factory.pool(offering=OFFERING), rental(*many), now=_at(30))
    before = next(iter(world.rentals.values()))
    after_all = uses_now(before, (), replace(world, now=_at(31)))
    assert after_all is before, "all of them have ended already"
    longer = uses_now(before, [use("last", 8, 29.9)], world)
    assert len(longer.uses) == USES_KEPT
    assert held_in(longer, START, _at(30)) == held_in(before, START, _at(30)) + round(0.8 * GPU_HOUR)
    assert longer.dropped_gpu_time == round(61 * 0.05 * GPU_HOUR)
    later = factory.budget().calendar.end(START)
    assert held_in(longer, later, after(later, HOUR)) == 8 * GPU_HOUR


def test_a_rental_is_folded_with_its_time_in_the_period_once() -> None:
    ended = rental(use("one", 4, 0, 2), use("two", 2, 1), phase=RentalPhase.ENDED, ended=_at(3))
    ended = replace(ended, cost=factory.balance().settled)
    world = factory.snapshot(factory.budget(), factory.pool(offering=OFFERING), ended, now=_at(4))
    step = fold(ended, LifecycleView.of(world))
    assert isinstance(step, Fold)
    assert step.gpu_time == {KIND: 12 * GPU_HOUR}
    folded = apply_fold(factory.balance(), step)
    assert folded.gpu_time == {KIND: 12 * GPU_HOUR}
    assert apply_fold(folded, step) is folded
    budget = factory.budget(balance=folded)
    assert gpu_time(budget, world.rentals.values(), world.pools, _at(4)) == {KIND: 12 * GPU_HOUR}


def test_a_new_period_begins_with_none_and_keeps_what_was_used() -> None:
    balance = replace(factory.balance(), gpu_time={KIND: 7})
    end = factory.budget().calendar.end(START)
    step = OpenPeriod(TEAM, end, balance.settled, START, last_gpu_time={KIND: 9})
    opened = apply_open_period(balance, step)
    assert opened.gpu_time == {}
    assert opened.history[-1].gpu_time == {KIND: 9}
    assert apply_open_period(opened, step) is opened
    with pytest.raises(StalePeriod):
        apply_open_period(balance, replace(step, last_start=end))


def test_an_amount_is_released_evenly_and_ten_days_ahead() -> None:
    hours, end = GpuHours(KIND, 3_000), after(START, 30 * 86_400.0)
    assert hours.released(START, end, START) == 1_000
    assert hours.released(START, end, after(START, 5 * 86_400.0)) == 1_500
    assert hours.released(START, end, after(START, 25 * 86_400.0)) == 3_000
    at = hours.released_at(1_499, START, end)
    assert hours.released(START, end, at) > 1_499
    assert hours.released(START, end, after(at, -600.0)) <= 1_499
    assert hours.released_at(3_000, START, end) == end
