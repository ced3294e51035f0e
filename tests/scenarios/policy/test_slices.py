"""Jobs on MIG slices, as short stories: a slice is a GPU of a smaller type that a job has to ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.plan import ReasonCode
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.policy import plan
from charterer.policy.planner import solve_budgets, unused
from tests.scenarios.policy.stories import placed, rents
from tests.worlds import World

A100 = "NVIDIA-A100-SXM4-40GB"
SLICE = "1g.5gb"
SLICES = slice_type(A100, SLICE)


def one(value: float) -> ThroughputTable:
    """A curve of one GPU, or one slice."""
    return ThroughputTable(((1, value),))


def world_of_both(rate: float, kept: float | None = 0.5) -> World:
    """Nodes of one A100 for $3, whole or cut into seven; an hour of a job is worth ``rate`` dollars.

    ``kept``: the part of its speed that the job keeps on a slice; None where nobody has measured it.
    """
    world = World()
    world.budget()
    world.budgets = {name: replace(budget, fixed_rate=Rate(rate / 3600)) for name, budget in world.budgets.items()}
    world.pool("whole", gpus=1, price="3", gpu_type=A100)
    world.pool("cut", gpus=1, price="3", gpu_type=A100, cut=SLICE)
    others = () if kept is None else (SpeedCurve(SLICES, one(kept)),)
    world.profile("sft", one(1.0), gpu_type=A100, work_hours=4, others=others)
    return world


def crowd(world: World, **of_job: Any) -> None:
    """Five more jobs that take the slice, for which it is worth renting a node of slices."""
    for number in range(5):
        world.job(f"c{number}", gpus=1, profile="sft" if world.profiles else None, slices=(SLICE,), **of_job)


def chosen(world: World, job: str = "train") -> str:
    """The pool that the job is given."""
    option = plan(world.snapshot()).jobs[JobId(job)].option
    return "" if option is None else option.pool


def test_seven_jobs_share_a_gpu_and_the_eighth_rents_another() -> None:
    world = world_of_both(0.1)
    for number in range(8):
        world.job(f"j{number}", gpus=1, profile="sft", slices=(SLICE,))
    first = plan(world.snapshot())
    assert rents(first) == ["cut-1", "cut-2"]
    world.carry_out(first)
    world.everything_starts()
    world.carry_out(plan(world.snapshot()))
    on = [job.allocation.placements[0].rental for job in world.jobs.values() if job.allocation is not None]
    assert sorted(on.count(rental) for rental in set(on)) == [1, 7]
    option = world.jobs[JobId("j0")].allocation
    assert option is not None
    assert (option.option.slice, option.option.resource) == (SLICE, f"nvidia.com/mig-{SLICE}")
    assert option.option.price.dollars_per_hour == pytest.approx(3 / 7, abs=1e-5)


@pytest.mark.parametrize(("rate", "pool"), [(0.5, "cut"), (10.0, "whole")])
def test_what_an_hour_is_worth_decides_between_a_slice_and_a_gpu(rate: float, pool: str) -> None:
    """On a slice a job at half the speed costs (rate + 3/7)/0.5 for an hour's work, on the GPU rate + 3."""
    world = world_of_both(rate)
    crowd(world)
    world.job("train", gpus=1, profile="sft", slices=(SLICE,))
    assert chosen(world) == pool


def test_a_job_that_names_no_slice_gets_none() -> None:
    world = world_of_both(0.1)
    world.job("train", gpus=1, profile="sft")
    world.job("other", gpus=1, profile="sft", slices=("2g.10gb",))
    assert rents(plan(world.snapshot())) == ["whole-1", "whole-2"]


def test_a_wide_job_gets_one_slice_or_whole_gpus_and_never_two_slices() -> None:
    world = world_of_both(0.1)
    world.pool("whole-8", gpus=8, price="24", gpu_type=A100)
    menu = ThroughputTable(((1, 1.0), (2, 1.9), (4, 3.6), (8, 6.4)))
    world.profile("sft", menu, gpu_type=A100, work_hours=4, others=(SpeedCurve(SLICES, menu),))
    world.job("train", gpus=(1, 4, 8), profile="sft", slices=(SLICE,))
    decided = plan(world.snapshot())
    assert rents(decided) == ["cut-1"]
    verdict = decided.jobs[JobId("train")]
    assert verdict.option is not None
    assert (verdict.option.gpus, verdict.option.slice) == (1, SLICE)


def test_gpu_types_name_the_gpu_that_a_slice_is_of() -> None:
    world = world_of_both(0.1)
    crowd(world)
    world.job("here", gpus=1, profile="sft", slices=(SLICE,), gpu_types=(A100,))
    assert chosen(world, "here") == "cut"
    world.job("here", gpus=1, profile="sft", slices=(SLICE,), gpu_types=("Tesla-T4",))
    assert chosen(world, "here") == ""


def test_only_a_slices_own_type_leaves_whole_gpus_out() -> None:
    world = world_of_both(10.0)
    world.job("here", gpus=1, profile="sft", slices=(SLICE,), gpu_types=(SLICES,))
    assert rents(plan(world.snapshot())) == ["cut-1"]


@pytest.mark.parametrize(("rate", "pool"), [(0.1, "cut"), (10.0, "whole")])
def test_a_job_without_a_curve_weighs_a_slice_by_its_part_of_the_gpu(rate: float, pool: str) -> None:
    world = world_of_both(rate, None)
    world.profiles.clear()
    crowd(world)
    world.job("train", gpus=1, slices=(SLICE,))
    assert chosen(world) == pool


def test_a_job_whose_owner_takes_the_slice_back_goes_to_a_whole_gpu() -> None:
    world = world_of_both(0.1)
    crowd(world)
    world.job("train", gpus=1, profile="sft", slices=(SLICE,))
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, widths=replace(job.widths, slices=()))
    decided = plan(world.snapshot())
    assert rents(decided) == ["whole-1"]
    said = decided.jobs[job.id].reason
    assert said.code is ReasonCode.WIDTH_NO_LONGER_ALLOWED
    assert f"spec.gpus.slices no longer names {SLICE}" in said.message


def test_where_there_are_only_slices_a_job_of_whole_gpus_is_told_how_to_ask_for_one() -> None:
    world = World()
    world.budget()
    world.pool("cut", gpus=8, price="24", gpu_type=A100, cut=SLICE)
    world.job("train", gpus=1)
    said = plan(world.snapshot()).jobs[JobId("train")].reason
    assert said.code is ReasonCode.NO_OPTION
    assert f"name {SLICE} in spec.gpus.slices" in said.message


def test_a_layout_that_too_few_jobs_would_choose_is_left_alone_and_several_jobs_open_it() -> None:
    """Alone on a node of seven slices a job pays for all of them: the others stand empty."""
    world = world_of_both(0.1)
    world.job("alone", gpus=1, profile="sft", slices=(SLICE,))
    assert rents(plan(world.snapshot())) == ["whole-1"]
    (solution,) = solve_budgets(world.snapshot())
    assert solution.inputs.unprofitable == {solution.budget.id: {PoolId("cut")}}
    for number in range(3):
        world.job(f"j{number}", gpus=1, profile="sft", slices=(SLICE,))
    assert rents(plan(world.snapshot())) == ["cut-1"]


@pytest.mark.slow
def test_few_jobs_share_one_layout_where_each_class_alone_would_choose_its_own() -> None:
    """Three jobs would have a node of seven slices, and three one of thirds, of which none is full."""
    world = world_of_both(0.5)
    world.pool("thirds", gpus=1, price="3", gpu_type=A100, cut="2g.10gb")
    thirds = slice_type(A100, "2g.10gb")
    for name, kept in (("small", (0.6, 0.7)), ("large", (0.35, 0.62))):
        others = [SpeedCurve(gpu_type, one(speed)) for gpu_type, speed in zip((SLICES, thirds), kept, strict=True)]
        world.profile(name, one(1.0), gpu_type=A100, work_hours=4, others=others)

    def pools(jobs: int) -> set[str]:
        for name in ("small", "large"):
            for number in range(jobs):
                world.job(f"{name}-{number}", gpus=1, profile=name, slices=(SLICE, "2g.10gb"))
        return {chosen(world, name) for name in world.jobs}

    assert len(pools(3)) == 1
    assert pools(60) == {"cut", "thirds"}


def test_a_layout_stays_where_its_jobs_have_no_other_option() -> None:
    world = world_of_both(0.1)
    del world.pools[PoolId("whole")]
    world.job("alone", gpus=1, profile="sft", slices=(SLICE,))
    assert rents(plan(world.snapshot())) == ["cut-1"]


@pytest.mark.parametrize(
    ("mean", "size", "expected"), [(0.0, 7, 0.0), (1e-6, 7, 6e-6), (35.0, 7, 3.0), (1000.0, 3, 1.0)]
)
def test_the_unused_slices_of_a_layout_are_those_of_its_last_node(mean: float, size: int, expected: float) -> None:
    assert unused(mean, size) == pytest.approx(expected, rel=0.02, abs=1e-9)


def test_nodes_whose_gpus_are_not_cut_yet_have_no_room() -> None:
    world = world_of_both(0.1)
    world.rental("cut")
    crowd(world)
    (node,) = world.nodes.values()
    world.nodes = {node.name: replace(node, gpus=1, others={})}
    assert placed(plan(world.snapshot())) == {}
    world.nodes = {node.name: node}
    assert placed(plan(world.snapshot())) == {f"c{number}": 1 for number in range(5)}
