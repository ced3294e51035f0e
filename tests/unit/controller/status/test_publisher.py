"""Which objects are shown, and what those show with which planning fails or whose load is not borne out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api.models.base import Condition, dump
from charterer.api.models.trainingjob_status import TrainingJobView
from charterer.controller.status.publisher import viewed_objects
from charterer.controller.status.view_writer import Urgency
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.profile import Amdahl
from charterer.domain.time import Calendar, Instant
from charterer.incremental import Memo
from charterer.policy.set_aside import plan_around
from tests.worlds import NAMESPACE, World

SFT = ClassId(NAMESPACE, "sft")


def a_world() -> World:
    world = World()
    world.budget()
    world.pool()
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=1, arrivals_per_hour=100.0, budget="research")
    world.job("train", gpus=(1, 8, 16), profile="sft")
    return world


def conditions(world: World, kind: str) -> dict[str, Condition]:
    """The conditions of the world's one object of a kind; none if nothing is shown of it."""
    snapshot = world.snapshot()
    views = viewed_objects(snapshot, plan_around(snapshot, Memo(), {}).plan, {})
    shown = [viewed.make(snapshot) for viewed in views if viewed.kind.name == kind]
    return {condition.type: condition for view in shown for condition in view.conditions}


def spoiled(kind: str) -> World:
    """A world whose object of this kind makes planning fail."""
    world, nan = a_world(), float("nan")
    match kind:
        case "SpeedupProfile":
            world.profiles[SFT] = replace(world.profiles[SFT], mean_work=nan)
        case "TrainingJob":
            world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], target_completion=Instant(10**400))
            world.profiles[SFT] = replace(world.profiles[SFT], arrivals_per_hour=None)
            world.job("another", gpus=8, profile="sft")
        case "GPUBudget":
            world.budgets[BudgetId("research")] = replace(
                world.budgets[BudgetId("research")], calendar=Calendar("No/Where")
            )
        case "GPUPool":
            world.pools[PoolId("a100")] = replace(world.pools[PoolId("a100")], start_seconds=nan)
    return world


@pytest.mark.parametrize("kind", ["SpeedupProfile", "GPUBudget", "GPUPool"])
def test_an_object_with_which_planning_fails_is_not_ready_and_says_why(kind: str) -> None:
    ready = conditions(spoiled(kind), kind)["Ready"]
    assert (ready.status, ready.reason) == ("Unknown" if kind == "GPUPool" else "False", "PlanningFailed")
    assert f"with this {kind}; please report it. It is tried again after 5 minutes" in ready.message


def test_a_job_with_which_planning_fails_says_so() -> None:
    snapshot = spoiled("TrainingJob").snapshot()
    decided = plan_around(snapshot, Memo(), {}).plan
    shown = {viewed.key.name: viewed.make(snapshot) for viewed in viewed_objects(snapshot, decided, {})}
    told = {name: {each.type: each for each in shown[name].conditions} for name in ("train", "another")}
    admitted = {name: told[name]["Admitted"].reason for name in told}
    assert admitted == {"train": "PlanningFailed", "another": "Accepted"}


def test_a_profile_shows_its_mean_work_in_whole_seconds() -> None:
    world = a_world()
    world.profiles[SFT] = replace(world.profiles[SFT], mean_work=226.906667)
    snapshot = world.snapshot()
    views = viewed_objects(snapshot, plan_around(snapshot, Memo(), {}).plan, {})
    (view,) = [viewed.make(snapshot) for viewed in views if viewed.kind.name == "SpeedupProfile"]
    assert dump(view)["meanWork"] == 227


def test_a_profile_says_whether_its_declared_load_counts() -> None:
    world = a_world()
    assert conditions(world, "SpeedupProfile")["DeclaredLoadConfirmed"].status == "True"
    world.profiles[SFT] = replace(world.profiles[SFT], claims_arrivals=True, claims_work=True, arrivals_per_hour=1e6)
    shown = conditions(world, "SpeedupProfile")["DeclaredLoadConfirmed"]
    assert (shown.status, shown.reason) == ("False", "NotConfirmed")
    assert "1e+06 jobs an hour" in shown.message
    world.profiles[SFT] = replace(world.profiles[SFT], arrivals_per_hour=None)
    assert "DeclaredLoadConfirmed" not in conditions(world, "SpeedupProfile")


def test_money_and_what_needs_a_person_are_urgent_then_what_runs_then_what_waits() -> None:
    world = a_world()
    world.job("waits", gpus=8)
    job = world.job("runs", gpus=8)
    world.jobs[job.id] = replace(job, last_run=1)
    changed: dict[str, dict[str, Any]] = {
        "refused": {"invalid": "spec.template: refused"},
        "failed": {"finish": Finish(FinishKind.FAILED, Instant(0), "BackoffLimitExceeded", "")},
        "complete": {"finish": Finish(FinishKind.COMPLETE, Instant(0), "Completed", ""), "last_run": 1},
    }
    for name, changes in changed.items():
        job = world.job(name, gpus=8)
        world.jobs[job.id] = replace(job, **changes)
    world.job("impossible", gpus=8, gpu_types=("NVIDIA-H100-80GB-HBM3",))
    snapshot = world.snapshot()
    views = viewed_objects(snapshot, plan_around(snapshot, Memo(), {}).plan, {})
    urgency = {viewed.key.name: viewed.urgency for viewed in views}
    first = {"research", "a100", "sft", "refused", "failed", "impossible"}
    assert {name for name, urgent in urgency.items() if urgent is Urgency.FIRST} == first
    assert {name for name, urgent in urgency.items() if urgent is Urgency.RUNS} == {"runs", "complete"}


def test_nothing_is_shown_of_a_new_job_until_its_template_was_tried_or_that_takes_long() -> None:
    world = a_world()
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], checking=True)
    assert not conditions(world, "TrainingJob")
    world.passes(31.0)
    assert conditions(world, "TrainingJob")["Admitted"].reason == "Checking"


@pytest.mark.parametrize("reason", ["ProfileNotFound", "CurveNotIncreasing"])
def test_a_job_without_a_curve_shows_what_keeps_it_from_having_one_beside_its_other_problems(reason: str) -> None:
    world = World()
    world.budget()
    world.pool()
    world.job("train", gpus=(1, 8, 16), profile="sft")
    problems = (
        Problem("TrainingJob", NAMESPACE, "train", "spec.profileName", reason, "SpeedupProfile 'sft' cannot be used"),
        Problem("TrainingJob", NAMESPACE, "train", "spec.priorityClassName", "PriorityClassUnknown", "no weight"),
    )
    for _ in range(2):
        world.carry_out(plan_around(world.snapshot(), Memo(), {}).plan)
        world.everything_starts()
    snapshot = replace(world.snapshot(), problems=problems)
    decided = plan_around(snapshot, Memo(), {}).plan
    (view,) = [viewed.make(snapshot) for viewed in viewed_objects(snapshot, decided, {}) if viewed.key.name == "train"]
    assert isinstance(view, TrainingJobView)
    assert view.why == reason
    admitted = next(shown for shown in view.conditions if shown.type == "Admitted")
    assert (admitted.status, admitted.reason) == ("True", "PriorityClassUnknown")
    assert admitted.message == (
        "spec.priorityClassName: no weight; spec.profileName: SpeedupProfile 'sft' cannot be used"
    )


def test_a_refused_template_is_why_a_job_has_no_gpus_whatever_its_profile() -> None:
    world = World()
    world.budget()
    world.pool()
    job = world.job("train", gpus=8, profile="sft")
    world.jobs[job.id] = replace(job, invalid="spec.template: refused")
    problem = Problem("TrainingJob", NAMESPACE, "train", "spec.profileName", "ProfileNotFound", "none")
    snapshot = replace(world.snapshot(), problems=(problem,))
    decided = plan_around(snapshot, Memo(), {}).plan
    (view,) = [viewed.make(snapshot) for viewed in viewed_objects(snapshot, decided, {}) if viewed.key.name == "train"]
    assert isinstance(view, TrainingJobView)
    assert (view.state, view.why) == ("Invalid", "Invalid")
