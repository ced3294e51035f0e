"""Objects that teams already had: which are adopted, what their jobs do next, and how they are given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import Mode
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId
from charterer.domain.job import Finish, FinishKind, Job, ResizePolicy, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import AdoptionCandidate, Snapshot, Stop
from charterer.domain.steps import (
    AdoptTarget,
    CreateRun,
    EditJob,
    EndTarget,
    FinishJob,
    GiveBack,
    LetGo,
    RecordRun,
    RunStep,
    StopRun,
    Wait,
)
from charterer.domain.target import Asked, Target, TargetRef
from charterer.lifecycle.adopted import adopt_step, not_adopted_because
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import TEAM, allocation, at, budget, job, node, pod, rental, run, snapshot

REF = TargetRef("batch/v1", "Job", "sft", "object-1")
QUEUED = REF._replace(queued=True)
SUSPENDED = Target(REF, "research", "7", at(0), suspended=True, placeable=True, held=True)
ONE = allocation("a100-1")
OBSERVES = budget(mode=Mode.OBSERVE)
FINISH = Finish(FinishKind.COMPLETE, at(100), "Completed", "")
LEAVING = f"{REF} is gone, or has not the label any more"
UNPAID = f"GPUBudget {TEAM} only observes"


def target(**changes: Any) -> Target:
    """The object, held by the chart's policy and never placed."""
    return replace(SUSPENDED, **changes)


def carrying(number: int = 1, **changes: Any) -> Target:
    """The object that runs as this run of its job."""
    return target(**{"suspended": False, "placeable": False, "job": job().id, "run": number, **changes})


def adopted(carried: Target | None, **changes: Any) -> Job:
    """The object's TrainingJob."""
    return job(target=REF, adopted=carried, **changes)


def placed(carried: Target | None, *pods: Any, **changes: Any) -> Job:
    """The same with run 1, which the object carries while it is there."""
    runs = () if carried is None else (run(1, *pods, suspended=carried.suspended),)
    return adopted(carried, **{"allocation": ONE, "last_run": 1, "runs": runs, **changes})


def recorded(**changes: Any) -> Job:
    """The same after run 1."""
    record = RunRecord(1, RunOutcome.STOPPED, ONE.option, ONE.placements, ONE.since, at(1), "")
    return adopted(changes.pop("carried", carrying(suspended=True)), **{"records": (record,), "last_run": 1, **changes})


def step(mine: Job, *things: Any, **world: Any) -> RunStep | Wait | None:
    """The job's next step, on a rental whose use is on record as its jobs tell."""
    seen = replace(snapshot(mine, rental("a100-1"), node(), *things), **world)
    view = LifecycleView.of(seen)
    return run_step(mine.id, replace(view, settled=dict.fromkeys(view.settled, True)))


# --- candidates ---


def decided(candidate: Target, *things: Any, paid: bool = True, **world: Any) -> tuple[object, str]:
    """The step for an object without a TrainingJob, and why it gets none."""
    seen: Snapshot = replace(snapshot(*things), **world)
    offered = AdoptionCandidate(candidate, TEAM if paid else None)
    return adopt_step(offered, LifecycleView.of(seen)), not_adopted_because(offered, seen)


@pytest.mark.parametrize(
    "candidate",
    [
        SUSPENDED,
        target(held=False),
        target(suspended=False, held=False),
        target(suspended=False, begun=True),  # it was placed once, and lost its TrainingJob
    ],
    ids=["held", "suspended by its author", "not begun", "was placed"],
)
def test_a_job_is_made_for_an_object_that_somebody_pays_for(candidate: Target) -> None:
    assert decided(candidate) == (AdoptTarget(candidate), "")


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (target(deleting=True), "it has ended"),
        (target(complete=at(1)), "it has ended"),
        (target(failed=at(1)), "it has ended"),
        (target(problem="2 groups"), "2 groups"),
        (target(suspended=False, held=False, begun=True), "it runs already"),
    ],
)
def test_what_has_ended_runs_already_or_cannot_be_carried_out_stays_as_it_is(candidate: Target, why: str) -> None:
    done, said = decided(candidate)
    assert done is None
    assert said.startswith(why)


@pytest.mark.parametrize("problem", ["", "2 groups"])
@pytest.mark.parametrize(
    ("things", "paid", "world", "why"),
    [
        ((), False, {}, "no GPUBudget selects namespace research"),
        ((OBSERVES,), True, {}, UNPAID),
        ((), True, {"stop": Stop.DRAIN}, "all that is rented is being ended"),
    ],
    ids=["nobody", "observes", "drained"],
)
def test_what_is_held_and_nobody_pays_for_is_let_go_also_where_it_cannot_be_adopted(
    things: Any, paid: bool, world: Any, why: str, problem: str
) -> None:
    held = target(problem=problem)
    done, said = decided(held, *things, paid=paid, **world)
    assert done == LetGo(held)
    assert said.startswith(problem or why)
    for other in (replace(held, held=False), replace(held, deleting=True), replace(held, complete=at(1))):
        assert decided(other, *things, paid=paid, **world)[0] is None


NOT_ADOPTED = "this operator adopts no Jobs (chart value adoption.kinds)"


def test_an_object_of_a_kind_that_the_operator_is_not_to_adopt_is_left_alone_and_let_go_where_it_is_held() -> None:
    without: Any = {"not_adopted": frozenset({"Job"})}
    assert decided(SUSPENDED, **without) == (LetGo(SUSPENDED), NOT_ADOPTED)
    assert decided(target(suspended=False, held=False), **without) == (None, NOT_ADOPTED)
    assert decided(SUSPENDED, not_adopted=frozenset({"RayJob"})) == (AdoptTarget(SUSPENDED), "")
    queued = target(ref=QUEUED, held=False)
    assert decided(queued, **without) == (AdoptTarget(queued), "")


def test_what_was_adopted_before_is_given_back_once_its_kind_is_not_to_be_adopted() -> None:
    without: Any = {"not_adopted": frozenset({"Job"})}
    assert step(adopted(target()), **without) == GiveBack(job().id, NOT_ADOPTED)
    assert step(placed(carrying()), **without) == StopRun(job().id, 1)
    assert step(adopted(None), **without) == GiveBack(
        job().id, NOT_ADOPTED
    )  # what may not be read is not taken for gone


def test_while_a_budget_cannot_be_read_nothing_is_let_go() -> None:
    unread = Problem("GPUBudget", "", "team", "spec", "InvalidSpec", "")
    assert decided(SUSPENDED, paid=False, problems=(unread,))[0] is None
    assert step(recorded(budget=None), problems=(unread,)) is None


def test_renting_alone_may_be_stopped_without_giving_anything_back() -> None:
    assert decided(SUSPENDED, stop=Stop.RENT) == (AdoptTarget(SUSPENDED), "")


# --- jobs of objects that stay adopted ---


def test_what_its_author_asks_for_later_is_written_into_the_job_once() -> None:
    same = Asked(4, 4, 16, ResizePolicy.RESTART, "Never", None, None, "", suspend=False, template="")
    assert step(adopted(target(asked=same))) is None
    assert step(adopted(target(asked=None))) is None  # what cannot be read changes nothing
    changes: list[dict[str, Any]] = [
        {"most": 8},
        {"resize": "Never"},
        {"spot": "Allowed"},
        {"max_cost": Money.parse("5")},
        {"complete_by": at(9)},
        {"profile": "sft"},
        {"suspend": True},
        {"template": "another"},
    ]
    for change in changes:
        asks = target(asked=same._replace(**change))
        assert step(adopted(asks)) == EditJob(job().id)
        assert step(adopted(asks, finish=FINISH)) is None


@pytest.mark.parametrize(
    ("ended", "finish"),
    [
        ({"complete": at(5)}, (FinishKind.COMPLETE, "Completed", "its object is complete")),
        (
            {"failed": at(5), "failed_message": "DeadlineExceeded: too long"},
            (FinishKind.FAILED, "DeadlineExceeded", "its object has failed: DeadlineExceeded: too long"),
        ),
    ],
)
def test_a_job_without_a_run_is_finished_with_its_object(ended: dict[str, Any], finish: tuple[object, ...]) -> None:
    done = step(adopted(target(**ended)))
    assert isinstance(done, FinishJob)
    assert (done.finish.kind, done.finish.reason, done.finish.message) == finish
    assert step(adopted(target(**ended), finish=FINISH)) is None


def test_a_job_with_a_run_is_finished_by_the_record_of_that_run() -> None:
    ends = carrying(complete=at(99))
    over = run(1, pod(phase=PodPhase.SUCCEEDED, exit_code=0, finished=at(99)), complete=at(99))
    done = step(adopted(ends, allocation=ONE, last_run=1, runs=(over,)))
    assert isinstance(done, RecordRun)
    assert (done.record.outcome, done.finish is not None) == (RunOutcome.COMPLETE, True)


@pytest.mark.parametrize("foreign", ["", "of-another-job"])
def test_an_object_that_runs_as_no_run_of_its_job_is_stopped(foreign: str) -> None:
    """Somebody started it, or wrote the labels of another job's run into its template."""
    runs = carrying(3, job=JobId(foreign))
    assert step(adopted(runs)) == StopRun(job().id, 3)
    assert step(adopted(runs, allocation=ONE, last_run=1)) == StopRun(job().id, 3)


def test_the_next_run_waits_until_the_object_can_take_it() -> None:
    assert step(adopted(SUSPENDED, allocation=ONE, last_run=1)) == CreateRun(job().id, 1)
    closed = step(adopted(target(placeable=False), allocation=ONE, last_run=1))
    assert isinstance(closed, Wait)
    assert closed.reason.startswith("the scheduling fields of Job sft to open")
    assert step(adopted(target(problem="2 groups"), allocation=ONE, last_run=1)) is None  # the plan takes it away


# --- what is given up ---

GIVEN_UP = Finish(FinishKind.FAILED, at(100), "CannotStart", "3 runs in a row never started")


def test_the_object_of_a_job_that_is_given_up_is_ended_once_its_last_run_is_on_record() -> None:
    runs = placed(carrying(), pod(), finish=GIVEN_UP)
    assert step(runs) == StopRun(job().id, 1)
    stops = placed(carrying(suspended=True), pod(deleting=True), finish=GIVEN_UP)
    assert isinstance(step(stops), Wait)
    assert isinstance(step(recorded(finish=GIVEN_UP, carried=carrying(suspended=True, placeable=True))), EndTarget)
    assert isinstance(step(recorded(finish=GIVEN_UP)), Wait)  # its last pods end


@pytest.mark.parametrize(
    "carried",
    [
        pytest.param(carrying(suspended=True, failed=at(2)), id="has an end"),
        pytest.param(target(suspended=False, placeable=False, held=False), id="its author has it"),
        pytest.param(
            carrying(suspended=True, placeable=True, ref=REF._replace(queued=True), workload="w"), id="Kueue's"
        ),
    ],
)
def test_an_object_that_needs_no_end_of_charterers_is_left_alone(carried: Target) -> None:
    taken = StopRun(job().id, 1) if not carried.suspended and carried.held else None
    assert step(recorded(finish=GIVEN_UP, carried=carried)) == taken


def test_an_object_that_its_controller_ends_is_not_suspended_again() -> None:
    """A Job that is suspended has no deadline."""
    ends = recorded(finish=GIVEN_UP, carried=carrying(ending=True), runs=(run(1),))
    assert isinstance(step(ends), Wait)
    assert step(recorded(finish=GIVEN_UP, carried=carrying(), runs=(run(1),))) == StopRun(job().id, 1)


# --- giving back ---

ENDS: list[Any] = [
    pytest.param((OBSERVES,), {}, UNPAID, id="observe"),
    pytest.param((), {"stop": Stop.DRAIN}, "all that is rented is being ended (charterer stop --drain)", id="drain"),
]


@pytest.mark.parametrize(("things", "world", "because"), ENDS)
def test_what_runs_is_stopped_then_recorded_then_given_back(things: Any, world: Any, because: str) -> None:
    mine = job().id
    assert step(placed(carrying(), pod()), *things, **world) == StopRun(mine, 1)
    stopped = carrying(suspended=True)
    assert isinstance(step(placed(stopped, pod(deleting=True)), *things, **world), Wait)
    done = step(placed(stopped, pod(phase=PodPhase.FAILED, exit_code=143, finished=at(50))), *things, **world)
    assert isinstance(done, RecordRun)
    assert (done.record.number, done.record.outcome) == (1, RunOutcome.STOPPED)
    assert step(recorded(), *things, **world) == GiveBack(mine, because)
    assert step(adopted(SUSPENDED), *things, **world) == GiveBack(mine, because)


@pytest.mark.parametrize(("things", "world", "because"), ENDS)
def test_what_has_ended_by_its_own_word_keeps_its_job_as_a_record(things: Any, world: Any, because: str) -> None:
    assert step(recorded(carried=carrying(complete=at(2)), finish=FINISH), *things, **world) is None
    risen = recorded(carried=carrying(suspended=True), finish=FINISH)
    assert step(risen, *things, **world) == GiveBack(job().id, because)


def test_an_object_that_is_its_authors_again_is_not_stopped_once_more() -> None:
    """The process died after the object was given back and before its TrainingJob was deleted."""
    free = target(suspended=False, placeable=False, held=False)
    assert step(recorded(carried=free), OBSERVES) == GiveBack(job().id, UNPAID)


def test_an_object_without_its_label_or_that_is_gone_has_its_run_recorded_by_the_same_step() -> None:
    done = step(placed(None))
    assert isinstance(done, GiveBack)
    assert (done.because, done.record is not None and done.record.record.number) == (LEAVING, 1)
    assert isinstance(step(recorded(carried=None)), GiveBack)
    assert step(recorded(carried=None, finish=FINISH)) is None


def test_a_former_run_is_recorded_before_the_latest() -> None:
    two = allocation("a100-1", run=2)
    leaving = adopted(None, allocation=two, replaced=(ONE,), last_run=2)
    first = step(leaving)
    assert isinstance(first, GiveBack)
    assert first.record is not None
    assert first.record.record.number == 1


def test_the_job_stays_until_what_its_machines_were_used_for_is_on_record() -> None:
    mine = recorded(carried=None)
    view = LifecycleView.of(snapshot(mine, rental("a100-1"), node()))
    untold = run_step(mine.id, replace(view, settled={rental("a100-1").id: False}))
    assert isinstance(untold, Wait)
    assert "GPURental a100-1" in untold.reason
    observing = LifecycleView.of(snapshot(mine, rental("a100-1"), node(), OBSERVES))
    unsettled = replace(observing, settled={rental("a100-1").id: False})
    assert run_step(mine.id, unsettled) == GiveBack(mine.id, LEAVING)  # nothing is recorded where nothing is written
