"""For each reason that needs a person there is a world in which the planner gives it, and doctor finds the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from charterer.api.words.jobs import REASONS
from charterer.controller.status.jobs import job_view
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId, RentalId
from charterer.domain.job import Doubt, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.plan import ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import OperatorLimits, Snapshot, Stop
from charterer.domain.time import Instant, after
from charterer.incremental import Memo
from charterer.policy.set_aside import plan_around
from charterer.tools.commands.doctor.checks import check_own_jobs
from charterer.tools.commands.shared.one_namespace import OwnJob, OwnJobs
from tests.worlds import NAMESPACE, World, one_job_runs

TRAIN = JobId("train")


def waits(**job: Any) -> World:
    """A job of a class that is known waits for its first node."""
    world = World()
    world.budget()
    world.pool()
    world.job("train", gpus=8, hours_left=4.0)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], **job)
    return world


def near_the_hard_limit() -> Snapshot:
    world = World()
    world.budget(amount="10", hard_limit="10", spent="9.99")
    world.pool()
    world.job("train", gpus=8)
    return world.snapshot()


def not_starting() -> Snapshot:
    world = one_job_runs()
    job = world.jobs[TRAIN]
    pods = tuple(replace(pod, phase=PodPhase.PENDING, ready=False) for pod in job.runs[0].pods)
    world.jobs[TRAIN] = replace(job, runs=(replace(job.runs[0], pods=pods, started=None),))
    world.passes(job.ready_timeout_seconds)
    return world.snapshot()


def not_believed() -> Snapshot:
    world = one_job_runs()
    doubt = Doubt(RentalId("a100-1"), "another budget pays for a100-1")
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], runs=(), doubts=(doubt,))
    return world.snapshot()


def backs_off() -> Snapshot:
    world = one_job_runs()
    past = world.jobs[TRAIN].allocation
    assert past is not None
    record = RunRecord(past.run, RunOutcome.FAILED, past.option, past.placements, past.since, world.now, "exit code 1")
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], allocation=None, runs=(), records=(record,), failures=1)
    return world.snapshot()


def clock_behind() -> Snapshot:
    world = waits()
    budget = world.budgets[BudgetId("research")]
    assert budget.balance is not None
    balance = replace(budget.balance, period_start=after(world.now, 86_400.0))
    world.budgets[budget.id] = replace(budget, balance=balance)
    return world.snapshot()


def without_its_parent() -> Snapshot:
    world = World()
    world.budget(parent="gone")
    world.pool()
    world.job("train", gpus=8)
    return world.snapshot()


def not_recorded() -> Snapshot:
    world = one_job_runs()
    run = world.jobs[TRAIN].runs[0]
    pods = tuple(replace(pod, phase=PodPhase.SUCCEEDED) for pod in run.pods)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], runs=(replace(run, pods=pods, complete=world.now),))
    world.passes(1200.0)
    return world.snapshot()


def unreadable_rental() -> Snapshot:
    problem = Problem("GPURental", "", "a100-7", "spec.pool", "Unreadable", "is no name")
    return replace(waits().snapshot(), problems=(problem,))


WORLDS: Mapping[ReasonCode, Callable[[], Snapshot]] = {
    ReasonCode.HARD_LIMIT: near_the_hard_limit,
    ReasonCode.MAX_COST: lambda: waits(max_cost=Money.parse("0.01")).snapshot(),
    ReasonCode.OPERATOR_LIMIT: lambda: replace(waits().snapshot(), limits=OperatorLimits(0, None)),
    ReasonCode.STOPPED: lambda: replace(waits().snapshot(), stop=Stop.RENT),
    ReasonCode.RENTAL_UNREADABLE: unreadable_rental,
    ReasonCode.NO_OPTION: lambda: waits(gpu_types=("NVIDIA-H200",)).snapshot(),
    ReasonCode.NO_BUDGET: lambda: waits(budget=None).snapshot(),
    ReasonCode.INVALID: lambda: waits(invalid="spec.template: no image").snapshot(),
    ReasonCode.NOT_STARTING: not_starting,
    ReasonCode.NOT_BELIEVED: not_believed,
    ReasonCode.NOT_RECORDED: not_recorded,
    ReasonCode.BACK_OFF: backs_off,
    ReasonCode.CLOCK_BEHIND: clock_behind,
    ReasonCode.PARENT_UNKNOWN: without_its_parent,
    ReasonCode.PLANNING_FAILED: lambda: waits(target_completion=Instant(10**400)).snapshot(),
}


@pytest.mark.parametrize("code", [code for code, meaning in REASONS.items() if meaning.needs_person])
def test_doctor_finds_the_job_of_each_reason_that_needs_a_person(code: ReasonCode) -> None:
    snapshot = WORLDS[code]()
    decided = plan_around(snapshot, Memo(), {}).plan
    verdict, job = decided.jobs[TRAIN], snapshot.jobs[TRAIN]
    assert verdict.reason.code is code
    view = job_view(job, verdict, (), snapshot)
    (found,) = check_own_jobs(OwnJobs(NAMESPACE, (OwnJob(NAMESPACE, "train", job, view),), snapshot.now))
    assert found.subject == f"TrainingJob {NAMESPACE}/train"
    assert found.remedy
