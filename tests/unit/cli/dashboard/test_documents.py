"""What is on the page: the documents of ``plan`` and ``costs``, and the jobs' own records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest

from charterer.api.decode import DecodedNamespace
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.budget import Selector
from charterer.domain.job import Job, RunOutcome, RunRecord, Stretch
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.time import after, format_instant, parse_instant
from charterer.tools.commands.costs.command import CostQuestion, costs_answer
from charterer.tools.commands.costs.document import costs_json
from charterer.tools.commands.dashboard.documents import PageQuestion, Sighting, cluster_parts, own_parts
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.plan_json import plan_json
from charterer.tools.commands.shared.one_namespace import OwnJobs, seen_job
from charterer.tools.commands.shared.plan_report import plan_report
from tests import factory
from tests.dashboard_worlds import busy_cluster
from tests.factory.pools import POOL
from tests.unit.cli.shared.test_own_jobs import raw
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, World

T0 = factory.T0


def parts_of(seen: Sighting, **question: Any) -> Any:
    return cluster_parts(seen, PageQuestion(**question))


def test_plan_and_costs_are_the_documents_that_the_commands_print() -> None:
    seen = busy_cluster(12)
    parts = parts_of(seen)
    snapshot = snapshot_of(seen.state, seen.now)
    assert parts["plan"] == plan_json(PlanAnswer(plan_report(snapshot)))
    asked = CostQuestion(None, "", (), ("namespace",), share_waste=False, recorded_only=False)
    assert parts["costs"] == costs_json(costs_answer(asked, snapshot, seen.now))


@pytest.mark.parametrize(("opening", "aim"), [(None, "30000.00"), ("0", "60000.00")])
def test_the_straight_line_begins_when_the_budget_was_made(opening: str | None, aim: str) -> None:
    world = World()
    world.budget(amount="60000", opening=opening)
    (budget,) = parts_of(Sighting(seen_of(world), world.now))["budgets"]
    assert (budget["since"], budget["aim"]) == ("2026-06-16T00:00:00.000000Z", aim)


def test_the_budgets_days_are_those_of_its_status() -> None:
    seen = busy_cluster(1)
    (budget,) = parts_of(seen)["budgets"]
    (balance,) = [each.balance for each in seen.state.budgets.values()]
    assert balance is not None
    assert len(budget["days"]) == len(balance.costs.days) == 45
    first = balance.costs.days[0]
    assert budget["days"][0]["spentFor"] == {cause.value: amount.decimal() for cause, amount in first.by_cause.items()}
    assert (budget["start"], budget["end"]) == ("2026-06-01T00:00:00.000000Z", "2026-07-01T00:00:00.000000Z")
    assert budget["hourlyNow"] == "19.80"


def a_run(number: int, since: float, until: float, gpus: int, **changes: Any) -> RunRecord:
    option = Option(POOL, gpus, 1.0, Price.parse("8"))
    made = RunRecord(
        number, RunOutcome.STOPPED, option, (), after(T0, since), after(T0, until), "moved", Money.parse("1.5")
    )
    return replace(made, **changes)


def lane_of(job: Job, *events: Any) -> Any:
    world = World(now=after(T0, 7200.0))
    world.budget("research")
    world.pool("a100")
    world.jobs[job.id] = job
    return parts_of(Sighting(seen_of(world), world.now, events=events))[f"lane:{job.id}"]


def test_a_lane_has_the_widths_times_and_costs_of_the_runs() -> None:
    job = factory.job(
        created=T0,
        records=(a_run(1, 60, 600, 4), a_run(2, 660, 1200, 16)),
        allocation=factory.allocation(run=3, since=after(T0, 1300)),
        last_run=3,
    )
    lane = lane_of(job)
    start = T0 // 1000
    assert [
        (run["run"], run["since"] - start, run["until"] and run["until"] - start, run["gpus"], run["cost"])
        for run in lane["runs"]
    ] == [
        (1, 60_000, 600_000, 4, "1.50"),
        (2, 660_000, 1_200_000, 16, "1.50"),
        (3, 1_300_000, None, 4, None),
    ]
    assert lane["runs"][0]["message"] == "moved"
    assert float(lane["cost"]) > 3.0


def explained_job() -> Job:
    """One with a run that moved, one that was stopped, and one that goes on."""
    records = (a_run(1, 60, 600, 4, message="", because="wants 4"), a_run(2, 590, 1200, 16, because="16 save time"))
    goes_on = replace(factory.allocation(run=3, since=after(T0, 1300)), because="4 again")
    return factory.job(created=T0, namespace=NAMESPACE, records=records, allocation=goes_on, last_run=3)


def test_each_run_has_the_reason_on_its_record_without_any_event() -> None:
    runs = lane_of(explained_job())["runs"]
    assert [(run["why"], run["message"]) for run in runs] == [
        ("wants 4", ""),
        ("16 save time", "moved"),
        ("4 again", None),
    ]
    assert [run["why"] for run in lane_of(factory.job(created=T0, records=(a_run(1, 60, 600, 4),)))["runs"]] == [None]


def test_why_a_job_was_given_gpus_is_a_decision_without_any_event_and_is_told_once() -> None:
    job = explained_job()
    world = World(now=after(T0, 7200.0))
    world.budget("research")
    world.pool("a100")
    world.jobs[job.id] = job
    events = [allocated(job, 590.9, "16 save time"), allocated(job, 900.0, "8 in place")]
    found = parts_of(Sighting(seen_of(world), world.now, events=events))["decisions"]
    told = [(each["reason"], each["message"]) for each in found if each["reason"] == "Allocated"]
    assert told == [
        ("Allocated", "4 again"),
        ("Allocated", "8 in place"),
        ("Allocated", "16 save time"),
        ("Allocated", "wants 4"),
    ]


def allocated(job: Job, seconds: float, said: str) -> dict[str, Any]:
    """An Event on what the job was given."""
    return {
        "metadata": {"name": "e", "namespace": job.namespace},
        "involvedObject": {"kind": "TrainingJob", "namespace": job.namespace, "name": job.name, "uid": job.id},
        "eventTime": format_instant(after(T0, seconds)),
        "reason": "Allocated",
        "action": "Allocate",
        "message": said,
    }


def test_a_run_that_was_resized_in_place_says_since_when_it_has_its_width() -> None:
    run = factory.run(1, created=after(T0, 100))
    job = factory.job(
        created=T0,
        namespace=NAMESPACE,
        runs=(run,),
        allocation=factory.allocation(run=1, since=after(T0, 1300)),
        last_run=1,
        stretches=(Stretch(Option(POOL, 8, 1.0, Price.parse("8")), 1200.0),),
    )
    lane = lane_of(job)
    (shown,) = lane["runs"]
    assert (shown["since"], shown["widthFrom"]) == (after(T0, 100) // 1000, after(T0, 1300) // 1000)
    assert lane["inPlace"] == [{"gpus": 8, "pool": POOL, "seconds": 1200}]


def test_decisions_are_newest_first_and_an_ended_run_is_told_once_with_its_dollars() -> None:
    seen = busy_cluster(3)
    jobs = [decoded.job for decoded in seen.state.jobs.values()]
    job = next(each for each in jobs if each.records)
    told = allocated(job, 0.0, "told twice") | {"reason": "RunStopped", "action": "RecordRun"}
    found = parts_of(replace(seen, events=[*seen.events, told]))["decisions"]
    assert [each["at"] for each in found] == sorted((each["at"] for each in found), reverse=True)
    assert "told twice" not in [each["message"] for each in found]
    runs = [each for each in found if each["name"] == job.name and each["dollars"] is not None]
    assert len(runs) == len(job.records)
    assert {each["seconds"] for each in runs} == {round((run.until - run.since) / 1e6) for run in job.records}


def test_one_budget_is_shown_with_its_own_jobs_only() -> None:
    world = World()
    world.pool("a100")
    for budget in ("ours", "theirs"):
        made = world.budget(budget)
        world.budgets[made.id] = replace(made, selector=Selector((("paid-by", budget),)))
    world.job("mine")
    other = world.job("other")
    world.jobs[other.id] = replace(other, namespace="town")
    spaces = {
        name: DecodedNamespace(name, {"paid-by": budget}) for name, budget in ((NAMESPACE, "ours"), ("town", "theirs"))
    }
    state = replace(seen_of(world), namespaces={ObjectKey("", name): space for name, space in spaces.items()})
    parts = parts_of(Sighting(state, world.now), budget="theirs")
    assert parts["lanes"] == ["lane:other"]
    assert [each["name"] for each in parts["budgets"]] == ["theirs"]
    assert [each["name"] for each in parts["plan"]["budgets"]] == ["theirs"]
    assert {row["budget"] for row in parts["plan"]["jobs"]} == {"theirs"}


def test_a_budget_that_does_not_exist_is_an_error_with_similar_names() -> None:
    with pytest.raises(click.UsageError, match="no GPUBudget reserch: did you mean research"):
        parts_of(busy_cluster(1), budget="reserch")


def test_costs_that_cannot_be_read_are_a_line_on_the_page() -> None:
    parts = parts_of(busy_cluster(1), record="/nowhere/at/all", by=("job",))
    assert parts["costs"] is None
    assert any("/nowhere/at/all" in warning for warning in parts["reading"]["warnings"])


def test_a_cluster_without_a_budget_has_a_page() -> None:
    world = World()
    parts = parts_of(Sighting(seen_of(world), world.now))
    assert (parts["budgets"], parts["lanes"]) == ([], [])
    assert parts["reading"]["warnings"] == ["no GPUBudget is in this cluster that can be used, so nothing is rented"]


def test_who_may_read_one_namespace_sees_its_jobs_from_their_status() -> None:
    now = parse_instant("2026-06-15T08:00:12Z")
    good, broken = seen_job(raw("train", state="Running", cost="4.20")), replace(seen_job(raw("odd")), job=None)
    parts: Any = own_parts(OwnJobs("vision", (good, broken), now), (), ["limited"])
    assert parts["reading"]["namespace"] == "vision"
    assert parts["reading"]["warnings"] == ["limited", "TrainingJob vision/odd cannot be read"]
    assert parts["budgets"] == []
    (name,) = parts["lanes"]
    assert (parts[name]["state"], parts[name]["cost"]) == ("Running", "4.20")
