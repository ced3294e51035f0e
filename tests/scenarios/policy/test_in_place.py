"""Jobs that form their groups themselves, as short stories: when the plan resizes them, and gives that up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, NodeName
from charterer.domain.job import Allocation, Job, ResizePolicy, TrainingGroup, Widths, first_group
from charterer.domain.plan import Allocate, Plan, ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.time import after
from charterer.policy import plan
from charterer.policy.options.speeds import backoff_seconds
from tests.scenarios.policy.stories import WIDE, simple, why
from tests.worlds import World

TRAIN = JobId("train")


def training(nodes: int, gpus_free: int = 2) -> World:
    """A job that trains on so many whole nodes as its first group, with others that are ready."""
    world = simple(amount="46080")
    for _ in range(nodes + gpus_free):
        world.rental(age=0.0)
    world.job("train", gpus=WIDE, profile="sft", resize=ResizePolicy.IN_PLACE, hours_left=40.0)
    names = [f"a100-{number}" for number in range(1, nodes + 1)]
    world.runs_on("train", *names, gpus=8 * nodes, speed=(8 * nodes) ** 0.9)
    pods = {pod.index: pod.uid for pod in world.jobs[TRAIN].runs[0].pods}
    _change(world, group=first_group(1, nodes, world.now, None).trained(1, pods), widths=Widths(8, 8, 24))
    return world


def _change(world: World, **fields: object) -> None:
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], **fields)  # type: ignore[arg-type]


def _allocated(decided: Plan) -> Allocation:
    (given,) = [item.allocation for item in decided.commands if isinstance(item, Allocate)]
    assert given is not None
    return given


def widening(world: World) -> Job:
    """The job once the plan has widened it, all its pods run, and they were asked to form the next group."""
    former, wider = world.jobs[TRAIN].allocation, _allocated(plan(world.snapshot()))
    assert former is not None
    _change(world, allocation=wider, resized_from=former)
    world.starts("train")
    pods = {pod.index: pod.uid for pod in world.jobs[TRAIN].runs[0].pods}
    group = world.jobs[TRAIN].group
    assert group is not None
    _change(world, group=group.followed_by(pods, world.now, world.jobs[TRAIN].ready_timeout_seconds))
    return world.jobs[TRAIN]


def test_a_job_on_one_node_is_widened_in_place_once_its_trainer_names_its_groups() -> None:
    world = training(1)
    wider = _allocated(plan(world.snapshot()))
    assert (wider.run, len(wider.placements)) == (1, 3)
    silent = world.jobs[TRAIN].group
    assert silent is not None
    for group in (None, replace(silent, formed=0)):  # it never named one, or not in this run
        _change(world, group=group)
        assert _allocated(plan(world.snapshot())).run == 2


def test_a_job_whose_pods_still_join_is_left_alone_and_looked_at_when_their_time_is_over() -> None:
    world = training(1)
    job = widening(world)
    assert job.allocation is not None
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at is not None
    assert decided.again_at <= after(job.allocation.since, job.ready_timeout_seconds)


def test_pods_that_do_not_join_in_time_are_given_up_and_not_asked_for_again_for_an_hour() -> None:
    world = training(1)
    former = world.jobs[TRAIN].allocation
    widening(world)
    world.passes(world.jobs[TRAIN].ready_timeout_seconds)
    decided = plan(world.snapshot())
    back = _allocated(decided)
    assert former is not None
    assert (back.run, back.option, back.placements) == (1, former.option, former.placements)
    assert why(decided, "train") is ReasonCode.NOT_REGROUPED
    group = world.jobs[TRAIN].group
    assert group is not None
    back_again = replace(
        group, generation=3, indexes=(0,), uids=group.uids[:1], formed=3, withdrawn=1, withdrawn_at=world.now
    )
    _change(world, allocation=back, resized_from=None, group=back_again)
    world.starts("train")
    assert not [item for item in plan(world.snapshot()).commands if isinstance(item, Allocate)]
    world.passes(backoff_seconds(1))
    assert len(_allocated(plan(world.snapshot())).placements) > 1


def test_a_job_whose_joining_pods_were_given_up_goes_on_until_the_group_without_them_is_asked_for() -> None:
    """The plan may be made again before that is on record."""
    world = training(1)
    former = world.jobs[TRAIN].allocation
    widening(world)
    world.passes(world.jobs[TRAIN].ready_timeout_seconds)
    back = _allocated(plan(world.snapshot()))
    _change(world, allocation=back, resized_from=former)
    assert world.jobs[TRAIN].group is not None
    assert not [item for item in plan(world.snapshot()).commands if isinstance(item, Allocate)]


@pytest.mark.parametrize("told", [0.0, -0.9])
def test_a_pod_that_fails_while_it_joins_ends_the_wait_at_once(told: float) -> None:
    """Kubernetes tells in whole seconds when it failed, so that may be before the allocation."""
    world = training(1)
    former = world.jobs[TRAIN].allocation
    job = widening(world)
    run = job.runs[0]
    failed = [
        replace(pod, phase=PodPhase.FAILED, exit_code=1, finished=after(world.now, told)) if pod.index == 1 else pod
        for pod in run.pods
    ]
    _change(world, runs=(replace(run, pods=tuple(failed)),))
    back = _allocated(plan(world.snapshot()))
    assert former is not None
    assert back.placements == former.placements


def test_a_group_that_only_loses_members_and_is_not_formed_in_time_starts_again() -> None:
    world = training(3, gpus_free=0)
    job = world.jobs[TRAIN]
    group, former = job.group, job.allocation
    assert group is not None
    assert former is not None
    narrower = replace(former, option=replace(former.option, gpus=16), placements=former.placements[:2])
    asked = group.followed_by({0: job.runs[0].pods[0].uid, 1: job.runs[0].pods[1].uid}, world.now, 60.0)
    _change(world, allocation=narrower, resized_from=former, group=asked, widths=Widths(8, 16, 16))
    world.passes(59.0)
    assert not [item for item in plan(world.snapshot()).commands if isinstance(item, Allocate)]
    world.passes(1.0)
    again = _allocated(plan(world.snapshot()))
    assert again.run == 2


def test_a_narrower_run_keeps_the_nodes_on_which_its_lowest_indexes_are() -> None:
    world = training(3, gpus_free=0)
    job = world.jobs[TRAIN]
    run = job.runs[0]
    nodes: list[NodeName | None] = [pod.node for pod in run.pods]
    turned = tuple(replace(pod, node=nodes[2 - pod.index]) for pod in run.pods)
    _change(world, runs=(replace(run, pods=turned),), widths=Widths(8, 16, 16))
    narrower = _allocated(plan(world.snapshot()))
    assert narrower.run == 1
    assert [place.rental for place in narrower.placements] == ["a100-3", "a100-2"]


def test_a_job_trains_with_its_former_width_until_its_group_is_formed() -> None:
    world = training(1)
    job = widening(world)
    assert job.regroups
    assert job.trains_on is job.resized_from
    group = job.group
    assert isinstance(group, TrainingGroup)
    formed = replace(job, group=replace(group, formed=group.generation), resized_from=None)
    assert not formed.regroups
    assert formed.trains_on is formed.allocation
