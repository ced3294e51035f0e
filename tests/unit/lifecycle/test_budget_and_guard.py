"""Periods open and close with exact books, and what is in use is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.domain.budget import FOLDED_KEPT, Budget, Costs, Mode
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Finish, FinishKind, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    AddCosts,
    BookEntry,
    BudgetStep,
    CountedJob,
    CountJobs,
    DeleteJob,
    Fold,
    Forget,
    KeepBooks,
    OpenPeriod,
    PruneFolded,
    SetFinalizer,
    Wait,
)
from charterer.domain.time import Calendar, Instant, after, moment
from charterer.ledger.balance import apply_entries
from charterer.lifecycle.next_steps import budget_guard, budget_step, pool_guard
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    APRIL,
    LAG,
    LISTED,
    MARCH,
    POOL,
    PRICE,
    TEAM,
    allocation,
    at,
    balance,
    budget,
    instance,
    job,
    pool,
    rental,
    snapshot,
    survey,
)

EVE = after(APRIL, -3600)
MACHINE = instance(launched=EVE)
RUNNING = rental(machine=MACHINE)
HOURS = PRICE.cost(3600)
SOON = after(APRIL, 60)

AIM = Money.parse("1000")


def step(snapshot: Snapshot) -> BudgetStep | Wait | None:
    return budget_step(TEAM, LifecycleView.of(snapshot))


def entries(snapshot: Snapshot) -> tuple[BookEntry, ...]:
    """What is written into the balance; nothing where nothing is."""
    done = step(snapshot)
    assert done is None or isinstance(done, KeepBooks)
    return () if done is None else done.entries


def asked(when: Instant, *machines: Any) -> Any:
    return replace(survey(*machines), asked=when)


def test_a_new_budget_opens_the_month_it_is_in() -> None:
    assert step(snapshot(budget(balance=None))) == OpenPeriod(TEAM, MARCH, None, None)
    assert step(snapshot()) is None


def test_what_runs_across_the_end_is_split_there() -> None:
    done = step(snapshot(RUNNING, asked(SOON, MACHINE), now=SOON))
    assert done == OpenPeriod(TEAM, APRIL, HOURS, MARCH, last_aim=AIM)


def test_the_last_period_is_what_was_settled_opened_with_and_running() -> None:
    books = budget(balance=balance(settled=Money(5)), opening_spend=Money(7))
    done = step(snapshot(RUNNING, books, asked(SOON, MACHINE), now=SOON))
    assert done == OpenPeriod(TEAM, APRIL, HOURS + Money(12), MARCH, last_aim=AIM)


def test_a_period_ends_only_after_all_that_ended_in_it_was_folded() -> None:
    over = replace(RUNNING, phase=RentalPhase.ENDED, ended=APRIL, cost=HOURS)
    assert entries(snapshot(over, now=SOON)) == (Fold(over.id, over.uid, TEAM, HOURS, HOURS, MARCH),)
    full = budget(balance=balance(folded=frozenset(f"uid-{number}" for number in range(FOLDED_KEPT))))
    assert [type(entry) for entry in entries(snapshot(over, full, now=SOON))] == [PruneFolded, Fold]
    folded = budget(balance=balance(settled=HOURS, folded=frozenset({over.uid})))
    assert step(snapshot(over, folded, now=SOON)) == OpenPeriod(TEAM, APRIL, HOURS, MARCH, last_aim=AIM)


def test_a_rental_that_got_nothing_is_folded_before_the_period_ends_too() -> None:
    nothing = rental(phase=RentalPhase.ENDED, cost=Money(0))
    assert [type(entry) for entry in entries(snapshot(nothing, now=SOON))] == [Fold]


def test_what_ended_after_the_end_does_not_hold_it_up() -> None:
    over = replace(RUNNING, phase=RentalPhase.ENDED, ended=after(APRIL, 30), cost=PRICE.cost(3630))
    assert step(snapshot(over, now=SOON)) == OpenPeriod(TEAM, APRIL, HOURS, MARCH, last_aim=AIM)


def test_the_cloud_is_asked_what_outlived_the_period_but_not_for_ever() -> None:
    stale = asked(after(APRIL, LAG - 1), MACHINE)
    waiting = step(snapshot(RUNNING, stale, now=SOON))
    assert isinstance(waiting, Wait)
    assert waiting.until == after(APRIL, 600)
    assert isinstance(step(snapshot(RUNNING, stale, now=after(APRIL, 600))), OpenPeriod)


def test_the_period_stays_open_while_a_machine_is_missing_from_the_list() -> None:
    """Only a later list tells whether it has ended, and since when."""
    lost = replace(RUNNING, missing_since=SOON)
    waiting = step(snapshot(lost, asked(SOON), now=SOON))
    assert isinstance(waiting, Wait)
    assert RUNNING.id in waiting.reason


def test_an_instance_launched_in_the_period_is_adopted_before_it_ends() -> None:
    waiting = rental(created=EVE)
    assert isinstance(step(snapshot(waiting, asked(SOON, MACHINE), now=SOON)), Wait)
    assert isinstance(step(snapshot(waiting, asked(SOON), now=SOON)), OpenPeriod)
    assert isinstance(step(snapshot(waiting, asked(SOON, instance(launched=after(APRIL, 1))), now=SOON)), OpenPeriod)


def test_an_instance_that_another_pool_lists_for_a_rental_is_adopted_before_the_period_ends() -> None:
    taken = pool(id=PoolId("other"), uid="other-uid", taken_by=POOL)
    waiting = rental("other-1", created=EVE, pool=taken.id)
    assert isinstance(step(snapshot(pool(), taken, waiting, asked(SOON, MACHINE), now=SOON)), Wait)
    assert isinstance(step(snapshot(pool(), taken, waiting, asked(SOON), now=SOON)), OpenPeriod)


def test_what_was_launched_at_the_very_end_is_the_next_periods() -> None:
    machine = instance(launched=APRIL)
    done = step(snapshot(rental(machine=machine), asked(SOON, machine), now=SOON))
    assert done == OpenPeriod(TEAM, APRIL, Money(0), MARCH, last_aim=AIM)


def test_months_that_nobody_saw_are_closed_one_by_one() -> None:
    done = step(snapshot(now=after(APRIL, 70 * 86_400)))
    assert isinstance(done, OpenPeriod)
    assert moment(done.start).month == 4


def test_a_changed_time_zone_ends_the_period_with_the_new_zones_month() -> None:
    moved: Budget = budget(calendar=Calendar("Asia/Tokyo"))
    assert step(snapshot(moved, now=after(APRIL, -10 * 3600))) is None
    done = step(snapshot(moved, now=after(APRIL, -9 * 3600)))
    assert done == OpenPeriod(TEAM, after(APRIL, -9 * 3600), Money(0), MARCH, last_aim=AIM)


def _carried(percent: int, settled: str, **changes: Any) -> Money:
    books = budget(carry_over_percent=percent, balance=balance(settled=Money.parse(settled), **changes))
    done = step(snapshot(books, asked(SOON), now=SOON))
    assert isinstance(done, OpenPeriod)
    return done.carried


def test_a_part_of_what_is_left_over_or_overspent_goes_into_the_next_period() -> None:
    assert _carried(0, "900") == Money(0)
    assert _carried(50, "900") == Money.parse("50")
    assert _carried(50, "1100.000001") == Money.parse("-50")
    assert _carried(100, "900", carried=Money.parse("30")) == Money.parse("130")


def _finished(**changes: Any) -> Any:
    end = Finish(FinishKind.COMPLETE, at(3600), "Completed", "")
    ran = allocation()
    told = RunRecord(1, RunOutcome.COMPLETE, ran.option, ran.placements, at(0), at(3600), "")
    fields = {"allocation": None, "records": (told,), "last_run": 1, "finish": end, "predicted": Money(7)}
    return job(**(fields | changes))


def test_a_finished_job_is_counted_once_with_what_it_has_cost() -> None:
    over = _finished()
    counted = CountedJob(over.id, over.statistics, Money(7), HOURS, over.created, at(3600))
    assert entries(snapshot(over, now=at(4000))) == (CountJobs(TEAM, (counted,)),)
    known = budget(balance=balance(counted={over.id: at(3600)}))
    assert step(snapshot(known, over, now=at(4000))) is None
    long_ago = budget(balance=balance(counted_through=at(3600)))
    assert step(snapshot(long_ago, over, now=at(4000))) is None


def test_a_job_that_was_never_predicted_or_still_runs_is_not_counted() -> None:
    assert step(snapshot(_finished(predicted=None), now=at(4000))) is None
    assert step(snapshot(_finished(finish=None), now=at(4000))) is None


def test_a_finished_job_is_kept_until_it_is_counted() -> None:
    over = _finished(ttl_seconds_after_finished=0, runs=())
    assert isinstance(run_step(over.id, LifecycleView.of(snapshot(over, now=at(4000)))), Wait)
    known = budget(balance=balance(counted={over.id: at(3600)}))
    assert run_step(over.id, LifecycleView.of(snapshot(known, over, now=at(4000)))) == DeleteJob(over.id)


def test_uids_of_rentals_that_are_gone_are_dropped() -> None:
    over = replace(RUNNING, phase=RentalPhase.ENDED)
    books = budget(balance=balance(folded=frozenset({over.uid, "uid-b", "uid-a"})))
    assert entries(snapshot(over, books)) == (PruneFolded(TEAM, ("uid-a", "uid-b")),)


def test_while_money_is_spent_rentals_that_are_gone_are_dropped_with_the_next_write() -> None:
    books = balance(folded=frozenset({"uid-a"}), costs=Costs(through=at(0)))
    assert entries(snapshot(budget(balance=books), now=at(59))) == ()
    assert [type(entry) for entry in entries(snapshot(budget(balance=books), now=at(60)))] == [PruneFolded]
    assert [type(entry) for entry in entries(snapshot(budget(balance=books), _finished(), now=at(30)))] == [
        PruneFolded,
        CountJobs,
    ]


def test_all_that_ends_before_a_turn_is_one_write() -> None:
    """Rentals, jobs, costs and what is gone: however many there are, and each with what the one before has added."""
    over = [
        replace(
            rental(f"a100-{number}", machine=instance(f"i{number}", launched=at(0))),
            phase=RentalPhase.ENDED,
            ended=at(3600),
            cost=HOURS,
        )
        for number in range(1, 21)
    ]
    jobs = [_finished(name=f"sft-{number}", id=JobId(f"job-{number}")) for number in range(20)]
    before = balance(folded=frozenset({"uid-gone"}))
    written = entries(snapshot(budget(balance=before), *over, *jobs, now=at(4000)))
    assert [type(entry) for entry in written] == [PruneFolded, *[Fold] * 20, CountJobs, AddCosts]
    books = apply_entries(before, written)
    assert books.folded == {each.uid for each in over}
    assert books.lifetime == books.costs.total == Money(20 * HOURS.micros)
    assert len(books.counted) == 20
    assert entries(snapshot(budget(balance=books), *over, *jobs, now=at(4001))) == ()


def test_only_as_many_rentals_are_folded_as_the_list_has_room_for() -> None:
    there = [replace(rental(f"a100-{number}"), phase=RentalPhase.ENDED, cost=Money(0)) for number in range(1, 4)]
    full = frozenset({there[0].uid})
    books = balance(folded=full, costs=Costs(through=at(0)))
    written = entries(snapshot(budget(balance=books), *there, now=at(1)))
    assert [entry.rental for entry in written if isinstance(entry, Fold)] == ["a100-2", "a100-3"]
    many = [replace(there[1], id=RentalId(f"a100-{number}"), uid=f"u{number}") for number in range(FOLDED_KEPT + 5)]
    books = replace(books, folded=frozenset(each.uid for each in many[: FOLDED_KEPT - 2]))
    written = entries(snapshot(budget(balance=books), *many, now=at(1)))
    assert sum(isinstance(entry, Fold) for entry in written) == 2


def test_a_budget_that_observes_keeps_its_books_too() -> None:
    watching = budget(mode=Mode.OBSERVE, balance=None)
    assert isinstance(step(snapshot(watching)), OpenPeriod)


def test_budgets_and_pools_are_guarded_while_a_rental_names_them() -> None:
    view = LifecycleView.of(snapshot(RUNNING, budget(guarded=False), pool(guarded=False), survey(MACHINE)))
    assert budget_guard(TEAM, view) == SetFinalizer("GPUBudget", TEAM, "team-uid", present=True)
    assert pool_guard(POOL, view) == SetFinalizer("GPUPool", POOL, "pool-uid", present=True)
    idle = LifecycleView.of(snapshot(budget(guarded=False), pool(guarded=False), survey()))
    assert budget_guard(TEAM, idle) is None
    assert pool_guard(POOL, idle) is None


def test_what_is_being_deleted_is_kept_until_its_last_rental_is_forgotten() -> None:
    going = budget(deleting=True), pool(deleting=True)
    view = LifecycleView.of(snapshot(RUNNING, *going, survey(MACHINE)))
    assert isinstance(budget_guard(TEAM, view), Wait)
    assert isinstance(pool_guard(POOL, view), Wait)
    free = LifecycleView.of(snapshot(*going, survey()))
    assert budget_guard(TEAM, free) == SetFinalizer("GPUBudget", TEAM, "team-uid", present=False)
    assert pool_guard(POOL, free) == SetFinalizer("GPUPool", POOL, "pool-uid", present=False)


def test_a_budget_being_deleted_does_not_wait_until_the_cloud_forgets_what_is_settled() -> None:
    over = replace(RUNNING, phase=RentalPhase.ENDED, ended=at(100), cost=HOURS)
    going = budget(deleting=True, balance=balance(folded=frozenset({over.uid})))
    view = LifecycleView.of(snapshot(over, going, survey()))
    assert rental_step(over.id, view) == Forget(over.id)
    assert isinstance(budget_guard(TEAM, view), Wait)
    leaving = replace(over, deleting=True)
    view = LifecycleView.of(snapshot(leaving, going, survey()))
    assert budget_guard(TEAM, view) == SetFinalizer("GPUBudget", TEAM, "team-uid", present=False)
    others = snapshot(leaving, pool(), budget(id=BudgetId("other")), survey())
    assert isinstance(rental_step(leaving.id, LifecycleView.of(others)), Wait)
    unlisted = survey(asked=100 + LISTED + LAG)
    gone = LifecycleView.of(snapshot(leaving, pool(), budget(id=BudgetId("other")), unlisted))
    assert rental_step(leaving.id, gone) == Forget(leaving.id)


def test_a_new_budget_of_the_name_does_not_pay_for_what_the_former_one_has_paid() -> None:
    over = replace(RUNNING, phase=RentalPhase.ENDED, ended=at(100), cost=HOURS, deleting=True)
    again = budget(created=at(200))
    assert isinstance(rental_step(over.id, LifecycleView.of(snapshot(over, again, survey()))), Wait)
    assert not any(isinstance(entry, Fold) for entry in entries(snapshot(over, again, survey())))
    unsettled = replace(over, deleting=False)
    assert any(isinstance(entry, Fold) for entry in entries(snapshot(unsettled, again, survey())))


def test_a_pool_with_instances_that_nobody_has_or_a_target_is_kept() -> None:
    going = pool(deleting=True)
    assert isinstance(pool_guard(POOL, LifecycleView.of(snapshot(going, survey(MACHINE)))), Wait)
    assert isinstance(pool_guard(POOL, LifecycleView.of(snapshot(going, survey(target=1)))), Wait)


def test_nothing_can_be_guarded_that_is_already_being_deleted() -> None:
    view = LifecycleView.of(snapshot(RUNNING, budget(deleting=True, guarded=False), now=at(0)))
    assert budget_guard(TEAM, view) is None
