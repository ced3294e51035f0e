"""Sums by pool, cause and namespace: each dollar is added once, by what was known then, and never taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import DAYS_KEPT, Balance, Budget, Cause, Costs, JobTime
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.money import Money, Price, total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import AddCosts, BookEntry, BudgetStep, Forget, KeepBooks, Wait
from charterer.domain.time import Instant, after
from charterer.ledger.balance import (
    DAY_NAMES_KEPT,
    KNOWN_NAMES_KEPT,
    NAMES_KEPT,
    OTHER,
    apply_costs,
    apply_entries,
)
from charterer.lifecycle.next_steps import budget_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    MARCH,
    POOL,
    T0,
    TEAM,
    allocation,
    at,
    balance,
    budget,
    instance,
    job,
    rental,
    snapshot,
    survey,
    with_uses,
)

DOLLAR_A_SECOND = Price.parse("3600")
NODE = rental(machine=instance(segments=(PriceSegment(T0, DOLLAR_A_SECOND),), billing_minimum_seconds=0), ready=at(60))


def entries(step: BudgetStep | Wait | None) -> tuple[BookEntry, ...]:
    assert step is None or isinstance(step, KeepBooks)
    return () if step is None else step.entries


def addition(step: BudgetStep | Wait | None) -> AddCosts | None:
    """The costs that the step adds."""
    return next((entry for entry in entries(step) if isinstance(entry, AddCosts)), None)


def next_step(*objects: Rental | Job, books: Balance, now: Instant) -> BudgetStep | Wait | None:
    return budget_step(TEAM, LifecycleView.of(with_uses(snapshot(budget(balance=books), *objects, now=now))))


def added(*objects: Rental | Job, books: Balance, now: Instant) -> Balance:
    step = next_step(*objects, books=books, now=now)
    assert addition(step) is not None
    return apply_entries(books, entries(step))


def by_cause(books: Balance) -> dict[str, str]:
    return {cause.value: amount.decimal() for (_, cause), amount in books.costs.by_pool.items()}


def trained(since: float, until: float, name: str = "sft", namespace: str = "research") -> Job:
    held = allocation("a100-1", since=at(since))
    over = RunRecord(1, RunOutcome.COMPLETE, held.option, held.placements, at(since), at(until), "")
    return job(name, id=JobId(name), namespace=namespace, records=(over,))


def test_each_minute_is_added_to_what_it_was_for() -> None:
    books = added(NODE, books=balance(), now=at(30))
    assert by_cause(books) == {"starting": "30.00"}
    books = added(NODE, trained(80, 120), books=books, now=at(100))
    assert by_cause(books) == {"starting": "60.00", "idle": "20.00", "job": "20.00"}
    released = replace(NODE, phase=RentalPhase.DRAINING, released_because="idle")
    books = added(released, trained(80, 120), books=books, now=at(160))
    assert by_cause(books) == {"starting": "60.00", "idle": "20.00", "job": "40.00", "ending": "40.00"}
    assert books.costs.by_namespace == {"research": Money.parse("40")}


def test_a_minute_passes_between_two_additions() -> None:
    books = added(NODE, books=balance(), now=at(30))
    assert next_step(NODE, books=books, now=at(89)) is None
    assert addition(next_step(NODE, books=books, now=at(90))) is not None


def test_the_end_of_a_rental_is_added_at_once_and_the_sums_are_then_the_ledgers() -> None:
    books = added(NODE, books=balance(), now=at(100))
    ended = replace(NODE, phase=RentalPhase.ENDED, ended=at(110), cost=Money.parse("110"))
    books = added(ended, books=books, now=at(112))
    assert books.costs.total == books.lifetime == Money.parse("110")
    assert next_step(ended, books=books, now=at(113)) is None


def test_a_rental_is_kept_until_its_cost_is_shared_out() -> None:
    ended = replace(NODE, phase=RentalPhase.ENDED, ended=at(110), cost=Money.parse("110"))
    folded = balance(lifetime=Money.parse("110"), settled=Money.parse("110"), folded=frozenset({NODE.uid}))
    nothing_left = survey(asked=10_000)
    seen = snapshot(budget(balance=folded), ended, nothing_left, now=at(10_000))
    assert isinstance(rental_step(ended.id, LifecycleView.of(seen)), Wait)
    shared = added(ended, books=folded, now=at(10_000))
    seen = snapshot(budget(balance=shared), ended, nothing_left, now=at(10_000))
    assert rental_step(ended.id, LifecycleView.of(seen)) == Forget(ended.id)


def test_a_machine_that_was_found_late_and_had_ended_counts_for_its_own_pool() -> None:
    books = added(NODE, books=balance(), now=at(600))
    found = replace(NODE, id=RentalId("b-1"), uid="uid-b", pool=PoolId("b"), created=at(610), ready=at(0))
    ended = replace(found, phase=RentalPhase.ENDED, ended=at(500), cost=Money.parse("500"))
    later = added(NODE, ended, books=books, now=at(660))
    assert later.costs.by_pool[PoolId("b"), Cause.IDLE] == Money.parse("500")
    assert later.costs.total - books.costs.total == Money.parse("560")


def test_what_jobs_dollars_went_to_is_a_part_of_them_by_namespace_and_day() -> None:
    starts = job(allocation=allocation("a100-1", since=at(80)))
    begun = added(NODE, starts, books=balance(), now=at(100))
    assert begun.costs.went_to == {("research", JobTime.RUN_START): Money.parse("20")}
    over = trained(100, 160, "other", "nlp")
    later = added(NODE, over, books=begun, now=at(160))
    assert later.costs.went_to == begun.costs.went_to, "of a run that was seen only when it was over nothing is known"
    assert later.costs.by_namespace == {"research": Money.parse("20"), "nlp": Money.parse("60")}
    assert later.costs.days[-1].went_to == {JobTime.RUN_START: Money.parse("20")}


def test_of_too_many_namespaces_what_is_known_counts_under_other() -> None:
    known = {(f"ns{number:03}", JobTime.TRAINED): Money(1) for number in range(KNOWN_NAMES_KEPT + 2)}
    books = balance()
    step = AddCosts(TEAM, None, Costs({(POOL, Cause.JOB): Money(102)}, {}, T0, went_to=known), MARCH)
    kept = apply_costs(books, step).costs.went_to
    assert len(kept) == KNOWN_NAMES_KEPT + 1
    assert kept[OTHER, JobTime.TRAINED] == Money(2)
    assert total(kept.values()) == Money(KNOWN_NAMES_KEPT + 2)


def test_a_job_that_is_deleted_takes_nothing_back() -> None:
    books = added(NODE, trained(60, 120), books=balance(), now=at(120))
    later = added(NODE, books=books, now=at(180))
    assert by_cause(later) == {"starting": "60.00", "job": "60.00", "idle": "60.00"}


def test_what_a_machine_that_had_ended_cost_too_much_is_made_up_for_later() -> None:
    books = added(NODE, books=balance(), now=at(100))
    ended = replace(NODE, phase=RentalPhase.ENDED, ended=at(90), cost=Money.parse("90"))
    folded = added(ended, books=books, now=at(200))
    assert folded.costs.total == Money.parse("100")
    machine = instance("i2", launched=at(200), segments=(PriceSegment(at(200), DOLLAR_A_SECOND),))
    fresh = rental("a100-2", machine=replace(machine, billing_minimum_seconds=0))
    books = added(ended, fresh, books=folded, now=at(260))
    assert books.costs.total == books.lifetime + Money.parse("60") == Money.parse("150")


def test_what_no_rental_accounts_for_any_more_is_added_with_what_is_spent_next() -> None:
    books = added(books=balance(lifetime=Money.parse("5")), now=at(10))
    assert books.costs.total == Money.parse("0")
    assert next_step(books=books, now=at(1_000)) is None
    assert added(NODE, books=books, now=at(100)).costs.total == Money.parse("105")


def test_months_that_no_operator_ran_are_added_when_one_does() -> None:
    books = added(NODE, trained(60, 3600), books=balance(), now=at(120))
    late = after(at(0), 40 * 86_400)
    step = budget_step(TEAM, LifecycleView.of(snapshot(budget(balance=replace(books, period_start=MARCH)), NODE)))
    books = apply_entries(books, entries(step))
    opened = replace(books, period_start=late)
    assert added(NODE, trained(60, 3600), books=opened, now=late).costs.total == Money.parse(f"{40 * 86_400}")


def test_a_step_that_is_repeated_or_late_adds_nothing() -> None:
    step = addition(next_step(NODE, books=balance(), now=at(30)))
    assert step is not None
    once = apply_costs(balance(), step)
    assert apply_costs(once, step) == once
    assert once.costs.total == Money.parse("30")


@pytest.mark.parametrize("kind", ["pools", "namespaces"])
def test_names_beyond_the_bound_share_one_sum(kind: str) -> None:
    many = range(NAMES_KEPT + 3)
    by_pool = {(PoolId(f"p{n}" if kind == "pools" else POOL), Cause.JOB): Money(1) for n in many}
    by_namespace = {f"ns{n}" if kind == "namespaces" else "research": Money(1) for n in many}
    books = apply_costs(balance(), AddCosts(TEAM, None, Costs(by_pool, by_namespace, at(1)), MARCH))
    sums = {pool: amount for (pool, _), amount in books.costs.by_pool.items()}
    shown = sums if kind == "pools" else books.costs.by_namespace
    assert len(shown) == NAMES_KEPT + 1
    assert {str(name): amount for name, amount in shown.items()}[OTHER] == Money(3)
    again = apply_costs(books, AddCosts(TEAM, at(1), Costs(by_pool, by_namespace, at(2)), MARCH))
    assert again.costs.total == Money(2 * sum(amount.micros for amount in by_pool.values()))


def test_another_budgets_jobs_are_not_looked_at() -> None:
    elsewhere = replace(trained(60, 120), records=(), allocation=allocation("other-1", since=at(0)))
    books: Budget = budget(balance=balance())
    step = addition(budget_step(TEAM, LifecycleView.of(snapshot(books, NODE, elsewhere, now=at(120)))))
    assert step is not None
    assert step.added.by_namespace == {}


def test_each_day_of_the_last_62_has_its_causes_and_its_first_namespaces() -> None:
    books = balance()
    for day in range(DAYS_KEPT + 3):
        start, first = after(MARCH, day * 86_400), books.costs.through
        spent = {f"team-{day % 2}{number}": Money(number) for number in range(1, DAY_NAMES_KEPT + 3)}
        amount = total(spent.values())
        half = Costs({(PoolId("a"), Cause.JOB): amount, (PoolId("b"), Cause.IDLE): Money(7)}, spent, after(start, 1))
        books = apply_costs(books, AddCosts(TEAM, first, half, start))
        books = apply_costs(books, AddCosts(TEAM, after(start, 1), replace(half, through=after(start, 2)), start))
    days = books.costs.days
    assert [day.start for day in days] == [after(MARCH, day * 86_400) for day in range(3, DAYS_KEPT + 3)]
    for counted in days:
        assert counted.by_cause == {Cause.JOB: Money(2 * amount.micros), Cause.IDLE: Money(14)}
        assert total(counted.by_namespace.values()) == counted.by_cause[Cause.JOB]
        assert len(counted.by_namespace) == DAY_NAMES_KEPT + 1
        assert OTHER in counted.by_namespace


def test_a_clock_that_is_set_back_a_day_adds_to_the_last_day() -> None:
    added_to = Costs({(PoolId("a"), Cause.IDLE): Money(5)}, {}, at(1))
    books = apply_costs(balance(), AddCosts(TEAM, None, added_to, after(MARCH, 86_400)))
    books = apply_costs(books, AddCosts(TEAM, at(1), replace(added_to, through=at(2)), MARCH))
    assert [(day.start, day.by_cause) for day in books.costs.days] == [(after(MARCH, 86_400), {Cause.IDLE: Money(10)})]
