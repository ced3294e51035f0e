"""What the money went to, by hand for one node; that parts always add up is in tests/property/ledger."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import RentalId
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.job_records import costed, job_cost
from charterer.domain.money import Money, Price, apportion
from charterer.domain.pool import Pool, PriceSegment
from charterer.domain.rental import Gang, Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant
from charterer.ledger.attribution import (
    ENDING,
    IDLE,
    INCOMPLETE_GANG,
    OPENING,
    STARTING,
    attribute,
)
from charterer.lifecycle.view import held_by
from tests.factory import (
    MARCH,
    T0,
    allocation,
    at,
    balance,
    budget,
    instance,
    job,
    node,
    pool,
    rental,
    snapshot,
    with_uses,
)

FOUR_A_SECOND = Price.parse("14400")
"""One dollar a second for each of a node's four GPUs."""
NODE = rental(machine=instance(segments=(PriceSegment(T0, FOUR_A_SECOND),), billing_minimum_seconds=0), ready=at(100))


def spent_on(*objects: Rental | Node | Pool | Job, now: Instant) -> dict[str, Money]:
    return dict(attribute(budget(), with_uses(snapshot(*objects, now=now))))


def record(number: int, since: float, until: float, gpus: int = 4) -> RunRecord:
    intent = allocation("a100-1", run=number, gpus=gpus, since=at(since))
    return RunRecord(number, RunOutcome.STOPPED, intent.option, intent.placements, at(since), at(until), "")


def test_a_node_starts_then_serves_jobs_then_is_idle() -> None:
    trained = job(records=(record(1, 100, 200, gpus=3),))
    found = spent_on(NODE, trained, now=at(300))
    assert found == {
        STARTING: Money.parse("400"),
        "research/sft": Money.parse("300"),
        IDLE: Money.parse("500"),
    }


def test_a_released_node_is_ending_from_its_last_job_on() -> None:
    released = replace(NODE, phase=RentalPhase.DRAINING, released_because="idle")
    trained = job(records=(record(1, 150, 200),))
    found = spent_on(released, trained, now=at(300))
    assert found[IDLE] == Money.parse("200")
    assert found[ENDING] == Money.parse("400")


def test_a_node_that_died_was_idle_and_one_that_was_released_was_ending() -> None:
    over = replace(NODE, phase=RentalPhase.ENDED, ended=at(200), cost=Money.parse("800"))
    assert spent_on(over, now=at(300))[IDLE] == Money.parse("400")
    released = replace(over, released_because="idle")
    assert spent_on(released, now=at(300))[ENDING] == Money.parse("400")


def test_nodes_of_an_incomplete_gang_were_paid_for_in_vain_until_a_job_holds_them() -> None:
    """Also after they are released for that reason; a machine of another job's complete gang is not one of them."""
    gang = Gang("sft-1", job().id, "research/sft", 2)
    came = replace(NODE, gang=gang)
    assert spent_on(came, job(), now=at(300)) == {INCOMPLETE_GANG: Money.parse("1200")}
    released = replace(came, phase=RentalPhase.DRAINING, released_because="IncompleteGang")
    assert spent_on(released, now=at(300)) == {INCOMPLETE_GANG: Money.parse("1200")}
    other = job("other", records=(record(1, 150, 200),))
    found = spent_on(came, job(), other, now=at(300))
    assert found == {
        INCOMPLETE_GANG: Money.parse("600"),
        "research/other": Money.parse("200"),
        IDLE: Money.parse("400"),
    }


def test_nodes_of_a_gang_that_was_complete_once_are_starting_and_idle() -> None:
    gang = Gang("sft-1", job().id, "research/sft", 2)
    came = replace(NODE, gang=gang)
    second = replace(NODE, id=RentalId("a100-2"), uid="2", gang=gang)
    both = spent_on(came, second, job(), now=at(300))
    assert both == {STARTING: Money.parse("800"), IDLE: Money.parse("1600")}
    trained = job(records=(record(1, 100, 200),))
    later = spent_on(came, trained, now=at(300))
    assert later == {STARTING: Money.parse("400"), "research/sft": Money.parse("400"), IDLE: Money.parse("400")}


def test_a_pool_that_is_not_yet_discovered_leaves_the_gpus_to_its_node() -> None:
    trained = job(records=(record(1, 100, 200, gpus=1),))
    found = spent_on(NODE, node(gpus=4), pool(offering=None), trained, now=at(200))
    assert found["research/sft"] == Money.parse("100")
    unknown = spent_on(NODE, pool(offering=None), trained, now=at(200))
    assert unknown["research/sft"] == Money.parse("800")


def test_each_moment_counts_at_its_own_price() -> None:
    dearer = replace(NODE, segments=(*NODE.segments, PriceSegment(at(200), Price.parse("28800"))))
    trained = job(records=(record(1, 200, 300),))
    found = spent_on(dearer, trained, now=at(300))
    assert found["research/sft"] == Money.parse("800")
    assert found[STARTING] == Money.parse("400")


def test_rentals_that_are_gone_and_the_opening_spend_are_named() -> None:
    books = budget(balance=balance(settled=Money(7)), created=MARCH, opening_spend=Money(9))
    assert attribute(books, snapshot(books, now=at(1))) == [(OPENING, Money(9)), ("(earlier)", Money(7))]


def test_a_run_that_replaces_another_begins_when_that_has_ended() -> None:
    moved = job(records=(record(1, 100, 180),), allocation=allocation("a100-2", run=2, since=at(150)))
    assert [(rental, use.since, use.until) for rental, use in held_by(moved, (), users=False)] == [
        ("a100-1", at(100), at(180)),
        ("a100-2", at(180), None),
    ]


def test_a_jobs_cost_stays_when_its_rentals_are_gone() -> None:
    trained = job(records=(record(1, 0, 3600),))
    assert job_cost(trained, {}, at(7200)) == Money.parse("19.80")
    over = replace(NODE, phase=RentalPhase.ENDED, ended=at(1800))
    assert job_cost(trained, {over.id: over}, at(7200)) == Money.parse("9.90")


def test_leftover_micro_dollars_go_to_the_largest_remainders() -> None:
    assert apportion(Money(10), {"a": 1, "b": 1, "c": 1}) == {"a": Money(4), "b": Money(3), "c": Money(3)}
    assert apportion(Money(10), {"a": 0, "b": 2}) == {"b": Money(10)}


def test_what_a_run_cost_is_on_record_whatever_becomes_of_its_rentals_and_of_the_runs_before() -> None:
    trained = job(records=(record(1, 0, 3600),))
    over = replace(NODE, phase=RentalPhase.ENDED, ended=at(1800))
    kept = job(records=(costed(job(), record(1, 0, 3600), {over.id: over}),))
    assert job_cost(kept, {}, at(7200)) == job_cost(trained, {over.id: over}, at(7200)) == Money.parse("9.90")
    assert job_cost(replace(kept, earlier_cost=Money(7)), {}, at(7200)) == Money.parse("9.90") + Money(7)
