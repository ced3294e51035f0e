"""Jobs that share GPUs, as short stories: a place on one is a GPU of a smaller type that a job has to allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, Rate
from charterer.domain.plan import ReasonCode
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, rents
from tests.worlds import World

V100 = "Tesla-V100-SXM2-16GB"
PLACE = slice_type(V100, "mps-2")
SIX_GIB = 6 * 1024


def world_of_both(rate: float, kept: float | None = 0.8) -> World:
    """Nodes of one V100 for $2.48, whole or shared by two jobs; an hour of a job is worth ``rate`` dollars.

    ``kept``: the part of its speed that the job keeps beside another; None where nobody has measured it.
    """
    world = World()
    world.budget()
    world.budgets = {name: replace(budget, fixed_rate=Rate(rate / 3600)) for name, budget in world.budgets.items()}
    world.pool("whole", gpus=1, price="2.48", gpu_type=V100)
    world.pool("shared", gpus=1, price="2.48", gpu_type=V100, cut="mps-2")
    one = ThroughputTable(((1, 1.0),))
    others = () if kept is None else (SpeedCurve(PLACE, ThroughputTable(((1, kept),))),)
    world.profile("sft", one, gpu_type=V100, work_hours=4, others=others)
    return world


def pools_chosen(world: World) -> set[str]:
    """The pools that the jobs are given."""
    options = [verdict.option for verdict in plan(world.snapshot()).jobs.values()]
    return {option.pool for option in options if option is not None}


def test_two_jobs_share_a_gpu_and_the_third_rents_another() -> None:
    world = world_of_both(0.3)
    for number in range(3):
        world.job(f"j{number}", gpus=1, profile="sft", shared_mib=SIX_GIB)
    first = plan(world.snapshot())
    assert rents(first) == ["shared-1", "shared-2"]
    world.carry_out(first)
    world.everything_starts()
    world.carry_out(plan(world.snapshot()))
    given = [job.allocation for job in world.jobs.values() if job.allocation is not None]
    on = [allocation.placements[0].rental for allocation in given]
    assert sorted(on.count(rental) for rental in set(on)) == [1, 2]
    assert {(each.option.slice, each.option.resource) for each in given} == {("mps-2", "nvidia.com/gpu.shared")}
    assert given[0].option.price.dollars_per_hour == pytest.approx(1.24)


@pytest.mark.parametrize(("rate", "kept", "pool"), [(0.3, 0.6, "shared"), (0.3, 0.5, "whole"), (6.0, 0.8, "whole")])
def test_a_place_is_taken_where_the_speed_kept_is_worth_half_the_price(rate: float, kept: float, pool: str) -> None:
    """An hour's work costs (rate + 1.24)/kept there, and rate + 2.48 on a GPU of one's own."""
    world = world_of_both(rate, kept)
    for number in range(6):
        world.job(f"j{number}", gpus=1, profile="sft", shared_mib=SIX_GIB)
    assert pools_chosen(world) == {pool}


def test_a_job_that_nobody_would_share_a_gpu_with_has_one_for_itself() -> None:
    world = world_of_both(0.3, 0.6)
    world.job("alone", gpus=1, profile="sft", shared_mib=SIX_GIB)
    assert pools_chosen(world) == {"whole"}


@pytest.mark.parametrize("needed", [0, 8 * 1024])
def test_a_job_shares_no_gpu_unless_it_says_so_and_fits_into_its_part_of_the_memory(needed: int) -> None:
    world = world_of_both(0.3)
    world.job("train", gpus=1, profile="sft", shared_mib=needed)
    assert rents(plan(world.snapshot())) == ["whole-1"]


def test_a_wide_job_gets_one_place_or_whole_gpus() -> None:
    world = world_of_both(0.3)
    menu = ThroughputTable(((1, 1.0), (2, 1.6)))
    world.profile("sft", menu, gpu_type=V100, work_hours=4, others=(SpeedCurve(PLACE, menu),))
    world.job("train", gpus=(1, 1, 2), profile="sft", shared_mib=SIX_GIB)
    verdict = plan(world.snapshot()).jobs[JobId("train")]
    assert verdict.option is not None
    assert (verdict.option.gpus, verdict.option.slice) == (1, "mps-2")


def test_jobs_without_a_curve_weigh_a_place_by_the_middle_of_half_and_all_of_their_speed() -> None:
    for rate, pool in ((0.3, "shared"), (10.0, "whole")):
        world = world_of_both(rate, None)
        world.profiles.clear()
        for number in range(6):
            world.job(f"j{number}", gpus=1, shared_mib=SIX_GIB)
        assert pools_chosen(world) == {pool}


def test_a_job_whose_owner_no_longer_lets_it_share_goes_to_a_gpu_of_its_own() -> None:
    world = world_of_both(0.3)
    world.job("train", gpus=1, profile="sft", shared_mib=SIX_GIB)
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, widths=replace(job.widths, shared_mib=0))
    decided = plan(world.snapshot())
    assert rents(decided) == ["whole-1"]
    said = decided.jobs[job.id].reason
    assert said.code is ReasonCode.WIDTH_NO_LONGER_ALLOWED
    assert "spec.gpus.shared no longer allows its GPU" in said.message


def test_where_all_gpus_are_shared_a_job_is_told_how_to_ask_for_one() -> None:
    world = World()
    world.budget()
    world.pool("shared", gpus=1, price="2.48", gpu_type=V100, cut="mps-2")
    world.job("train", gpus=1)
    said = plan(world.snapshot()).jobs[JobId("train")].reason
    assert said.code is ReasonCode.NO_OPTION
    assert "set spec.gpus.shared if the job fits into the memory" in said.message


def test_nodes_whose_device_plugin_does_not_share_have_no_room() -> None:
    world = world_of_both(0.3)
    world.rental("shared")
    world.job("train", gpus=1, profile="sft", shared_mib=SIX_GIB)
    (node,) = world.nodes.values()
    world.nodes = {node.name: replace(node, gpus=1, others={})}
    assert placed(plan(world.snapshot())) == {}
    world.nodes = {node.name: node}
    assert placed(plan(world.snapshot())) == {"train": 1}
