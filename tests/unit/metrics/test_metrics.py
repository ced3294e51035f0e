"""What Prometheus scrapes: the state of the last snapshot, and what the process has done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from charterer import __version__
from charterer.domain.budget import Loan
from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.plan import Limit, PoolVerdict, SpendVerdict
from charterer.domain.pod import PodPhase
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Bottleneck, BottleneckKind, Progress
from charterer.domain.steps import Forget
from charterer.domain.time import after
from charterer.metrics import catalogue
from charterer.metrics.instruments import Metrics
from tests.factory import cooled
from tests.unit.metrics.support import NOW, PRICE, TEAM, job, plan, pod, pool, rental, snapshot

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(metrics: Metrics) -> Samples:
    text = metrics.exposition().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return scrape(metrics).get((name, frozenset(labels.items())))


def state(job: Job) -> str:
    return "Running"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_budget_shows_its_money_in_dollars(metrics: Metrics) -> None:
    metrics.observe(
        snapshot(rentals=(rental("a100-1", RentalPhase.READY, "n1"), rental("a100-2", RentalPhase.REQUESTED))),
        plan(),
        state,
    )
    shown = {
        name: value(metrics, f"charterer_budget_{name}", budget="team")
        for name in (
            "amount_dollars",
            "spent_dollars",
            "committed_dollars",
            "forecast_dollars",
            "forecast_low_dollars",
            "forecast_high_dollars",
            "rented_dollars_per_hour",
            "planned_dollars_per_hour",
            "allowed_dollars_per_hour",
            "exchange_rate_dollars_per_hour",
            "feasible",
            "hard_limit_dollars",
        )
    }
    assert shown == {
        "amount_dollars": 60000.0,
        "spent_dollars": 1234.56,
        "committed_dollars": 24.0,
        "forecast_dollars": 58000.0,
        "forecast_low_dollars": 57000.0,
        "forecast_high_dollars": 59000.0,
        "rented_dollars_per_hour": 12.0,
        "planned_dollars_per_hour": 40.0,
        "allowed_dollars_per_hour": 83.5,
        "exchange_rate_dollars_per_hour": 18.0,
        "feasible": 1.0,
        "hard_limit_dollars": None,
    }


def test_a_budget_above_others_shows_what_all_of_them_have_and_no_other_does(metrics: Metrics) -> None:
    names = ("amount", "spent", "committed", "forecast")

    def shown() -> list[float | None]:
        return [value(metrics, f"charterer_budget_with_descendants_{name}_dollars", budget="team") for name in names]

    metrics.observe(snapshot(), plan(), state)
    assert shown() == [None] * 4
    made = plan()
    family = SpendVerdict(Money.parse("50000"), Money.parse("5000"), Money.parse("6000"), PRICE, None)
    above = replace(made.budgets[TEAM], with_descendants=family)
    metrics.observe(snapshot(), replace(made, budgets={TEAM: above}), state)
    assert shown() == [50000.0, 5000.0, 6000.0, None]


def test_a_budgets_aim_has_its_loans(metrics: Metrics) -> None:
    made, lent = plan(), (Loan(BudgetId("other"), TEAM, Money.parse("500")),)
    metrics.observe(snapshot(), replace(made, budgets={TEAM: replace(made.budgets[TEAM], loans=lent)}), state)
    assert value(metrics, "charterer_budget_aim_dollars", budget="team") == 60500.0


def test_rented_gpus_are_starting_used_or_idle(metrics: Metrics) -> None:
    rentals = (
        rental("a100-1", RentalPhase.READY, "n1"),
        rental("a100-2", RentalPhase.DRAINING, "n2"),
        rental("a100-3", RentalPhase.STARTING),
        rental("a100-4", RentalPhase.REQUESTED),
        rental("a100-5", RentalPhase.ENDED, "n5"),
    )
    running = job("sft", gpus=3, pods=(pod(0, "n1", 3), pod(1, "n2", 4, PodPhase.SUCCEEDED)))
    metrics.observe(snapshot(rentals=rentals, jobs=(running,)), plan(), state)
    gpus = {s: value(metrics, "charterer_pool_gpus", pool="a100", state=s) for s in ("starting", "used", "idle")}
    assert gpus == {"starting": 4, "used": 3, "idle": 5}
    phases = ("requested", "starting", "ready", "draining")
    nodes = {s: value(metrics, "charterer_pool_nodes", pool="a100", state=s) for s in phases}
    assert nodes == dict.fromkeys(phases, 1.0)


def test_a_pool_shows_its_price_limit_and_cooldown(metrics: Metrics) -> None:
    metrics.observe(snapshot(pools=(pool(cooled(after(NOW, 60))),)), plan(), state)
    assert value(metrics, "charterer_pool_cooling", pool="a100") == 1
    assert value(metrics, "charterer_pool_max_nodes", pool="a100") == 6
    assert value(metrics, "charterer_pool_node_price_dollars_per_hour", pool="a100") == 12
    metrics.observe(snapshot(pools=(pool(cooled(NOW)),)), plan(), state)
    assert value(metrics, "charterer_pool_cooling", pool="a100") == 0


def test_a_pool_shows_what_its_room_is_worth(metrics: Metrics) -> None:
    metrics.observe(snapshot(), plan(), state)
    assert value(metrics, "charterer_pool_scarcity_dollars_per_gpu_hour", pool="a100") == 0
    full = PoolVerdict(Limit.MAX_NODES, 6, Price.parse("0.50"), Price.parse("4"), False, Price.parse("100"))
    metrics.observe(snapshot(), replace(plan(), pools={PoolId("a100"): full}), state)
    assert value(metrics, "charterer_pool_scarcity_dollars_per_gpu_hour", pool="a100") == 0.5


def test_jobs_are_counted_by_the_word_in_their_state_column() -> None:
    metrics = Metrics(per_job=True)
    jobs = (job("a", gpus=4, progress=0.25), job("b"), job("c"))
    states = {"a": "Running", "b": "Queued", "c": "Queued"}
    metrics.observe(snapshot(jobs=jobs), plan(), lambda job: states[job.name])
    for word, count in (("Running", 1), ("Queued", 2)):
        assert value(metrics, "charterer_jobs", namespace="research", state=word) == count
    assert value(metrics, "charterer_job_width_gpus", namespace="research", training_job="a") == 4
    assert value(metrics, "charterer_job_progress_ratio", namespace="research", training_job="a") == 0.25
    assert value(metrics, "charterer_job_width_gpus", namespace="research", training_job="b") is None


def test_a_rented_node_carries_what_other_exporters_know_it_by(metrics: Metrics) -> None:
    rentals = (rental("a100-1", RentalPhase.READY, "n1"), rental("a100-2", RentalPhase.STARTING))
    metrics.observe(snapshot(rentals=rentals), plan(), state)
    info = [dict(labels) for name, labels in scrape(metrics) if name == "charterer_rental_info"]
    assert info == [
        {
            "node": "n1",
            "provider_id": "fake:///i-a100-1",
            "instance_type": "fake.a100-4x",
            "pool": "a100",
            "budget": "team",
        }
    ]


def test_what_is_deleted_disappears(metrics: Metrics) -> None:
    full = snapshot(jobs=(job("a", gpus=4),), rentals=(rental("a100-1", RentalPhase.READY, "n1"),))
    metrics.observe(full, plan(), state)
    metrics.observe(snapshot(pools=(), budgets=()), plan(), state)
    left = {name for name, _ in scrape(metrics)}
    assert not {
        name
        for name in left
        if name.startswith(("charterer_pool", "charterer_job", "charterer_rental", "charterer_bud"))
    }


def test_a_pool_that_is_gone_leaves_its_rentals_visible_but_uncounted(metrics: Metrics) -> None:
    metrics.observe(snapshot(pools=(), rentals=(rental("a100-1", RentalPhase.READY, "n1"),)), plan(), state)
    names = {name for name, _ in scrape(metrics)}
    assert "charterer_rental_info" in names
    assert "charterer_pool_gpus" not in names


def test_work_is_counted_by_what_it_was_and_how_it_ended(metrics: Metrics) -> None:
    metrics.step_done(Forget(RentalId("a100-1")), "done")
    metrics.cloud_called("fake", "survey", "ok", 0.02)
    metrics.api_written("patch", "trainingjobs/status")
    metrics.plan_took(0.004)
    metrics.turned("failed")
    assert [value(metrics, "charterer_turns_total", outcome=outcome) for outcome in ("done", "failed")] == [0, 1]
    assert value(metrics, "charterer_steps_total", step="Forget", outcome="done") == 1
    assert value(metrics, "charterer_cloud_calls_total", provider="fake", call="survey", outcome="ok") == 1
    assert value(metrics, "charterer_cloud_call_duration_seconds_count", provider="fake", call="survey") == 1
    assert value(metrics, "charterer_api_writes_total", verb="patch", resource="trainingjobs/status") == 1
    assert value(metrics, "charterer_plan_duration_seconds_bucket", le="0.005") == 1


def test_the_process_says_whether_it_leads_hears_events_and_what_it_is(metrics: Metrics) -> None:
    metrics.leading(True)
    metrics.last_event_age(lambda: 2.5)
    assert value(metrics, "charterer_leader") == 1
    assert value(metrics, "charterer_last_event_age_seconds") == 2.5
    assert value(metrics, "charterer_build_info", version=__version__) == 1


def test_two_operators_in_a_process_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.plan_took(1.0)
    assert value(second, "charterer_plan_duration_seconds_count") == 0


def test_everything_exposed_is_in_the_catalogue_with_its_kind_and_labels() -> None:
    metrics = Metrics(per_job=True)
    jobs = (job("a", gpus=4, progress=0.25),)
    metrics.observe(snapshot(jobs=jobs, rentals=(rental("a100-1", RentalPhase.READY, "n1"),)), plan(), state)
    metrics.step_done(Forget(RentalId("a100-1")), "done")
    metrics.cloud_called("fake", "survey", "ok", 0.02)
    metrics.api_written("patch", "trainingjobs/status")
    specs = {spec.name: spec for spec in (*catalogue.FROM_SNAPSHOT, *catalogue.OF_THE_PROCESS)}
    seen = set()
    for family in metrics.registry.collect():
        name = family.name + "_total" if family.type == "counter" else family.name
        seen.add(name)
        assert family.type == specs[name].kind
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(specs[name].labels)
    assert seen == specs.keys()


def test_the_documented_table_is_the_catalogue() -> None:
    assert catalogue.table() in DOCS.read_text(), (
        "docs/metrics.md is stale: replace its table by the output of `python -m charterer.metrics.catalogue`"
    )


def test_the_command_that_prints_the_catalogue_prints_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "charterer.metrics.catalogue"], check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (catalogue.table(), "")


def test_what_holds_jobs_up_is_counted_and_summed_by_namespace(metrics: Metrics) -> None:
    found = Bottleneck(BottleneckKind.SYNC_BOUND, 1, 0.5, 0.25)
    jobs = [replace(job(name, gpus=4), bottlenecks=(found,)) for name in ("one", "two")]
    metrics.observe(snapshot(jobs=(*jobs, job("well", gpus=4))), plan(), state)
    labels = {"namespace": jobs[0].namespace, "bottleneck": "SyncBound"}
    assert value(metrics, "charterer_bottleneck_jobs", **labels) == 2.0
    hourly = sum(one.allocation.option.price.dollars_per_hour for one in jobs if one.allocation)
    assert value(metrics, "charterer_bottleneck_dollars_per_hour", **labels) == pytest.approx(0.25 * hourly)
    assert value(metrics, "charterer_bottleneck_jobs", namespace=jobs[0].namespace, bottleneck="SlowNode") is None


@pytest.mark.parametrize(
    ("usage", "shown"),
    [(None, "unknown"), (Usage(1, None, 60.0, 0.0), "busy"), (Usage(1, NOW, 60.0, 0.0), "idle")],
)
def test_interactive_jobs_show_dollars_an_hour_by_whether_a_cell_runs(
    metrics: Metrics, usage: Usage | None, shown: str
) -> None:
    progress = Progress(1, None, None, None, NOW, usage=usage)
    session = replace(job("s", gpus=4), interactive=Interactive(asks=1), progress=progress)
    waiting = replace(job("w"), interactive=Interactive())
    metrics.observe(snapshot(jobs=(session, waiting, job("j", gpus=4))), plan(), state)
    found = {
        each: value(metrics, "charterer_interactive_dollars_per_hour", namespace=session.namespace, state=each)
        for each in ("busy", "idle", "unknown")
    }
    assert found == {"busy": 0.0, "idle": 0.0, "unknown": 0.0} | {shown: PRICE.dollars_per_hour}
