"""A run that is resized in place: which of its pods should train together, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import Allocation, Job, ResizePolicy, Run, RunOutcome, TrainingGroup, first_group
from charterer.domain.pod import PodPhase
from charterer.domain.reports import Progress
from charterer.domain.steps import RecordGroup, RecordRun, ResizeRun, RunStep, Wait
from charterer.lifecycle.run import RETRIES, group_step, run_step, steady
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, pod, rental, run, snapshot, survey

ONE = allocation("a100-1")
TWO = allocation("a100-1", "a100-2")
THREE = allocation("a100-1", "a100-2", "a100-3")


def says(generation: int, seconds: float = 50) -> Progress:
    return Progress(1, 0.5, None, None, at(seconds), generation)


def pods_of(*indexes: int, **changes: Any) -> tuple[Any, ...]:
    return tuple(pod(index, **changes) for index in indexes)


def formed(pods: int, generation: int = 1, **changes: Any) -> TrainingGroup:
    """A group whose leader said that it trains."""
    uids = {index: pod(index).uid for index in range(pods)}
    group = first_group(1, pods, at(0), None).trained(generation, uids)
    return replace(group, **({"generation": generation, "since": at(10), "by": at(70)} | changes))


def elastic(
    current: Run, intent: Allocation, group: TrainingGroup | None, former: Allocation | None = None, **more: Any
) -> Job:
    fields: dict[str, Any] = {
        "allocation": intent,
        "runs": (current,),
        "last_run": 1,
        "group": group,
        "resized_from": former,
    }
    return job(resize=ResizePolicy.IN_PLACE, **(fields | more))


def step(mine: Job, obstacle: str = "", now: float = 100) -> RunStep | Wait | None:
    assert mine.allocation is not None
    return group_step(mine, mine.allocation, mine.runs[0], obstacle, at(now))


def recorded(mine: Job, **how: Any) -> TrainingGroup:
    done = step(mine, **how)
    assert isinstance(done, RecordGroup), done
    return done.group


def test_a_trainer_that_names_no_group_has_its_width_changed_at_once() -> None:
    current = run(1, *pods_of(0, 1))
    mine = elastic(current, THREE, first_group(1, 2, at(0), None))
    assert step(mine) == ResizeRun(mine.id, 1, 3)
    assert step(mine, obstacle="a node") == Wait("a node")
    grown = replace(mine, runs=(replace(current, completions=3),))
    group = recorded(grown)
    assert (group.generation, group.indexes, group.formed, group.pending) == (2, (0, 1, 2), 0, False)
    assert step(replace(grown, group=group)) is None
    assert step(replace(mine, allocation=ONE)) == ResizeRun(mine.id, 1, 1)


def test_the_first_generation_that_a_leader_names_is_recorded_with_its_pods() -> None:
    mine = elastic(run(1, *pods_of(0, 1)), TWO, first_group(1, 2, at(0), None), progress=says(1))
    assert not steady(mine, TWO, mine.runs[0])
    group = recorded(mine)
    assert (group.formed, group.reports, group.indexes) == (1, True, (0, 1))
    assert not group.lacks({0: pod(0).uid, 1: pod(1).uid})
    assert group.lacks({0: pod(0).uid, 1: "another"}) == {1}
    after = replace(mine, group=group)
    assert step(after) is None
    assert steady(after, TWO, after.runs[0])


def test_wider_pods_are_made_then_asked_to_join_and_count_when_the_leader_trains_with_them() -> None:
    current = run(1, *pods_of(0, 1))
    mine = elastic(current, THREE, formed(2), TWO, progress=says(1))
    assert step(mine, obstacle="a node") == Wait("a node")
    assert step(mine) == ResizeRun(mine.id, 1, 3, RETRIES)
    mine = replace(mine, runs=(replace(current, completions=3, retries=RETRIES),))
    assert step(mine) == Wait("sft-r1-2 to be made")
    grown = replace(current, completions=3, retries=RETRIES, pods=pods_of(0, 1, 2))
    mine = replace(mine, runs=(grown,))
    group = recorded(mine)
    assert (group.generation, group.indexes, group.formed, group.by) == (2, (0, 1, 2), 1, at(700))
    mine = replace(mine, group=group)
    waits = step(mine)
    assert isinstance(waits, Wait)
    assert waits.until == at(700)
    counts = step(replace(mine, progress=says(2, 120)))
    assert counts == RecordGroup(mine.id, replace(group, formed=2), counts=True)
    mine = replace(mine, group=replace(group, formed=2), resized_from=None, progress=says(2, 120))
    assert step(mine) == ResizeRun(mine.id, 1, 3, 0)
    strict = replace(grown, retries=0)
    assert step(replace(mine, runs=(strict,))) is None


def test_narrower_the_highest_indexes_leave_the_group_before_their_pods_end() -> None:
    mine = elastic(run(1, *pods_of(0, 1, 2)), ONE, formed(3), THREE, progress=says(1))
    group = recorded(mine)
    assert (group.generation, group.indexes, group.by) == (2, (0,), at(160))
    mine = replace(mine, group=group)
    assert isinstance(step(mine), Wait)
    mine = replace(mine, progress=says(2, 120))
    assert step(mine) == RecordGroup(mine.id, replace(group, formed=2), counts=True)
    mine = replace(mine, group=replace(group, formed=2), resized_from=None)
    assert step(mine) == ResizeRun(mine.id, 1, 1, 0)


def test_a_report_from_before_the_change_says_nothing_of_it() -> None:
    again = formed(2).started_again(2, at(100))
    mine = elastic(run(1, *pods_of(0, 1)), TWO, again, progress=says(1))
    assert step(mine) is None


def test_a_change_that_is_given_up_leads_back_by_a_higher_generation() -> None:
    grown = run(1, *pods_of(0, 1, 2), completions=3, retries=RETRIES)
    asked = formed(2).followed_by({index: pod(index).uid for index in range(3)}, at(100), 600)
    mine = elastic(grown, TWO, asked, TWO, progress=says(1))
    group = recorded(mine, now=700)
    assert (group.generation, group.indexes, group.formed) == (3, (0, 1), 1)
    mine = replace(mine, group=group)
    assert isinstance(step(mine, now=701), Wait)
    late = replace(mine, progress=says(2, 702))  # it had just begun to train with all three
    assert step(late) == RecordGroup(mine.id, replace(group, formed=2), counts=False)
    back = replace(mine, progress=says(3, 702))
    assert step(back) == RecordGroup(mine.id, replace(group, formed=3), counts=True)


def test_a_change_that_is_given_up_before_any_pod_was_asked_needs_no_new_group() -> None:
    grown = run(1, *pods_of(0, 1), completions=3, retries=RETRIES)
    mine = elastic(grown, TWO, formed(2), TWO, progress=says(1))
    assert step(mine) == ResizeRun(mine.id, 1, 2, 0)
    shrunk = replace(mine, runs=(replace(grown, completions=2, retries=0),))
    assert step(shrunk) == RecordGroup(mine.id, formed(2), counts=True)


def test_a_pod_that_joins_and_dies_is_left_out() -> None:
    asked = formed(2).followed_by({index: pod(index).uid for index in range(3)}, at(100), 600)
    dead = (*pods_of(0, 1), pod(2, phase=PodPhase.FAILED, exit_code=1))
    mine = elastic(run(1, *dead, retries=RETRIES - 1), THREE, asked, TWO, progress=says(1))
    group = recorded(mine)
    assert (group.generation, group.indexes) == (3, (0, 1))


def test_the_others_train_on_without_a_lost_pod_whose_index_joins_again_later() -> None:
    lost = run(1, pod(0, uid="new"), pod(1), pod(2))
    mine = elastic(lost, THREE, formed(3), progress=says(1))
    assert not steady(mine, THREE, lost)
    group = recorded(mine)
    assert (group.generation, group.indexes) == (2, (1, 2))
    mine = replace(mine, group=replace(group, formed=2), progress=says(2, 120))
    assert step(mine) == ResizeRun(mine.id, 1, 3, RETRIES)
    lenient = replace(lost, retries=RETRIES)
    again = recorded(replace(mine, runs=(lenient,)))
    assert (again.generation, again.indexes, again.uids[0]) == (3, (0, 1, 2), "new")


def test_pods_that_are_all_new_form_a_group_as_at_the_beginning() -> None:
    mine = elastic(run(1, pod(0, uid="new"), pod(1, uid="newer")), TWO, formed(2), progress=says(1))
    group = recorded(mine)
    assert (group.generation, group.indexes, group.formed, group.reports) == (2, (0, 1), 0, True)


@pytest.mark.parametrize(
    ("codes", "reports", "outcome"),
    [
        ((75, 75), True, RunOutcome.INTERRUPTED),
        ((75, 1), True, RunOutcome.FAILED),
        ((75, 75), False, RunOutcome.FAILED),
    ],
)
def test_pods_that_ask_for_a_restart_interrupt_the_run_unless_another_failed(
    codes: tuple[int, int], reports: bool, outcome: RunOutcome
) -> None:
    ended = [pod(index, phase=PodPhase.FAILED, exit_code=code) for index, code in enumerate(codes)]
    failed = run(1, *ended, failed=at(100))
    group = replace(formed(2), reports=reports)
    machines = (instance(), instance("i2"))
    rentals = (rental("a100-1", machines[0]), rental("a100-2", machines[1]))
    labels = {job().run_label: "r1"}
    nodes = (node(run_labels=labels), node("i2", run_labels=labels))
    mine = elastic(failed, TWO, group, max_restarts=0)
    world = snapshot(mine, *rentals, *nodes, survey(*machines, asked=600), now=at(600))
    done = run_step(mine.id, LifecycleView.of(world))
    assert isinstance(done, RecordRun)
    assert done.record.outcome is outcome
    if outcome is RunOutcome.INTERRUPTED:  # a trainer that never forms a group must come to an end
        assert done.finish is not None
        assert done.finish.reason == "MaxRestartsExceeded"
