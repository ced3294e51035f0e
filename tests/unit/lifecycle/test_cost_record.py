"""When what rentals cost goes into the record of costs, and what waits for it."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.budget import Balance, Cause
from charterer.domain.cost_row import CostRecording, Payer, RecordedCost, Use
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.money import Money, Price, total
from charterer.domain.pool import Pool, PriceSegment, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Forget, RecordCosts, SetFinalizer, Wait
from charterer.domain.time import Instant, after, day_bounds
from charterer.lifecycle.next_steps import budget_guard, cost_record_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import OFFERING, T0, TEAM, at, balance, budget, instance, pool, rental, snapshot, survey

DOLLAR_A_SECOND = Price.parse("3600")
NODE = rental(machine=instance(segments=(PriceSegment(T0, DOLLAR_A_SECOND),), billing_minimum_seconds=0), ready=at(60))
PAYER = Payer("research", "sft", "uid", 1, "research/sft", "ann", {})
USED = replace(NODE, uses=(Use(PAYER, 4, at(100), at(110)),))
ENDED = replace(USED, phase=RentalPhase.ENDED, ended=at(110), cost=Money.parse("110"), resource_version="7")
FOLDED = balance(lifetime=Money.parse("110"), settled=Money.parse("110"), folded=frozenset({NODE.uid}))
FOLDED = replace(FOLDED, costs=replace(FOLDED.costs, lifetime=FOLDED.lifetime))
MIDNIGHT = day_bounds("UTC", T0)[1]


def seen(
    *objects: Rental | Survey | Pool,
    now: Instant,
    books: Balance = FOLDED,
    recording: CostRecording | None = None,
) -> Snapshot:
    made = snapshot(budget(balance=books), *objects, now=now)
    return replace(made, cost_recording=CostRecording("costs") if recording is None else recording)


def step(*objects: Rental | Survey, now: Instant, books: Balance = FOLDED) -> RecordCosts | Wait | None:
    return cost_record_step(TEAM, LifecycleView.of(seen(*objects, now=now, books=books)))


def test_an_ended_rental_is_recorded_by_purpose_once_it_is_folded() -> None:
    assert step(ENDED, now=at(200), books=balance()) is None
    made = step(ENDED, now=at(200))
    assert isinstance(made, RecordCosts)
    (part,) = made.parts
    assert (part.rental, part.version, part.after) == (NODE.id, "7", RecordedCost(at(110), Money.parse("110"), 1))
    found = {(row.cause, None if row.payer is None else row.payer.job): row.cost.decimal() for row in part.rows}
    assert found == {(Cause.STARTING, None): "60.00", (Cause.IDLE, None): "40.00", (Cause.JOB, "sft"): "10.00"}
    assert {row.version for row in part.rows} == {7}


def test_it_is_forgotten_only_when_all_of_it_is_on_record() -> None:
    nothing_left = survey(asked=10_000)
    view = LifecycleView.of(seen(ENDED, nothing_left, now=at(10_000)))
    assert isinstance(rental_step(NODE.id, view), Wait)
    refused = CostRecording("costs", refused="the volume is full")
    waits = rental_step(NODE.id, LifecycleView.of(seen(ENDED, nothing_left, now=at(10_000), recording=refused)))
    assert isinstance(waits, Wait)
    assert "the volume is full" in waits.reason
    recorded = replace(ENDED, recorded=RecordedCost(at(110), Money.parse("110"), 1))
    assert rental_step(NODE.id, LifecycleView.of(seen(recorded, nothing_left, now=at(10_000)))) == Forget(NODE.id)
    none = LifecycleView.of(seen(ENDED, nothing_left, now=at(10_000), recording=CostRecording()))
    assert rental_step(NODE.id, none) == Forget(NODE.id)
    assert cost_record_step(TEAM, none) is None


def test_the_end_of_its_last_run_is_awaited_for_ten_minutes() -> None:
    open_use = replace(ENDED, uses=(Use(PAYER, 4, at(100)),))
    assert step(open_use, now=at(709)) is None
    assert isinstance(step(open_use, now=at(710)), RecordCosts)


def test_a_minute_passes_between_two_files() -> None:
    written = CostRecording("costs", written=at(200))
    waits = cost_record_step(TEAM, LifecycleView.of(seen(ENDED, now=at(259), recording=written)))
    assert isinstance(waits, Wait)
    assert waits.until == at(260)
    made = cost_record_step(TEAM, LifecycleView.of(seen(ENDED, now=at(260), recording=written)))
    assert isinstance(made, RecordCosts)


def test_a_rental_that_goes_on_gives_up_its_day_when_the_cloud_has_said_what_it_cost() -> None:
    later = after(MIDNIGHT, 5)
    assert step(USED, survey(instance()), now=Instant(MIDNIGHT - 1)) is None
    assert step(USED, survey(instance(), asked=0), now=later) is None
    assert isinstance(step(USED, now=after(MIDNIGHT, 600)), RecordCosts), (
        "a cloud that is silent is not awaited for ever"
    )
    segments = (PriceSegment(T0, DOLLAR_A_SECOND),)
    machine = instance(segments=segments, billing_minimum_seconds=0)
    asked = (later - T0) // 1_000_000
    made = step(USED, survey(machine, asked=asked), now=later)
    assert isinstance(made, RecordCosts)
    (part,) = made.parts
    seconds = (MIDNIGHT - T0) // 1_000_000
    assert part.after == RecordedCost(MIDNIGHT, Money(seconds * 1_000_000), 1)
    assert total(row.cost for row in part.rows) == part.after.cost
    noted = replace(USED, recorded=part.after)
    assert step(noted, survey(machine, asked=asked), now=later) is None


def test_a_budget_that_is_deleted_stays_until_its_rentals_are_on_record() -> None:
    going = replace(ENDED, deleting=True)

    def guard(rented: Rental) -> SetFinalizer | Wait | None:
        made = seen(rented, now=at(200))
        books = replace(made.budgets[TEAM], deleting=True, guarded=True)
        return budget_guard(TEAM, LifecycleView.of(replace(made, budgets={TEAM: books})))

    assert isinstance(guard(going), Wait)
    assert isinstance(guard(replace(going, recorded=RecordedCost(at(110), Money.parse("110"), 1))), SetFinalizer)


def test_rentals_of_other_budgets_are_not_in_the_file() -> None:
    made = step(ENDED, replace(ENDED, id=RentalId("b-1"), uid="b", budget=BudgetId("other")), now=at(200))
    assert isinstance(made, RecordCosts)
    assert [part.rental for part in made.parts] == [NODE.id]


def test_slices_count_as_parts_of_their_gpus() -> None:
    assert OFFERING.gpus_per_node == 4
    cut = pool(offering=replace(OFFERING, gpus_per_node=28, slices_per_gpu=7))
    sliced = replace(ENDED, uses=(Use(PAYER, 14, at(70), at(110)),))
    made = cost_record_step(TEAM, LifecycleView.of(seen(sliced, cut, now=at(200))))
    assert isinstance(made, RecordCosts)
    (used,) = [row for row in made.parts[0].rows if row.payer is not None]
    assert (used.gpu_seconds, used.cost, used.machine.gpus) == (2 * 40, Money.parse("20"), 4)
