"""Which Events are written for what was done."""

from __future__ import annotations

from typing import Any, cast

import pytest

from charterer.api.manifests import EventSubject
from charterer.cluster.events import Recorder
from charterer.controller.status.events import Events
from charterer.domain.job import IN_DOUBT, Finish, FinishKind, RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Reason, ReasonCode, Release
from charterer.domain.pool import Pool, Quote
from charterer.domain.reasons.nodes import PoolClosed
from charterer.domain.steps import OpenPeriod, RecordOffer, RecordRun, RunWarning, SetFinalizer
from charterer.domain.time import Instant, after
from tests import factory as make


class Heard:
    """A recorder that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, bool]] = []

    def record(self, subject: EventSubject, reason: str, note: str, *, action: str, warning: bool = False) -> None:
        self.events.append((subject.kind, reason, note, warning))


def offered(pool: Pool, price: int, source: str) -> list[tuple[str, str, str, bool]]:
    """The Events when this quote is recorded of a pool that had another one."""
    heard = Heard()
    before = Quote(Price(2_000_000), Price(2_000_000), 60, "the list", make.T0)
    quote = Quote(Price(price), Price(price), 60, source, make.T0)
    Events(cast(Recorder, heard)).done(RecordOffer(pool.id, pool.offering, quote, before), make.snapshot(pool))
    return heard.events


def test_a_price_that_a_person_changed_is_an_event() -> None:
    override = make.pool(price_override=Price(3_000_000))
    note = "a node costs $3.00/h instead of $2.00/h from now on (spec.price.hourly)"
    assert offered(override, 3_000_000, "spec.price.hourly") == [("GPUPool", "PriceChanged", note, False)]
    assert not offered(override, 2_000_000, "spec.price.hourly")


def test_a_price_that_the_cloud_changed_is_none() -> None:
    assert not offered(make.pool(), 3_000_000, "the list")
    assert offered(make.pool(price_adjustment=-1000), 1_800_000, "the list, -10%")


def test_a_budget_created_again_in_its_month_is_told_what_the_former_one_had_spent() -> None:
    def opened(spent: Money, start: Instant) -> list[tuple[str, str, str, bool]]:
        heard = Heard()
        events = Events(cast(Recorder, heard))
        former = make.budget(deleting=True, balance=make.balance(settled=spent))
        events.done(SetFinalizer("GPUBudget", former.id, former.uid, present=False), make.snapshot(former))
        again = make.budget(uid="again", balance=None)
        events.done(OpenPeriod(again.id, start, None, None), make.snapshot(again))
        return heard.events

    gone, (kind, reason, note, warning) = opened(Money.parse("423.33"), make.MARCH)
    assert gone[1] == "SpentUntilDeletion"
    assert (kind, reason, warning) == ("GPUBudget", "SpentBefore", True)
    assert 'spec.openingSpend "423.33"' in note
    assert not opened(ZERO, make.MARCH)
    assert opened(Money.parse("423.33"), make.APRIL) == [gone]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"opening_spend": ZERO}, False),
        ({"created": make.MARCH}, False),
        ({"created": after(make.MARCH, -86_400.0)}, False),  # the operator came a month later
        ({"amount": ZERO}, False),
    ],
)
def test_a_budget_made_within_a_month_is_told_what_counts_of_its_amount(changes: dict[str, Any], told: bool) -> None:
    heard = Heard()
    fields = {"created": after(make.APRIL, -74.4 * 3600.0), "opening_spend": None, "balance": None}
    budget = make.budget(**(fields | changes))
    Events(cast(Recorder, heard)).done(OpenPeriod(budget.id, make.MARCH, None, None), make.snapshot(budget))
    note = (
        "$100.00 of its $1,000.00 count for the rest of its first month ($1.34/h); if all of it is for that time "
        '($13.44/h), set spec.openingSpend to "0", and otherwise to what was spent before in that month'
    )
    assert heard.events == ([("GPUBudget", "AmountProrated", note, False)] if told else [])


def test_a_budget_that_goes_leaves_an_event_of_what_it_had_spent_which_outlives_the_operator() -> None:
    heard = Heard()
    former = make.budget(deleting=True, balance=make.balance(settled=Money.parse("423.33")))
    action = SetFinalizer("GPUBudget", former.id, former.uid, present=False)
    Events(cast(Recorder, heard)).done(action, make.snapshot(former))
    note = (
        "$423.33 of this period were spent, which a new GPUBudget team does not know: create it with spec.openingSpend "
        '"423.33" if it should count them'
    )
    assert heard.events == [("GPUBudget", "SpentUntilDeletion", note, False)]


def test_the_end_of_a_machine_whose_pool_is_gone_is_a_warning() -> None:
    heard = Heard()
    pool = make.pool(gone=True, deleting=True)
    release = Release(make.rental().id, Reason(ReasonCode.POOL_DELETED, 0.0, ZERO, PoolClosed(pool.closed_because)))
    Events(cast(Recorder, heard)).done(release, make.snapshot(pool, make.rental(machine=make.instance())))
    assert heard.events == [("GPURental", "PoolDeleted", "GPUPool a100 is gone", True)]


def test_what_the_owner_of_a_run_should_correct_is_a_warning_with_a_word_of_its_own() -> None:
    heard = Heard()
    place = make.allocation()
    killed = RunRecord(1, RunOutcome.STOPPED, place.option, place.placements, make.T0, make.at(9), "it was killed")
    events, seen = Events(cast(Recorder, heard)), make.snapshot(job := make.job())
    events.done(RecordRun(job.id, killed, None, RunWarning.KILLED_AFTER_GRACE), seen)
    assert heard.events == [("TrainingJob", "KilledAfterGrace", "run 1 on 4 GPUs: it was killed", True)]
    early = Finish(FinishKind.COMPLETE, make.at(9), IN_DOUBT, "its last report says 7.0%")
    done = RunRecord(2, RunOutcome.COMPLETE, place.option, place.placements, make.T0, make.at(9), "")
    events.done(RecordRun(job.id, done, early), seen)
    assert heard.events[-1] == ("TrainingJob", "CompletedInDoubt", "its last report says 7.0%", True)
