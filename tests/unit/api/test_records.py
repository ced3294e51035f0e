"""What is written into a status is read back as the same value: records are all the memory there is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.api import decode
from charterer.api.models.base import cut, dump, stored_bytes
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import USES_BYTES, GPURentalRecord
from charterer.api.models.trainingjob_status import RUNS_BYTES, RUNS_KEPT, TrainingJobRecord
from charterer.controller.snapshot.pools import price_source
from charterer.domain.budget import (
    DAYS_KEPT,
    FOLDED_KEPT,
    LENDERS_KEPT,
    LENDING_KEPT,
    PERIODS_KEPT,
    Balance,
    Cause,
    ClassHistory,
    Costs,
    DayCosts,
    JobTime,
    PastPeriod,
)
from charterer.domain.cost_row import USES_KEPT, Payer, Use
from charterer.domain.ids import NO_PROFILE, BudgetId, ClassId, PoolId, RentalId
from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import Placement, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.pool import Offering, Quote
from charterer.domain.reports import Progress
from charterer.domain.time import Instant
from charterer.ledger.balance import DAY_NAMES_KEPT, KNOWN_NAMES_KEPT, NAMES_KEPT
from tests import factory, lanes
from tests.unit.api import values


def _through_json(status: dict[str, Any]) -> dict[str, Any]:
    through: dict[str, Any] = json.loads(json.dumps(status, allow_nan=False))
    return through


@settings(max_examples=lanes.examples(100))
@given(values.records_of_a_job)
def test_the_record_of_a_job_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    job = replace(decode.training_job(values.raw_job()).job, **record)
    assert decode.training_job(values.raw_job(_through_json(dump(TrainingJobRecord.from_domain(job))))).job == job


def test_the_sessions_of_an_interactive_job_are_read_back_as_they_were_written() -> None:
    spec = {"asks": 7, "hourly": "20", "idleSeconds": 45.5}
    usage = Usage(6, Instant(1_769_860_800_000_000), 12.25, 0.5, 31.0)
    job = replace(
        decode.training_job(values.raw_job(interactive=spec)).job,
        progress=Progress(3, None, None, None, Instant(1_769_860_900_000_000), busy=False, usage=usage),
        interactive=Interactive(7, Price(20_000_000), 45.5, 5, 6, Money(1_000_001), Money(2)),
    )
    status = _through_json(dump(TrainingJobRecord.from_domain(job)))
    assert decode.training_job(values.raw_job(status, interactive=spec)).job == job
    assert status["interactive"]["idleSince"] == "2026-01-31T12:00:00.000000Z"


@settings(max_examples=lanes.examples(100))
@given(values.records_of_a_rental)
def test_the_record_of_a_rental_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    rental = replace(decode.rental(values.raw_rental()), **record)
    assert decode.rental(values.raw_rental(_through_json(dump(GPURentalRecord.from_domain(rental))))) == rental


@settings(max_examples=lanes.examples(100))
@given(st.none() | values.balances)
def test_the_balance_of_a_budget_is_read_back_as_it_was_written(balance: Balance | None) -> None:
    budget = replace(decode.budget(values.raw_budget()), balance=balance)
    assert decode.budget(values.raw_budget(_through_json(dump(GPUBudgetRecord.from_domain(budget.balance))))) == budget


@given(values.records_of_a_pool)
def test_the_record_of_a_pool_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    pool = replace(decode.pool(values.raw_pool()), **record)
    assert decode.pool(values.raw_pool(_through_json(dump(GPUPoolRecord.from_domain(pool))))) == pool


def test_the_offer_of_as_many_types_zones_and_letters_as_clouds_allow_comes_back_from_its_record() -> None:
    offering = Offering("H100", 8, ",".join(["t" * 63] * 40), ",".join(["us-west-2-lax-1a"] * 16), "g" * 512)
    discounted = replace(decode.pool(values.raw_pool()), price_adjustment=-9999)
    source = price_source(discounted, f"the price list of {'e' * 512}")
    quote = Quote(Price(1), Price(1), 60, source, Instant(0))
    pool = replace(discounted, offering=offering, quote=quote)
    again = decode.pool(values.raw_pool(_through_json(dump(GPUPoolRecord.from_domain(pool)))))
    assert (again.offering, again.quote) == (offering, quote)


def test_a_refusal_counts_only_for_the_generation_that_was_refused() -> None:
    job = replace(decode.training_job(values.raw_job()).job, invalid="unknown field containres")
    edited = values.raw_job(dump(TrainingJobRecord.from_domain(job)))
    edited["metadata"]["generation"] += 1
    assert decode.training_job(edited).job.invalid == ""


def test_only_the_latest_runs_are_kept_so_that_the_status_stays_bounded() -> None:
    runs = tuple(
        RunRecord(number, RunOutcome.STOPPED, values.option(), (), Instant(0), Instant(1), "", Money(number + 1))
        for number in range(RUNS_KEPT + 5)
    )
    job = replace(decode.training_job(values.raw_job()).job, records=runs, last_run=RUNS_KEPT + 4)
    back = decode.training_job(values.raw_job(dump(TrainingJobRecord.from_domain(job)))).job
    assert (back.records, back.last_run) == (runs[5:], RUNS_KEPT + 4)
    assert back.earlier_cost == Money(1 + 2 + 3 + 4 + 5)
    again = decode.training_job(values.raw_job(dump(TrainingJobRecord.from_domain(back)))).job
    assert again.earlier_cost == back.earlier_cost


@cache
def _places(pods: int) -> tuple[Placement, ...]:
    return tuple(Placement(RentalId(f"{'p' * 60}-{pod}"), 8) for pod in range(pods))


def _run(number: int, pods: int, message: str = "") -> RunRecord:
    of_run = values.option(), _places(pods), Instant(0), Instant(1)
    return RunRecord(number, RunOutcome.FAILED, *of_run, message, Money(1), because=message)


def _recorded(*runs: RunRecord) -> TrainingJobRecord:
    return TrainingJobRecord.from_domain(replace(decode.training_job(values.raw_job()).job, records=runs))


@pytest.mark.parametrize(
    ("pods", "message"), [(1, "\x00" * 5_000), (125, ""), (250, "x" * 5_000), (4_000, "<" * 5_000), (1, "fine")]
)
def test_the_runs_of_a_status_are_bounded_in_bytes_as_they_are_stored(pods: int, message: str) -> None:
    record = _recorded(*(_run(number, pods, message) for number in range(200)))
    assert stored_bytes([dump(run) for run in record.runs]) <= RUNS_BYTES + len(record.runs) + 1
    assert [run.number for run in record.runs] == list(range(200 - len(record.runs), 200))
    assert len(record.runs) >= 10
    assert record.earlier_cost == Money(200 - len(record.runs))


def test_of_runs_of_many_pods_the_latest_keep_their_places() -> None:
    record = _recorded(*(_run(number, 250) for number in range(20)))
    assert [len(run.placements) for run in record.runs][-3:] == [250] * 3
    assert not record.runs[0].placements
    assert len(record.runs) == 20


@pytest.mark.parametrize("text", ["", "plain", "x" * 3000, "\x00" * 900, "é" * 2000, "<é" * 700, '"' * 2000])
def test_a_message_takes_no_more_bytes_than_it_may(text: str) -> None:
    kept = cut(text, 1024)
    assert stored_bytes(kept) <= 1024 + 2
    assert kept == text or (kept.endswith("…") and text.startswith(kept[:-1]) and stored_bytes(kept) > 1010)


def test_the_largest_ledger_there_can_be_is_written_and_counts_no_job_twice() -> None:
    sums = ClassHistory(1 / 3, 1 / 3, 1 / 3, 1 / 3, Instant(0), Instant(1))
    classes = {ClassId("n" * 63, f"{number:0250}"): sums for number in range(1000)}
    draw = Random(1)
    day = {str(UUID(int=draw.getrandbits(128))): Instant(number * 4_000_000) for number in range(20_000)}
    folded = frozenset(str(UUID(int=number)) for number in range(FOLDED_KEPT))
    lent = {BudgetId(f"{number:063}"): Money(10**17) for number in range(LENDERS_KEPT)}
    month = PastPeriod(Instant(0), Money(10**17), Money(10**17))
    history = (*[month] * (PERIODS_KEPT - LENDING_KEPT), *[replace(month, borrowed=lent)] * LENDING_KEPT)
    balance = Balance(Instant(0), Money(10**17), Money(10**17), folded, history, class_history=classes, counted=day)
    pools = {(PoolId(f"{number:063}"), cause): Money(10**17) for number in range(NAMES_KEPT) for cause in Cause}
    by_day = dict.fromkeys([f"{number:063}" for number in range(DAY_NAMES_KEPT + 1)], Money(10**17))
    known = dict.fromkeys(JobTime, Money(10**17))
    day_costs = DayCosts(Instant(0), dict.fromkeys(Cause, Money(10**17)), by_day, known)
    days = tuple(replace(day_costs, start=Instant(number)) for number in range(DAYS_KEPT))
    names = [f"{number:063}" for number in range(NAMES_KEPT)]
    of_all = {(name, kind): Money(10**17) for name in names[: KNOWN_NAMES_KEPT + 1] for kind in JobTime}
    costs = Costs(pools, dict.fromkeys(names, Money(10**17)), Instant(1), days=days, went_to=of_all)
    balance = replace(balance, costs=costs)
    written = dump(GPUBudgetRecord.from_domain(balance))
    assert stored_bytes(written) < 1_350_000
    back = decode.budget(values.raw_budget(written)).balance
    assert back is not None
    assert back.folded == folded
    assert all(back.counts(uid, finished) for uid, finished in day.items())
    assert not back.counts("another", Instant(20_000 * 4_000_000))


def test_the_uses_of_a_rental_are_bounded_in_bytes_and_the_oldest_that_ended_are_left_out() -> None:
    labels = {f"example.com/{number:060}": "v" * 63 for number in range(16)}
    payer = Payer("n" * 63, "j" * 253, "u" * 36, 1, "c" * 317, "w" * 253, labels)
    holding = Use(payer, 1, Instant(0))
    uses = (holding, *[Use(replace(payer, run=n), 1, Instant(n), Instant(n + 1)) for n in range(1, USES_KEPT)])
    record = GPURentalRecord.from_domain(replace(factory.rental(), uses=uses))
    assert stored_bytes(dump(record)) < USES_BYTES + 1_000
    assert record.uses[0].until is None
    assert record.uses_since == record.uses[1].since
    assert record.uses[-1].run == USES_KEPT - 1
    assert GPURentalRecord.from_domain(replace(factory.rental(), uses=uses[:20])).uses_since is None


def test_the_class_of_jobs_without_a_profile_has_a_name_in_the_status() -> None:
    sums = ClassHistory(1 / 3, 1 / 3, 1 / 3, 1 / 3, Instant(0), Instant(1))
    classes = {NO_PROFILE: sums, ClassId("team", "vit"): sums}
    balance = Balance(Instant(0), Money(0), Money(0), frozenset(), (), class_history=classes)
    written = dump(GPUBudgetRecord.from_domain(balance))
    assert [each["name"] for each in written["classes"]] == ["(none)", "team/vit"]
    back = decode.budget(values.raw_budget(written)).balance
    assert back is not None
    assert back.class_history.keys() == classes.keys()


def test_a_message_is_cut_to_what_the_api_server_takes() -> None:
    job = replace(decode.training_job(values.raw_job()).job, invalid="x" * 10_000)
    written = dump(TrainingJobRecord.from_domain(job))["invalid"]["message"]
    assert len(written.encode()) == 4096
    assert written.endswith("x…")


def test_a_record_owns_nothing_that_was_not_written() -> None:
    assert dump(TrainingJobRecord.from_domain(decode.training_job(values.raw_job()).job)) == {}
    assert dump(GPUBudgetRecord.from_domain(None)) == {}
    assert dump(GPUPoolRecord.from_domain(decode.pool(values.raw_pool()))) == {}
