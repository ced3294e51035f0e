"""Times of jobs and ends of runs are counted when they happen, once, under a bounded number of names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import Cause, Costs, JobTime
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Finish, FinishKind, Job, Placement, RunOutcome, RunRecord
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.rental import RentalPhase
from charterer.domain.time import Instant, after
from charterer.metrics.instruments import Metrics
from tests import factory
from tests.unit.metrics.support import A100, NOW, PRICE, budget, job, plan, rental, snapshot
from tests.unit.metrics.test_metrics import scrape, state, value

OPTION = Option(A100, 4, 1.0, PRICE)
PLACES = (Placement(RentalId("a100-1"), 4),)
NEW = job("sft")
PLACED = replace(NEW, allocation=Allocation(1, OPTION, PLACES, after(NOW, 90)))


def ended(number: int, outcome: RunOutcome, since: float, until: float) -> RunRecord:
    return RunRecord(number, outcome, OPTION, PLACES, after(NOW, since), after(NOW, until), "")


def show(metrics: Metrics, *jobs: Job, now: Instant = NOW) -> None:
    metrics.observe(replace(snapshot(jobs=jobs), now=now), plan(), state)


def of(metrics: Metrics, name: str, **labels: str) -> float | None:
    return value(metrics, name, budget="team", **labels)


def test_a_jobs_wait_ends_when_it_first_gets_gpus() -> None:
    metrics = Metrics()
    show(metrics, NEW)
    assert of(metrics, "charterer_job_waiting_seconds_count", namespace="research") is None
    show(metrics, PLACED)
    show(metrics, replace(PLACED, allocation=None, records=(ended(1, RunOutcome.STOPPED, 90, 100),)))
    show(metrics, replace(PLACED, allocation=Allocation(2, OPTION, PLACES, after(NOW, 500))))
    assert of(metrics, "charterer_job_waiting_seconds_count", namespace="research") == 1
    assert of(metrics, "charterer_job_waiting_seconds_sum", namespace="research") == 90


def test_a_finished_job_counts_with_all_its_runs_and_its_whole_life() -> None:
    metrics = Metrics()
    show(metrics, PLACED)
    runs = (ended(1, RunOutcome.INTERRUPTED, 90, 190), ended(2, RunOutcome.COMPLETE, 300, 700))
    over = replace(PLACED, allocation=None, records=runs[:1])
    show(metrics, over)
    finished = replace(over, records=runs, finish=Finish(FinishKind.COMPLETE, after(NOW, 700), "Completed", ""))
    for _ in range(2):
        show(metrics, finished)
    assert of(metrics, "charterer_job_running_seconds_sum", namespace="research") == 500
    assert of(metrics, "charterer_job_completion_seconds_sum", namespace="research", result="complete") == 700
    assert of(metrics, "charterer_job_completion_seconds_count", namespace="research", result="complete") == 1
    for outcome in ("interrupted", "complete"):
        assert of(metrics, "charterer_runs_ended_total", namespace="research", outcome=outcome) == 1


def test_a_quote_is_held_or_missed_by_cost_and_by_end_once_its_job_completes() -> None:
    metrics, said = Metrics(), JobQuote(NOW, Money(0), Money.parse("1000"), NOW, after(NOW, 600))
    late = replace(PLACED, quote=said, finish=Finish(FinishKind.COMPLETE, after(NOW, 700), "Completed", ""))
    without_end = replace(late, id=JobId("other"), quote=JobQuote(NOW, Money(1), Money(2)))
    failed = replace(
        late, id=JobId("bad"), finish=Finish(FinishKind.FAILED, after(NOW, 700), "BackoffLimitExceeded", "")
    )
    show(metrics, PLACED)
    for _ in range(2):
        show(metrics, late, without_end, failed)
    name, where = "charterer_quotes_total", {"namespace": "research"}
    assert of(metrics, name, **where, figure="cost", outcome="held") == 1
    assert of(metrics, name, **where, figure="cost", outcome="missed") == 1
    assert of(metrics, name, **where, figure="end", outcome="missed") == 1
    assert of(metrics, name, **where, figure="end", outcome="held") is None


def test_a_failed_run_and_a_failed_job_are_counted() -> None:
    metrics = Metrics()
    show(metrics, PLACED)
    failed = Finish(FinishKind.FAILED, after(NOW, 95), "BackoffLimitExceeded", "")
    show(metrics, replace(PLACED, allocation=None, records=(ended(1, RunOutcome.FAILED, 90, 95),), finish=failed))
    assert of(metrics, "charterer_runs_ended_total", namespace="research", outcome="failed") == 1
    assert of(metrics, "charterer_job_completion_seconds_count", namespace="research", result="failed") == 1


def test_a_new_leader_counts_nothing_that_had_happened_before() -> None:
    metrics = Metrics()
    finish = Finish(FinishKind.COMPLETE, after(NOW, 700), "Completed", "")
    show(metrics, replace(PLACED, allocation=None, records=(ended(1, RunOutcome.COMPLETE, 90, 700),), finish=finish))
    assert not [name for name, _ in scrape(metrics) if name.startswith(("charterer_runs", "charterer_job_"))]


def test_the_longest_wait_is_that_of_a_job_that_could_run() -> None:
    metrics = Metrics()
    again = replace(job("again"), records=(ended(1, RunOutcome.STOPPED, 0, 50),))
    show(metrics, job("new"), again, replace(job("off"), suspend=True), PLACED, now=after(NOW, 100))
    assert of(metrics, "charterer_budget_longest_wait_seconds") == 100
    show(metrics, again, now=after(NOW, 100))
    assert of(metrics, "charterer_budget_longest_wait_seconds") == 50
    show(metrics, PLACED, now=after(NOW, 100))
    assert of(metrics, "charterer_budget_longest_wait_seconds") == 0


def test_nodes_that_do_not_come_or_do_not_go_show_how_long() -> None:
    metrics = Metrics()
    nodes = (rental("a100-1", RentalPhase.REQUESTED), rental("a100-2", RentalPhase.DRAINING, "n2"))
    metrics.observe(snapshot(rentals=nodes), plan(), state)
    metrics.observe(replace(snapshot(rentals=nodes), now=after(NOW, 60)), plan(), state)
    assert value(metrics, "charterer_pool_longest_start_seconds", pool="a100") == 60
    assert value(metrics, "charterer_pool_longest_end_seconds", pool="a100") == 60
    metrics.observe(snapshot(), plan(), state)
    metrics.observe(replace(snapshot(rentals=nodes[1:]), now=after(NOW, 90)), plan(), state)
    assert value(metrics, "charterer_pool_longest_end_seconds", pool="a100") == 0


def test_jobs_have_no_series_of_their_own_unless_asked_for() -> None:
    jobs = tuple(job(f"j{number}", gpus=4, progress=0.5) for number in range(50))
    assert _series(Metrics(), *jobs) == _series(Metrics(), *jobs[:1])
    assert _series(Metrics(per_job=True), *jobs) == _series(Metrics(), *jobs) + 100


def test_the_number_of_namespaces_in_labels_is_bounded() -> None:
    def crowd(size: int) -> tuple[Job, ...]:
        return tuple(replace(job(f"j{n}"), id=JobId(f"u{n}"), namespace=f"ns{n}") for n in range(size))

    def placed(metrics: Metrics, size: int) -> int:
        show(metrics)
        show(metrics, *(replace(waiting, allocation=PLACED.allocation) for waiting in crowd(size)))
        return len(scrape(metrics))

    assert placed(Metrics(), 10_000) == placed(Metrics(), 101)


def test_dollars_by_cause_are_what_is_on_record() -> None:
    metrics = Metrics()
    costs = Costs(
        {(A100, Cause.JOB): Money.parse("7.25"), (PoolId("gone"), Cause.IDLE): Money.parse("1")},
        {"research": Money.parse("7.25")},
        NOW,
    )
    books = replace(budget(), balance=factory.balance(costs=costs))
    metrics.observe(snapshot(budgets=(books,)), plan(), state)
    assert of(metrics, "charterer_spent_dollars_total", pool="a100", cause="job") == 7.25
    assert of(metrics, "charterer_spent_dollars_total", pool="gone", cause="idle") == 1
    assert of(metrics, "charterer_namespace_spent_dollars_total", namespace="research") == 7.25


def test_each_lost_dollar_is_in_one_series_and_what_is_not_known_in_another() -> None:
    metrics = Metrics()
    costs = Costs(
        {
            (A100, Cause.JOB): Money.parse("10"),
            (A100, Cause.IDLE): Money.parse("1"),
            (PoolId("b"), Cause.IDLE): Money(1),
        },
        {"research": Money.parse("8"), "nlp": Money.parse("2")},
        NOW,
        went_to={
            ("research", JobTime.TRAINED): Money.parse("5"),
            ("research", JobTime.REDONE): Money.parse("2.5"),
            ("nlp", JobTime.RUN_START): Money.parse("2"),
        },
    )
    books = replace(budget(), balance=factory.balance(costs=costs))
    metrics.observe(snapshot(budgets=(books,)), plan(), state)
    lost = "charterer_lost_dollars_total"
    assert of(metrics, lost, namespace="", cause="idle") == pytest.approx(1.000001)
    assert of(metrics, lost, namespace="research", cause="redone") == 2.5
    assert of(metrics, lost, namespace="nlp", cause="run_start") == 2
    assert not [labels for name, labels in scrape(metrics) if name == lost and ("cause", "trained") in labels]
    assert of(metrics, "charterer_unknown_dollars_total") == 0.5


def test_no_series_says_when_another_was_created() -> None:
    metrics = Metrics()
    metrics.plan_took(1.0)
    show(metrics, NEW)
    show(metrics, PLACED)
    assert not [name for name, _ in scrape(metrics) if name.endswith("_created")]
    assert b"_created" not in metrics.exposition()


def _series(metrics: Metrics, *jobs: Job) -> int:
    show(metrics, *jobs)
    return len(scrape(metrics))
