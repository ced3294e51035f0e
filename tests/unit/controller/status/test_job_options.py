"""A job's options in its status: the same as explain's, bounded in number and in work, and nothing of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from charterer.api.models.trainingjob_status import OPTIONS_SHOWN, TrainingJobView
from charterer.controller.status import jobs as status_jobs
from charterer.controller.status.jobs import NO_OPTIONS, JobOptions, ShownOptions
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import Selector
from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.job import Finish, FinishKind, Job
from charterer.domain.money import Money
from charterer.domain.profile import ThroughputTable
from charterer.incremental import Memo
from charterer.policy.explain.alternatives import Comparison, Rank, alternatives
from charterer.policy.planner import SolvedPlan, solved_plan
from charterer.policy.set_aside import plan_around
from tests.worlds import World

CURVE = ThroughputTable(((1, 50.0), (2, 98.0), (4, 180.0), (8, 310.0), (16, 480.0), (32, 640.0)))


def a_world(*, jobs: int = 1) -> World:
    """Jobs that wait, each with seven options in one pool."""
    world = World()
    world.budget(amount="60000")
    world.budgets = {name: replace(budget, fixed_rate=Rate(8.0 / 3600)) for name, budget in world.budgets.items()}
    world.pool(gpus=8, price="16")
    world.profile("sft", CURVE, work_hours=40, arrivals_per_hour=1.0)
    for number in range(jobs):
        world.job(f"job{number}", gpus=(1, 8, 32), profile="sft")
    return world


def planned(world: World, options: JobOptions) -> tuple[SolvedPlan, Callable[[str], ShownOptions]]:
    """The plan of the world, and what jobs show then."""
    snapshot = world.snapshot()
    made = solved_plan(snapshot)
    options.planned(snapshot, made.solutions)

    def of(name: str) -> ShownOptions:
        return options.of(snapshot.jobs[JobId(name)], made.plan.jobs.get(JobId(name)), snapshot.now)

    return made, of


def running(world: World) -> World:
    for _ in range(3):
        world.carry_out(solved_plan(world.snapshot()).plan)
        world.everything_starts()
    world.passes(3600.0)
    return world


@pytest.mark.parametrize("state", ["waits", "runs"])
def test_the_options_are_those_of_explain(state: str) -> None:
    world = a_world() if state == "waits" else running(a_world())
    made, of = planned(world, JobOptions())
    snapshot = world.snapshot()
    job, verdict = snapshot.jobs[JobId("job0")], made.plan.jobs[JobId("job0")]
    explained = alternatives(job, verdict, Comparison.of(made.solutions[0]))
    assert explained is not None
    shown = of("job0")
    assert shown.as_of == snapshot.now
    assert [(row.pool, row.gpus, row.verdict, row.nodes) for row in shown.rows] == [
        (row.option.pool, row.option.gpus, str(row.rank), str(row.nodes)) for row in explained.rows
    ]
    assert [row.seconds_left for row in shown.rows] == [round(row.seconds) for row in explained.rows]
    (chosen,) = [row for row in shown.rows if row.verdict == Rank.CHOSEN]
    assert (chosen.gpu_type, chosen.capacity_type, chosen.message) == ("a100", "OnDemand", verdict.reason.message)
    assert all(not row.message for row in shown.rows if row is not chosen)


def test_of_many_options_the_best_at_the_budgets_rate_are_shown_with_the_jobs_own() -> None:
    world = a_world()
    world.pool("a-dear-one", gpus=8, price="160", gpu_type="a100")
    world.pools = dict(sorted(world.pools.items()))
    world = running(world)
    made, of = planned(world, JobOptions())
    shown = of("job0").rows
    assert len(shown) == OPTIONS_SHOWN
    assert [row.verdict for row in shown].count("chosen") == 1
    explained = alternatives(
        world.snapshot().jobs[JobId("job0")], made.plan.jobs[JobId("job0")], Comparison.of(made.solutions[0])
    )
    assert explained is not None
    assert len(explained.rows) == 14
    assert sum(row.pool == "a-dear-one" for row in shown) == 1


def finished(job: Job, world: World) -> Job:
    return replace(job, finish=Finish(FinishKind.COMPLETE, world.now, "Completed", ""))


@pytest.mark.parametrize(
    "ended",
    [finished, lambda job, _: replace(job, suspend=True), lambda job, _: replace(job, invalid="no image")],
)
def test_a_job_that_does_not_want_to_run_shows_none(ended: Callable[[Job, World], Job]) -> None:
    world, options = a_world(), JobOptions()
    assert planned(world, options)[1]("job0").rows
    world.jobs[JobId("job0")] = ended(world.jobs[JobId("job0")], world)
    assert planned(world, options)[1]("job0") == NO_OPTIONS


def test_options_are_compared_again_after_half_a_minute_or_when_the_decision_is_another() -> None:
    world, options = a_world(), JobOptions()
    first = planned(world, options)[1]("job0")
    world.passes(29.0)
    assert planned(world, options)[1]("job0") == first
    world.passes(1.0)
    assert planned(world, options)[1]("job0").as_of == world.now
    world.passes(1.0)
    for _ in range(2):
        world.carry_out(planned(world, options)[0].plan)
        world.everything_starts()
    assert world.jobs[JobId("job0")].allocation is not None
    assert planned(world, options)[1]("job0").as_of == world.now


def test_only_so_many_are_compared_a_second_and_the_others_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_jobs, "_COMPARED_A_SECOND", 16)
    world, options = a_world(jobs=5), JobOptions()
    _, of = planned(world, options)
    names = [f"job{number}" for number in range(5)]
    assert [bool(of(name).rows) for name in names] == [True, True, False, False, False]
    world.passes(1.0)
    _, of = planned(world, options)
    assert [bool(of(name).rows) for name in names] == [True, True, True, True, False]


def test_a_job_whose_turn_has_not_come_shows_nothing_rather_than_options_of_another_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_jobs, "_COMPARED_A_SECOND", 1)
    world, options = a_world(), JobOptions()
    first = planned(world, options)[1]("job0")
    assert first.rows
    world.passes(5.0)
    assert planned(world, options)[1]("job0") == first
    world.jobs[JobId("job0")] = replace(world.jobs[JobId("job0")], generation=2)
    assert planned(world, options)[1]("job0") == NO_OPTIONS


def test_a_job_that_can_have_no_option_shows_what_rules_each_out_in_the_pools_of_its_budget_only() -> None:
    world = a_world()
    world.pool("theirs", gpus=8, price="20", gpu_type="h100")
    world.pools = {
        name: replace(pool, labels={"team": "rivals" if name == "theirs" else "ours"})
        for name, pool in world.pools.items()
    }
    selector = Selector((("team", "ours"),), ())
    world.budgets = {name: replace(budget, pool_selector=selector) for name, budget in world.budgets.items()}
    world.jobs[JobId("job0")] = replace(world.jobs[JobId("job0")], gpu_types=("tpu",))
    world.job("cheap", gpus=(1, 8, 32), profile="sft", hours_left=40)
    world.jobs[JobId("cheap")] = replace(world.jobs[JobId("cheap")], max_cost=Money(1_000_000))
    _, of = planned(world, JobOptions())
    (no_type,) = of("job0").rows
    assert (no_type.pool, no_type.gpus, no_type.verdict) == ("a100", None, "ruled out")
    assert no_type.message == "spec.gpuTypes: a node has a100"
    dear = of("cheap").rows
    assert {row.verdict for row in dear} == {"ruled out"}
    assert all(row.message.startswith("spec.maxCost: it needs $") for row in dear)
    assert {row.pool for row in (*dear, no_type)} == {PoolId("a100")}


def test_options_that_cannot_be_compared_stop_nothing_else_and_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("no such option")

    monkeypatch.setattr(status_jobs, "compared_options", fails)
    world, options = a_world(), JobOptions()
    for _ in range(3):
        assert planned(world, options)[1]("job0") == ShownOptions((), world.now)
        world.passes(31.0)
    assert [line.getMessage() for line in caplog.records] == ["options of TrainingJob team/job0; please report it"]


def test_without_a_plan_nothing_is_compared() -> None:
    world, options = a_world(), JobOptions()
    _, of = planned(world, options)
    options.planned(world.snapshot(), ())
    assert of("job0") == NO_OPTIONS


def test_a_jobs_view_has_its_options_and_follows_them_while_it_waits() -> None:
    world, options = a_world(), JobOptions()
    snapshot = world.snapshot()
    made = plan_around(snapshot, Memo(), {})
    options.planned(snapshot, made.solutions)
    (shown,) = (
        each for each in viewed_objects(snapshot, made.plan, {}, options=options) if each.kind.name == "TrainingJob"
    )
    assert shown.drifts
    view = shown.make(snapshot)
    assert isinstance(view, TrainingJobView)
    assert (len(view.options), view.options_as_of) == (7, snapshot.now)
