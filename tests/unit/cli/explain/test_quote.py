"""``charterer quote``: what a job would cost and when it would end, before it is there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from charterer.api import decode
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.time import Calendar, parse_instant, seconds_between
from charterer.policy.planner import plan
from tests.unit.api import values
from tests.unit.cli.plan.test_plan import JOB, busy, steady
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def test_three_choices_are_told_with_intervals_and_what_they_rest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told = charterer_over(steady(), monkeypatch)("quote", "-f", "-", stdin=JOB)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("TrainingJob team/more, if it were submitted now (2026-06-16 00:00 UTC)")
    for title in ("cheapest", "as the budget pays", "fastest"):
        assert any(line.lstrip().startswith(title) for line in told.stdout.splitlines())
    assert "IN 9 OF 10 CASES" in told.stdout
    assert "What this rests on" in told.stdout
    assert "assumed: no job of the budget has completed" in told.stdout
    assert "declared formula" in told.stdout
    assert "charterer quote -f FILE -o manifest | kubectl apply -f -" in told.stdout


def test_the_figures_are_those_of_the_plan_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(steady(), monkeypatch)
    said = json.loads(charterer("quote", "-f", "-", "-o", "json", stdin=JOB).stdout)
    planned = json.loads(charterer("plan", "-f", "-", "-o", "json", stdin=JOB).stdout)
    (job,) = [each for each in planned["jobs"] if each["name"] == "more"]
    choices = said["choices"]
    assert said["canRun"] is True
    assert choices["budget"]["gpus"] == job["wants"]["gpus"]
    dollars = [float(choices[choice]["cost"]["middle"]) for choice in ("cheapest", "budget", "fastest")]
    seconds = [choices[choice]["seconds"]["middle"] for choice in ("cheapest", "budget", "fastest")]
    assert dollars == sorted(dollars)
    assert seconds == sorted(seconds, reverse=True)
    for choice in choices.values():
        assert choice["seconds"]["low"] < choice["seconds"]["middle"] < choice["seconds"]["high"]
        assert choice["secondsAreFrom"] == "now"


def test_the_manifest_carries_the_quote_as_the_schema_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(steady(), monkeypatch)
    said = json.loads(charterer("quote", "-f", "-", "-o", "json", stdin=JOB).stdout)
    printed = charterer("quote", "-f", "-", "-o", "manifest", stdin=JOB)
    manifest = json.loads(printed.stdout)
    assert manifest["spec"]["quote"] == said["quote"]
    assert manifest["metadata"] == {"name": "more", "namespace": "team"}
    raw = values.raw_job()
    quote = decode.training_job({**raw, "spec": {**raw["spec"], "quote": manifest["spec"]["quote"]}}).job.quote
    assert quote is not None
    assert quote.end_low is not None
    assert quote.end_high is not None
    assert seconds_between(quote.at, quote.end_low) == pytest.approx(said["choices"]["budget"]["seconds"]["low"], abs=1)
    assert quote.cost_high.dollars == pytest.approx(float(said["choices"]["budget"]["cost"]["high"]), abs=0.011)
    assert json.loads(charterer("plan", "-f", "-", "-o", "json", stdin=printed.stdout).stdout)["problems"] == []


def test_a_job_that_cannot_run_has_no_quote_and_is_told_why_as_explain_would(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(steady(), monkeypatch)
    poor = JOB.replace("spec:\n", 'spec:\n  maxCost: "0.01"\n')
    told = charterer("quote", "-f", "-", stdin=poor)
    assert told.exit_code == 5
    assert told.stdout.startswith("TrainingJob team/more cannot run: MaxCost.")
    assert "Why (MaxCost): spec.maxCost is $0.01, and the cheapest way to finish" in told.stdout
    assert "RULED OUT BY" in told.stdout
    said = charterer("quote", "-f", "-", "-o", "json", stdin=poor)
    answer = json.loads(said.stdout)
    assert (said.exit_code, answer["canRun"], answer["reason"], answer["quote"]) == (5, False, "MaxCost", None)
    printed = charterer("quote", "-f", "-", "-o", "manifest", stdin=poor)
    assert (printed.exit_code, printed.stdout) == (5, "")
    assert "The job cannot run (MaxCost): spec.maxCost is $0.01" in printed.stderr


def test_a_job_that_nobody_pays_for_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.pool()
    told = charterer_over(world, monkeypatch)("quote", "-f", "-", stdin=JOB.replace("  profileName: sft\n", ""))
    assert told.exit_code == 5
    assert "TrainingJob team/more cannot run: NoBudget." in told.stdout


def test_by_a_time_it_is_told_what_it_takes_and_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(steady(), monkeypatch)
    anyway = json.loads(charterer("quote", "-f", "-", "-o", "json", stdin=JOB).stdout)["choices"]
    fast, slow = anyway["fastest"]["seconds"]["middle"], anyway["budget"]["seconds"]["middle"]
    assert fast < 0.8 * slow
    hour = f"{int((fast * 1.15 + slow) / 2 // 3600):02d}:{int((fast * 1.15 + slow) / 2 % 3600 // 60):02d}"
    target = f"2026-06-16T{hour}:00Z"
    told = charterer("quote", "-f", "-", "--by", target, stdin=JOB)
    assert told.exit_code == 0, told.stdout
    assert f"To be done by 2026-06-16 {hour} UTC it takes " in told.stdout
    assert f'set spec.targetCompletionTime: "{target}", as -o manifest does.' in told.stdout
    printed = json.loads(charterer("quote", "-f", "-", "--by", target, "-o", "manifest", stdin=JOB).stdout)
    assert printed["spec"]["targetCompletionTime"] == target
    said = json.loads(charterer("quote", "-f", "-", "--by", target, "-o", "json", stdin=JOB).stdout)
    assert said["by"]["met"] is True
    assert said["by"]["choice"]["seconds"]["middle"] <= seconds_between(
        parse_instant(said["at"]), parse_instant(target)
    )
    assert float(said["by"]["choice"]["cost"]["middle"]) >= float(anyway["budget"]["cost"]["middle"])
    assert 0.3 < said["by"]["chance"] < 1.0


def test_what_no_way_can_do_in_time_is_said_with_the_earliest_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told = charterer_over(steady(), monkeypatch)("quote", "-f", "-", "--by", "2026-06-16T00:10:00Z", stdin=JOB)
    assert told.exit_code == 6
    assert "It cannot be expected to be done by 2026-06-16 00:10 UTC: on the fastest way it ends about 2" in told.stdout


@pytest.mark.parametrize(
    ("zone", "day", "end"),
    [
        ("UTC", "friday", "2026-06-20T00:00:00Z"),
        ("UTC", "Tuesday", "2026-06-17T00:00:00Z"),
        ("Pacific/Auckland", "friday", "2026-06-19T12:00:00Z"),
        ("America/New_York", "monday", "2026-06-16T04:00:00Z"),
    ],
)
def test_a_weekday_means_its_end_in_the_budgets_time_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str, day: str, end: str
) -> None:
    world = steady()
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], calendar=Calendar(zone))
    said = json.loads(
        charterer_over(world, monkeypatch)("quote", "-f", "-", "--by", day, "-o", "json", stdin=JOB).stdout
    )
    assert said["by"]["target"] == end


def test_the_jobs_that_it_would_delay_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16", max_nodes=1)
    world.job("first", gpus=8, hours_left=2.0, age_seconds=60.0)
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    none = charterer_over(world, monkeypatch)("quote", "-f", "-", stdin=JOB.replace("  profileName: sft\n", ""))
    assert "No other job would end later." in none.stdout
    urgent = steady()
    urgent.pool(gpus=8, price="16", max_nodes=2)
    urgent.job("next", gpus=(8, 16, 16), profile="sft", age_seconds=10.0)
    said = json.loads(charterer_over(urgent, monkeypatch)("quote", "-f", "-", "-o", "json", stdin=JOB).stdout)
    assert all(each["job"] != "team/more" for each in said["delays"])


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (
            JOB.replace("name: more", "name: one"),
            "there is a TrainingJob team/one already, and charterer explain one -n team says what is left of it",
        ),
        (f"{JOB}---{JOB.replace('name: more', 'name: other')}", "a quote is of one TrainingJob, and the files have 2"),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
            "a quote is of one TrainingJob, and the files have 0",
        ),
        (
            JOB.replace("  profileName: sft\n", "  interactive: {asks: 1}\n"),
            "TrainingJob team/more is interactive: it has no end, and so no quote",
        ),
    ],
)
def test_what_is_not_one_new_job_with_an_end_is_an_error(
    monkeypatch: pytest.MonkeyPatch, manifest: str, told: str
) -> None:
    result = charterer_over(busy(), monkeypatch)("quote", "-f", "-", stdin=manifest)
    assert result.exit_code == 1
    assert told in result.stderr


def test_a_job_that_waits_for_money_has_a_quote_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy(amount="5")
    world.job("one", gpus=(1, 8, 64), profile="sft", age_seconds=3600.0)
    said = charterer_over(world, monkeypatch)("quote", "-f", "-", stdin=JOB)
    assert said.exit_code == 0
    assert "from its start" in said.stdout
    assert "Nobody knows when it would start, so the quote that is kept with the job names no end." in said.stdout
    answer = json.loads(charterer_over(world, monkeypatch)("quote", "-f", "-", "-o", "json", stdin=JOB).stdout)
    assert "endHigh" not in answer["quote"]
    assert answer["choices"]["budget"]["secondsAreFrom"] == "its start"


def test_no_time_that_cannot_be_read_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(busy(), monkeypatch)("quote", "-f", "-", "--by", "soon", stdin=JOB)
    assert result.exit_code == 1
    assert "'soon': write date and time with a zone, 2026-12-01T18:00:00Z" in result.stderr


RUN = ("run", "--image", "acme/sft:1", "--no-code", "--name", "more", "-n", "team", "--profile", "sft", "--quote")


def test_run_says_the_quote_first_and_keeps_it_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    told = charterer_over(steady(), monkeypatch)(*RUN, "--gpus", "8", "--dry-run", "--", "torchrun", "train.py")
    assert told.exit_code == 0, told.stderr
    assert "as the budget pays" in told.stderr
    assert set(yaml.safe_load(told.stdout)["spec"]["quote"]) == {"at", "costLow", "costHigh", "endLow", "endHigh"}


def test_run_with_a_quote_creates_no_job_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(steady(), monkeypatch)
    told = charterer(*RUN, "--gpus", "8", "--max-cost", "0.01", "--", "torchrun", "train.py")
    assert (told.exit_code, told.stdout) == (5, "")
    assert "TrainingJob team/more cannot run: MaxCost." in told.stderr


def test_explain_tells_quote_and_outcome_of_a_job_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = steady()
    charterer = charterer_over(world, monkeypatch)
    manifest = json.loads(charterer("quote", "-f", "-", "-o", "manifest", stdin=JOB).stdout)
    raw = values.raw_job()
    quote = decode.training_job({**raw, "spec": {**raw["spec"], "quote": manifest["spec"]["quote"]}}).job.quote
    job = world.jobs[JobId("one")]
    world.jobs[job.id] = replace(
        job, quote=quote, allocation=None, runs=(), finish=Finish(FinishKind.COMPLETE, world.now, "Completed", "")
    )
    told = charterer_over(world, monkeypatch)("explain", "one").stdout
    assert "Its quote: the job cost $" in told
    assert "its quote of 2026-06-16T00:00Z said $" in told
