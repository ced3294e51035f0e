"""Trials: which job is moved to learn something, what may be spent on it, and how long it is left there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purser.domain.budget import Mode
from purser.domain.ids import BudgetId, ClassId, JobId
from purser.domain.job import Job, ResizePolicy, RunOutcome, RunRecord
from purser.domain.plan import Allocate, Plan, Why
from purser.domain.profile import Origin, Phase, Source, SpeedCurve, Table, Trial
from purser.domain.time import after
from purser.policy.exploration import TRIAL_SECONDS
from purser.policy.planner import plan
from tests.worlds import World

NAME = ClassId("team/sft")
SFT = JobId("sft")


TRIAL = Trial("a100", 16, "never ran")


def world_with(*, percent: int = 2, trial: Trial | None = TRIAL) -> World:
    """A class known on 8 GPUs; two jobs of it run there, and 16 GPUs do not pay. A trial costs $4."""
    world = World()
    budget = world.budget(amount="12000")
    world.budgets[budget.id] = replace(budget, exploration_percent=percent)
    world.pool("a100", gpus=8, price="16")
    world.profile("sft", Table(((8, 1.0), (16, 1.0))), work_hours=100)
    origins = (Origin(Source.MEASURED, 5, 0.9, 1.1), Origin(Source.EXTRAPOLATED, 0, 0.5, 2.0))
    curve = SpeedCurve("a100", Table(((8, 1.0), (16, 1.0))), origins)
    world.profiles[NAME] = replace(world.profiles[NAME], phases=(Phase(1.0, (curve,)),), reports=5, trial=trial)
    for name in ("sft", "younger"):
        runs(world, name)
    return world


def runs(world: World, name: str, hours_left: float = 100) -> Job:
    world.job(name, gpus=(8, 8, 32), profile="sft", hours_left=hours_left)
    return world.runs_on(name, world.rental().id, gpus=8)


def tried(decided: Plan) -> list[Allocate]:
    return [
        one
        for one in decided.commands
        if isinstance(one, Allocate) and one.allocation is not None and one.allocation.option.trial
    ]


def settle(world: World) -> Plan:
    """Plan, carry out, let nodes come, until the trial is on its way."""
    decided = plan(world.snapshot())
    for _ in range(3):
        world.carry_out(decided)
        world.everything_starts()
        if tried(decided):
            return decided
        decided = plan(world.snapshot())
    return decided


def test_one_job_of_the_class_is_tried_where_most_is_to_be_learned() -> None:
    decided = settle(world_with())
    (trial,) = tried(decided)
    assert trial.allocation is not None
    assert (trial.job, trial.allocation.option.gpus, trial.reason.why) == (SFT, 16, Why.EXPLORING)
    assert "16 GPUs on a100 is tried for the class: never ran; $4.00 of $240.00 left for trials" in trial.reason.message


def test_nothing_is_tried_without_money_for_it_or_anything_to_try() -> None:
    assert not tried(settle(world_with(percent=0)))
    assert not tried(settle(world_with(trial=None)))


def test_a_job_on_trial_is_left_there_until_it_is_measured_or_the_time_is_over() -> None:
    world = world_with()
    settle(world)
    world.passes(60.0)
    assert not [one for one in plan(world.snapshot()).commands if isinstance(one, Allocate)]
    measured = replace(world.profiles[NAME], trial=None)
    unmeasured = world.profiles[NAME]
    world.profiles[NAME] = measured
    assert moves(plan(world.snapshot())) == [(SFT, 8)]
    world.profiles[NAME] = unmeasured
    world.passes(TRIAL_SECONDS + 150.0)
    assert (SFT, 8) in moves(plan(world.snapshot()))


def moves(decided: Plan) -> list[tuple[JobId, int]]:
    return [
        (one.job, one.allocation.option.gpus)
        for one in decided.commands
        if isinstance(one, Allocate) and one.allocation is not None
    ]


def test_a_class_is_tried_with_one_job_at_a_time() -> None:
    world = world_with()
    settle(world)
    world.passes(60.0)
    assert not tried(settle(world))


def test_a_job_that_was_tried_there_in_vain_is_not_tried_again() -> None:
    world = world_with()
    settle(world)
    job = world.jobs[SFT]
    assert job.allocation is not None
    here = job.allocation
    begun = after(world.now, -7200.0)
    record = RunRecord(1, RunOutcome.STOPPED, here.option, here.placements, begun, after(begun, 3600.0), "")
    fresh = world_with()
    fresh.jobs[SFT] = replace(fresh.jobs[SFT], records=(record,))
    (trial,) = tried(settle(fresh))
    assert trial.job == "younger"


@pytest.mark.parametrize(
    "change",
    [
        {"resize": ResizePolicy.NEVER},
        {"remaining": 3600.0},
        {"remaining": None},
    ],
)
def test_a_job_that_would_gain_nothing_or_may_not_move_is_not_tried(change: dict[str, object]) -> None:
    world = world_with()
    for name, job in world.jobs.items():
        world.jobs[name] = replace(job, **change)  # type: ignore[arg-type]
    assert not tried(settle(world))


@pytest.mark.parametrize(("before", "more"), [(29, True), (30, False)])
def test_trials_never_cost_more_in_a_period_than_their_part_of_the_amount(before: int, more: bool) -> None:
    world = world_with(percent=1)  # $120 are 30 trials
    settled = world_with()
    settle(settled)
    here = settled.jobs[SFT].allocation
    assert here is not None
    begun = after(world.now, -86_400.0)
    record = RunRecord(1, RunOutcome.STOPPED, here.option, here.placements, begun, after(begun, 7200.0), "")
    last_month = replace(record, since=after(begun, -30 * 86_400.0), until=after(begun, -29 * 86_400.0))
    world.job("gone", profile="sft", suspend=True)
    world.jobs[JobId("gone")] = replace(world.jobs[JobId("gone")], records=(last_month, *(record,) * before))
    assert bool(tried(settle(world))) is more


def test_a_budget_that_only_observes_says_what_it_would_try() -> None:
    world = world_with()
    budget = BudgetId("research")
    world.budgets[budget] = replace(world.budgets[budget], mode=Mode.OBSERVE)
    world.rental()
    world.rental()
    decided = plan(world.snapshot())
    assert not decided.commands
    would = [one for one in decided.would if isinstance(one, Allocate) and one.allocation is not None]
    assert [one.reason.why for one in would] == [Why.EXPLORING]
