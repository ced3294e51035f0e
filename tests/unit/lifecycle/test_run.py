"""One run at a time: prepared, placed, begun, stopped, recorded, cleared away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import Mode
from charterer.domain.job import Allocation, Finish, FinishKind, Job, ResizePolicy, Run, RunOutcome, RunRecord
from charterer.domain.pod import PodPhase
from charterer.domain.pool import InstanceState
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    LabelNode,
    RecordRun,
    ResizeRun,
    RunStep,
    StopRun,
    Unsuspend,
    Wait,
)
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    allocation,
    at,
    budget,
    ended,
    instance,
    job,
    node,
    notice,
    pod,
    rental,
    run,
    snapshot,
    survey,
)

ONE = allocation("a100-1")
TWO = allocation("a100-2", run=2)
WIDE = allocation("a100-1", "a100-2")
KEY = job().run_label
MACHINES = (instance(), instance("i2"))
RENTALS = (rental("a100-1", MACHINES[0]), rental("a100-2", MACHINES[1]))
LABELLED = (node(run_labels={KEY: "r1"}), node("i2"))
SUSPENDED = run(1, suspended=True, started=None)
EVICTED = "sft-r1-0 was evicted or preempted by somebody"
FINISH = Finish(FinishKind.COMPLETE, at(100), "Completed", "")


def placed(*things: Any, nodes: Any = LABELLED, asked: float = 600, now: float = 600) -> Snapshot:
    has = {type(thing) for thing in things}
    usual = [*(() if type(RENTALS[0]) in has else RENTALS), *nodes]
    surveys = [] if type(survey()) in has else [survey(*MACHINES, asked=asked)]
    return snapshot(*things, *usual, *surveys, now=at(now))


def step(snapshot: Snapshot) -> RunStep | Wait | None:
    return run_step(next(iter(snapshot.jobs)), LifecycleView.of(snapshot))


def mine(*runs: Run, intent: Allocation | None = ONE, **changes: Any) -> Job:
    return job(allocation=intent, runs=runs, last_run=0 if intent is None else intent.run, **changes)


def record(number: int = 1, outcome: RunOutcome = RunOutcome.STOPPED) -> RunRecord:
    past = allocation("a100-1", run=number)
    return RunRecord(number, outcome, past.option, past.placements, past.since, at(1), "")


def recorded(snapshot: Snapshot) -> RecordRun:
    done = step(snapshot)
    assert isinstance(done, RecordRun), done
    return done


# --- preparing and beginning ----


def test_a_job_without_an_allocation_does_nothing() -> None:
    assert step(placed(job(), nodes=(node(),))) is None


def test_service_then_suspended_job_then_labels_then_the_pods() -> None:
    bare = (node(), node("i2"))
    assert step(placed(mine(has_service=False), nodes=bare)) == CreateService(job().id)
    assert step(placed(mine(), nodes=bare)) == CreateRun(job().id, 1)
    label = LabelNode(job().id, bare[0].name, bare[0].uid, KEY, "r1")
    assert step(placed(mine(SUSPENDED), nodes=bare)) == label
    assert step(placed(mine(SUSPENDED))) == Unsuspend(job().id, 1)


def test_a_run_begins_only_on_nodes_that_are_all_ready() -> None:
    intent = mine(SUSPENDED)
    draining = replace(RENTALS[0], phase=RentalPhase.DRAINING)
    for things in [
        (draining,),
        (replace(RENTALS[0], deleting=True),),
        (replace(RENTALS[0], phase=RentalPhase.STARTING),),
    ]:
        assert isinstance(step(placed(intent, *things)), Wait)
    unfit: list[dict[str, Any]] = [{"ready": False}, {"unschedulable": True}, {"gpus": 0}, {"foreign_gpus": 1}]
    for changes in unfit:
        assert isinstance(step(placed(intent, nodes=(node(run_labels={KEY: "r1"}, **changes),))), Wait)


def test_a_run_begins_only_when_its_gpus_are_free() -> None:
    other = job("other", allocation=allocation("a100-1"), runs=(run(1, pod(job="other"), job="other"),))
    waiting = run_step(job().id, LifecycleView.of(placed(mine(SUSPENDED), other)))
    assert isinstance(waiting, Wait)
    assert "0 are free" in waiting.reason


def test_a_job_that_no_longer_wants_to_run_is_not_begun() -> None:
    assert step(placed(mine(SUSPENDED, suspend=True))) is None
    assert step(placed(mine(invalid="no container"))) is None


def test_a_budget_that_only_observes_takes_no_step_for_its_jobs() -> None:
    assert step(placed(mine(), budget(mode=Mode.OBSERVE))) is None


# --- one run at a time ----


def moving(*runs: Run, **changes: Any) -> Job:
    return mine(*runs, intent=TWO, replaced=(ONE,), **changes)


NEXT = run(2, suspended=True, started=None)
MOVED = (node(run_labels={KEY: "r1"}), node("i2", run_labels={KEY: "r2"}))


def test_the_next_run_is_created_before_the_last_is_stopped() -> None:
    assert step(placed(moving(run(1, pod())))) == CreateRun(job().id, 2)
    assert step(placed(moving(run(1, pod()), NEXT))) == StopRun(job().id, 1)


def test_the_next_runs_nodes_are_labelled_while_the_last_one_stops() -> None:
    stopping = run(1, pod(deleting=True), suspended=True)
    done = step(placed(moving(stopping, NEXT)))
    assert isinstance(done, LabelNode)
    assert (done.node, done.value) == (LABELLED[1].name, "r2")


def test_the_next_run_waits_for_the_pods_and_the_record_of_the_last() -> None:
    bare = (node(), node("i2", run_labels={KEY: "r2"}))
    stopping = run(1, pod(deleting=True), suspended=True)
    assert isinstance(step(placed(moving(stopping, NEXT), nodes=bare)), Wait)
    stopped = run(1, pod(phase=PodPhase.FAILED, exit_code=143, finished=at(500)), suspended=True)
    done = recorded(placed(moving(stopped, NEXT), nodes=bare))
    assert (done.record.number, done.record.outcome, done.record.until) == (1, RunOutcome.STOPPED, at(500))
    assert done.finish is None
    after_it = mine(stopped, NEXT, intent=TWO, records=(record(),))
    assert step(placed(after_it, nodes=bare)) == Unsuspend(job().id, 2)


def test_a_replaced_run_that_never_had_a_job_is_recorded_at_no_time() -> None:
    done = recorded(placed(moving(NEXT)))
    assert (done.record.outcome, done.record.since, done.record.until) == (RunOutcome.STOPPED, ONE.since, ONE.since)


def test_a_run_that_status_does_not_name_is_deleted_and_waited_for() -> None:
    stray = run(3, suspended=True)
    assert step(placed(mine(SUSPENDED, stray))) == DeleteRun(job().id, 3, stray.uid)
    going = replace(stray, deleting=True, pods=(pod(run=3, deleting=True),))
    assert isinstance(step(placed(mine(SUSPENDED, going))), Wait)


def test_a_stray_of_another_shape_under_the_next_number_is_replaced() -> None:
    narrow = run(1, suspended=True, started=None, completions=1)
    assert step(placed(mine(narrow, intent=WIDE))) == DeleteRun(job().id, 1, narrow.uid)


def test_a_recorded_run_that_goes_on_is_deleted() -> None:
    again = run(1, pod())
    moved = mine(again, NEXT, intent=TWO, records=(record(),))
    assert step(placed(moved, nodes=MOVED)) == DeleteRun(job().id, 1, again.uid)


def test_a_suspended_job_is_stopped_recorded_and_stays_suspended() -> None:
    halted = mine(run(1, pod()), intent=None, replaced=(ONE,), suspend=True)
    assert step(placed(halted)) == StopRun(job().id, 1)
    stopped = run(1, suspended=True, started=None)
    assert recorded(placed(replace(halted, runs=(stopped,)), nodes=(node(),))).record.outcome is RunOutcome.STOPPED
    quiet = mine(stopped, intent=None, records=(record(),), suspend=True)
    assert step(placed(quiet, nodes=(node(),))) is None


# --- how it ended ----


def ending(*runs: Run, **changes: Any) -> Snapshot:
    asked = changes.pop("asked", 600)
    now = changes.pop("now", 600)
    return placed(mine(*runs, **changes), asked=asked, now=now)


DONE = pod(phase=PodPhase.SUCCEEDED, exit_code=0, finished=at(99))
BROKEN = pod(phase=PodPhase.FAILED, exit_code=2, finished=at(99), message="out of memory")


def test_a_run_is_complete_when_every_index_has_its_succeeded_pod() -> None:
    done = recorded(ending(run(1, DONE, complete=at(100))))
    assert (done.record.outcome, done.record.until) == (RunOutcome.COMPLETE, at(99))
    assert done.finish == Finish(FinishKind.COMPLETE, at(99), "Completed", "run 1 completed")


@pytest.mark.parametrize("proof", [(), (replace(DONE, deleting=True),), (replace(DONE, disrupted=True),)])
def test_a_job_that_kubernetes_calls_complete_without_proof_was_interrupted(proof: tuple[Any, ...]) -> None:
    waiting = step(ending(run(1, *proof, complete=at(100)), now=105))
    assert isinstance(waiting, Wait)
    assert waiting.until == at(110)
    done = recorded(ending(run(1, *proof, complete=at(100)), now=110))
    assert (done.record.outcome, done.record.until) == (RunOutcome.INTERRUPTED, at(99 if proof else 100))
    assert done.finish is None


def test_a_pod_whose_end_was_not_told_yet_is_waited_for() -> None:
    assert isinstance(step(ending(run(1, pod(), complete=at(100)))), Wait)


def test_a_failure_counts_when_its_machines_were_seen_healthy_after_it() -> None:
    failed = run(1, BROKEN, failed=at(100))
    assert isinstance(step(ending(failed, asked=106, now=106)), Wait)
    done = recorded(ending(failed, asked=107, now=107))
    assert done.record.outcome is RunOutcome.FAILED
    assert done.record.message == "pod sft-r1-0 exited with 2: out of memory"
    assert done.finish is None


def test_one_failure_more_than_the_limit_ends_the_job() -> None:
    done = recorded(ending(run(1, BROKEN, failed=at(100)), failures=1))
    assert done.finish is not None
    assert (done.finish.kind, done.finish.reason) == (FinishKind.FAILED, "BackoffLimitExceeded")
    assert "out of memory" in done.finish.message


def test_one_interruption_more_than_the_limit_ends_the_job() -> None:
    disrupted = run(1, replace(BROKEN, disrupted=True), failed=at(100))
    assert recorded(ending(disrupted, failures=1)).finish is None
    done = recorded(ending(disrupted, restarts=3))
    assert done.finish is not None
    assert done.finish.reason == "MaxRestartsExceeded"


def test_the_jobs_message_tells_of_a_disruption_whose_pod_is_gone() -> None:
    failure: dict[str, Any] = {"failed": at(100), "failed_message": "Pod x was disrupted", "failed_by_disruption": True}
    done = recorded(ending(run(1, **failure))).record
    assert (done.outcome, done.until) == (RunOutcome.INTERRUPTED, at(100))
    assert done.message == "a pod was evicted or preempted by somebody (Pod x was disrupted)"
    with_its_pod = run(1, replace(BROKEN, disrupted=True), **failure)
    assert recorded(ending(with_its_pod)).record.message == EVICTED


def test_the_rank_that_failed_first_speaks_for_the_run() -> None:
    echo = pod(1, phase=PodPhase.FAILED, exit_code=1, finished=at(100), message="peer lost")
    unknown = pod(2, phase=PodPhase.FAILED, exit_code=9)
    stopped = pod(3, phase=PodPhase.FAILED, exit_code=143, finished=at(50), deleting=True)
    aborted = pod(5, phase=PodPhase.FAILED, exit_code=134, finished=at(90), message="the coordinator is gone")
    failed = run(1, stopped, unknown, echo, aborted, replace(BROKEN, index=4, name="sft-r1-4"), failed=at(101))
    assert recorded(ending(failed)).record.message.startswith("pod sft-r1-4 exited with 2")


@pytest.mark.parametrize(
    "sick",
    [
        survey(ended(MACHINES[0], at(98)), MACHINES[1]),
        survey(replace(MACHINES[0], state=InstanceState.STOPPING), MACHINES[1]),
        survey(*MACHINES, notices=(notice("i1", 200),)),
    ],
)
def test_a_failure_on_a_machine_that_was_not_well_is_an_interruption(sick: Any) -> None:
    failing = mine(run(1, BROKEN, failed=at(100)))
    assert recorded(placed(failing, sick)).record.outcome is RunOutcome.INTERRUPTED


def test_a_failure_on_a_node_that_is_not_ready_is_an_interruption() -> None:
    failing = mine(run(1, BROKEN, failed=at(100)))
    unwell = (node(ready=False, run_labels={KEY: "r1"}),)
    assert recorded(placed(failing, nodes=unwell)).record.outcome is RunOutcome.INTERRUPTED


def test_a_cloud_that_does_not_answer_delays_the_record_for_a_while_only() -> None:
    failed = run(1, BROKEN, failed=at(100))
    assert isinstance(step(ending(failed, asked=50, now=699)), Wait)
    assert recorded(ending(failed, asked=50, now=700)).record.outcome is RunOutcome.INTERRUPTED


def test_a_run_stopped_because_its_machine_was_lost_was_interrupted() -> None:
    stopped = run(1, suspended=True, started=None)
    lost = replace(RENTALS[0], phase=RentalPhase.ENDED, ended=at(90))
    done = recorded(placed(moving(stopped, NEXT), lost, RENTALS[1], nodes=MOVED))
    assert done.record.message == "the machine of a100-1 has ended"
    shot = run(1, pod(phase=PodPhase.FAILED, disrupted=True, finished=at(90)), suspended=True)
    assert recorded(placed(moving(shot, NEXT), nodes=MOVED)).record.message == EVICTED


def test_a_replaced_run_that_completed_meanwhile_ends_the_job_and_the_next_never_begins() -> None:
    complete = run(1, DONE, complete=at(100))
    done = recorded(placed(moving(complete, NEXT), nodes=MOVED))
    assert done.finish is not None
    over = mine(complete, NEXT, intent=TWO, records=(record(1, RunOutcome.COMPLETE),), finish=FINISH)
    dropped = step(placed(over, nodes=MOVED))
    assert isinstance(dropped, RecordRun)
    assert (dropped.record.number, dropped.record.outcome, dropped.finish) == (2, RunOutcome.STOPPED, None)


# --- in place ----


def elastic(current: Run, intent: Allocation) -> Job:
    return mine(current, intent=intent, resize=ResizePolicy.IN_PLACE)


def test_a_run_grows_in_place_once_its_new_nodes_are_ready_and_tells_all_pods() -> None:
    half = run(1, pod(allocation=ONE.annotation))
    both = (LABELLED[0], node("i2", run_labels={KEY: "r1"}))
    assert isinstance(step(placed(elastic(half, WIDE))), LabelNode)
    assert step(placed(elastic(half, WIDE), nodes=both)) == ResizeRun(job().id, 1, 2)
    unready = (LABELLED[0], node("i2", run_labels={KEY: "r1"}, ready=False))
    assert isinstance(step(placed(elastic(half, WIDE), nodes=unready)), Wait)
    grown = replace(half, completions=2)
    told = step(placed(elastic(grown, WIDE), nodes=both))
    assert told == AnnotatePod(job().id, half.pods[0], WIDE.annotation)


def test_a_run_shrinks_in_place_before_its_node_loses_the_label() -> None:
    full = run(1, pod(allocation=ONE.annotation), pod(1, node=LABELLED[1].name, allocation=ONE.annotation))
    both = (LABELLED[0], node("i2", run_labels={KEY: "r1"}))
    assert step(placed(elastic(full, ONE), nodes=both)) == ResizeRun(job().id, 1, 1)
    shrunk = replace(full, completions=1)
    done = step(placed(elastic(shrunk, ONE), nodes=both))
    assert done == LabelNode(job().id, both[1].name, both[1].uid, KEY, None)


def test_a_run_that_runs_as_intended_needs_nothing() -> None:
    assert step(placed(mine(run(1, pod(allocation=ONE.annotation))))) is None


# --- afterwards ----


def test_labels_and_recorded_runs_go_but_the_last_job_stays_for_its_logs() -> None:
    first, last = run(1, suspended=True), run(2, DONE, complete=at(100))
    over = mine(first, last, intent=None, records=(record(1), record(2, RunOutcome.COMPLETE)), finish=FINISH)
    assert isinstance(step(placed(over)), LabelNode)
    bare = (node(),)
    assert step(placed(over, nodes=bare)) == DeleteRun(job().id, 1, first.uid)
    assert step(placed(replace(over, runs=(last,)), nodes=bare)) is None


def test_a_label_goes_half_a_minute_after_its_run_or_with_the_node_of_a_machine_that_is_given_back() -> None:
    ended = replace(record(1, RunOutcome.COMPLETE), until=at(595))
    over = mine(intent=None, records=(ended,), finish=FINISH)
    waiting = step(placed(over))
    assert isinstance(waiting, Wait)
    assert waiting.until == at(625)
    assert isinstance(step(placed(over, now=625)), LabelNode)
    going = (node(run_labels={KEY: "r1"}, cordoned_for=RENTALS[0].uid, unschedulable=True),)
    assert step(placed(over, nodes=going, now=625)) is None


def test_a_run_that_was_never_begun_does_not_push_out_the_logs_of_the_one_that_finished() -> None:
    done, unused = run(1, DONE, complete=at(100)), run(2, suspended=True, started=None)
    over = mine(done, unused, intent=None, records=(record(1, RunOutcome.COMPLETE), record(2)), finish=FINISH)
    assert step(placed(over, nodes=(node(),))) == DeleteRun(job().id, 2, unused.uid)


def test_the_last_runs_job_goes_when_the_next_has_begun() -> None:
    old, new = run(1, suspended=True), run(2, pod(run=2, allocation=TWO.annotation))
    moved = mine(old, new, intent=TWO, records=(record(),))
    bare = (node(), node("i2", run_labels={KEY: "r2"}))
    assert step(placed(moved, nodes=bare)) == DeleteRun(job().id, 1, old.uid)


def test_a_finished_job_is_deleted_when_its_time_to_live_has_passed() -> None:
    over = mine(intent=None, finish=FINISH, ttl_seconds_after_finished=500)
    waiting = step(placed(over, nodes=(), now=599))
    assert isinstance(waiting, Wait)
    assert waiting.until == at(600)
    assert step(placed(over, nodes=())) == DeleteJob(job().id)


def test_a_label_left_on_a_node_is_taken_off_also_from_a_job_that_only_waits() -> None:
    assert isinstance(step(placed(job())), LabelNode)
