"""What is written into a status is read back as the same value: records are all the memory there is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from charterer.api import decode
from charterer.api.models.base import dump
from charterer.api.models.gpubudget_status import PERIODS_KEPT, GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.trainingjob_status import RUNS_KEPT, TrainingJobRecord
from charterer.domain.budget import Balance, PastPeriod
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Instant
from tests.unit.api import values


def _through_json(status: dict[str, Any]) -> dict[str, Any]:
    through: dict[str, Any] = json.loads(json.dumps(status, allow_nan=False))
    return through


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(values.records_of_a_job)
def test_the_record_of_a_job_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    job = replace(decode.training_job(values.raw_job()).job, **record)
    assert decode.training_job(values.raw_job(_through_json(dump(TrainingJobRecord.from_domain(job))))).job == job


@given(values.records_of_a_rental)
def test_the_record_of_a_rental_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    rental = replace(decode.rental(values.raw_rental()), **record)
    assert decode.rental(values.raw_rental(_through_json(dump(GPURentalRecord.from_domain(rental))))) == rental


@given(st.none() | values.balances)
def test_the_balance_of_a_budget_is_read_back_as_it_was_written(balance: Balance | None) -> None:
    budget = replace(decode.budget(values.raw_budget()), balance=balance)
    assert decode.budget(values.raw_budget(_through_json(dump(GPUBudgetRecord.from_domain(budget.balance))))) == budget


@given(values.records_of_a_pool)
def test_the_record_of_a_pool_is_read_back_as_it_was_written(record: dict[str, Any]) -> None:
    pool = replace(decode.pool(values.raw_pool()), **record)
    assert decode.pool(values.raw_pool(_through_json(dump(GPUPoolRecord.from_domain(pool))))) == pool


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


def test_only_the_latest_periods_are_kept_so_that_the_status_stays_bounded() -> None:
    history = tuple(PastPeriod(Instant(month), Money(month), Money(1)) for month in range(PERIODS_KEPT + 1))
    balance = Balance(Instant(0), ZERO, ZERO, frozenset(), history)
    budget = replace(decode.budget(values.raw_budget()), balance=balance)
    back = decode.budget(values.raw_budget(dump(GPUBudgetRecord.from_domain(budget.balance)))).balance
    assert back is not None
    assert back.history == history[1:]


def test_a_message_is_cut_to_what_the_api_server_takes() -> None:
    job = replace(decode.training_job(values.raw_job()).job, invalid="x" * 10_000)
    written = dump(TrainingJobRecord.from_domain(job))["invalid"]["message"]
    assert len(written.encode()) == 4096
    assert written.endswith("x…")


def test_a_record_owns_nothing_that_was_not_written() -> None:
    assert dump(TrainingJobRecord.from_domain(decode.training_job(values.raw_job()).job)) == {}
    assert dump(GPUBudgetRecord.from_domain(None)) == {}
    assert dump(GPUPoolRecord.from_domain(decode.pool(values.raw_pool()))) == {}
