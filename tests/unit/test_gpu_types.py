"""GPU types of which nothing is measured are compared by their data sheets."""

from __future__ import annotations

import pytest

from charterer.domain.plan import Rent
from charterer.gpu_types import (
    MIG_LAYOUTS,
    data_sheet,
    gigabytes,
    may_use,
    mig_layouts,
    relative_speeds,
    share_of_memory,
    slice_profile,
    slice_type,
    whole_type,
)
from charterer.gpu_types.accelerators import MODELS
from charterer.policy.planner import plan
from tests.worlds import World


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100"),
        ("Tesla-T4", "T4"),
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("nvidia-l4", "L4"),
        ("NVIDIA-L40S", "L40S"),
        ("Tesla-V100-SXM2-16GB", "V100"),
        ("NVIDIA-T4G", "T4G"),
        ("Tesla-P4", "P4"),
        ("NVIDIA-H20", "H20"),
        ("NVIDIA-GH200-480GB", "GH200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-L40S-SHARED", "L40S"),
        ("NVIDIA-L40", "L40"),
        ("NVIDIA-RTX-A6000", "A6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX PRO 6000"),
        ("nvidia-rtx-pro-6000", "RTX PRO 6000"),
    ],
)
def test_a_model_is_the_words_of_the_names_that_clouds_and_device_plugins_give(name: str, model: str) -> None:
    assert data_sheet(name) is MODELS[model]


@pytest.mark.parametrize(
    "name",
    ["NVIDIA-RTX-6000-Ada-Generation", "Quadro-RTX-6000", "NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition", "", "Gaudi3"],
)
def test_a_part_of_a_name_is_another_model(name: str) -> None:
    assert data_sheet(name) is None


def test_speeds_are_relative_to_the_fastest_and_lie_in_their_interval() -> None:
    speeds = relative_speeds(MODELS)
    assert speeds["GB300"].estimate == 1.0
    assert all(0.0 < speed.low <= speed.estimate <= speed.high <= 1.0 for speed in speeds.values())
    assert speeds["T4"].estimate < speeds["V100"].estimate < speeds["A100"].estimate < speeds["H100"].estimate


def test_a_type_that_is_not_in_the_table_does_not_change_how_the_others_are_compared() -> None:
    known = ["Tesla-T4", "NVIDIA-A100-SXM4-80GB"]
    assert relative_speeds([*known, "Gaudi3"]) == relative_speeds(known)
    assert relative_speeds(["Gaudi3"]) == {}


def test_a_job_of_unknown_speed_gets_the_type_that_does_the_most_work_for_a_dollar() -> None:
    """Four T4s at $2.12 an hour do about a fifth of what four A100s do at $12.80; as equals they would win."""
    world = World()
    world.budget(amount="20000")
    for name, gpu_type, price in (("t4", "Tesla-T4", "3.5"), ("a100", "NVIDIA-A100-SXM4-80GB", "12.80")):
        world.pool(name, gpus=4, price=price, gpu_type=gpu_type)
    world.job("unknown", gpus=4)
    assert [command.pool for command in plan(world.snapshot()).commands if isinstance(command, Rent)] == ["a100"]


@pytest.mark.parametrize(
    ("name", "memory", "slices"),
    [
        ("NVIDIA-A100-SXM4-40GB", "1g.5gb", 7),
        ("nvidia-tesla-a100", "1g.5gb", 7),
        ("NVIDIA-A100-SXM4-40GB", "1g.10gb", 4),
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb", 7),
        ("NVIDIA-H100-PCIe", "3g.40gb", 2),
        ("NVIDIA-H100-NVL", "2g.24gb", 3),
        ("nvidia-h200-141gb", "1g.18gb", 7),
        ("NVIDIA-B200", "1g.23gb", 7),
        ("NVIDIA-A30", "2g.12gb", 2),
        ("NVIDIA-A800-SXM4-80GB", "1g.10gb", 7),
        ("NVIDIA-H20", "1g.12gb", 7),
        ("NVIDIA-GH200-480GB", "3g.48gb", 2),
        ("NVIDIA-GH200-144G-HBM3e", "1g.18gb", 7),
        ("NVIDIA-GB200", "1g.23gb", 7),
        ("NVIDIA-B300-SXM6-AC", "1g.34gb", 7),
        ("NVIDIA-GB300", "1g.35gb", 7),
        ("NVIDIA-H200", "1g.35gb", 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "1g.24gb-me", 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "2g.48gb.gfx", 2),
    ],
)
def test_how_many_slices_a_gpu_holds_follows_from_its_model_and_memory(name: str, memory: str, slices: int) -> None:
    layouts = mig_layouts(name)
    assert layouts is not None
    assert layouts.slices[memory] == slices


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("NVIDIA-GH200-480GB", 96),
        ("NVIDIA-GH200-144G-HBM3e", 144),
        ("NVIDIA-H20-3e", 141),
        ("NVIDIA-H100-NVL", 94),
        ("NVIDIA-A10-24Q", 24),
        ("NVIDIA-A10-4Q", 4),
        ("NVIDIA-A100-PG509-200", 40),
        ("NVIDIA-A100-SXM-64GB", 64),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 96),
        ("NVIDIA-RTX-PRO-4500-Blackwell", None),
        ("NVIDIA-A100-SXM4-80GB-SHARED", 80),
    ],
)
def test_numbers_in_names_are_memory_only_if_they_mean_the_gpus(name: str, memory: int | None) -> None:
    assert gigabytes(name) == memory


def test_no_layout_takes_more_of_a_gpu_than_it_has() -> None:
    for (_, memory), layouts in MIG_LAYOUTS.items():
        for profile, slices in layouts.slices.items():
            units, size = profile.removesuffix("-me").removesuffix(".gfx").removesuffix("gb").split("g.")
            assert int(units) * slices <= layouts.units
            assert int(size) * slices <= memory * 8 / 7
            assert slices > 1


def test_a_gpu_that_cannot_be_cut_has_no_layout() -> None:
    assert mig_layouts("Tesla-T4") is None


def test_a_slice_is_named_as_feature_discovery_names_it() -> None:
    named = slice_type("NVIDIA-A100-SXM4-80GB", "1g.10gb")
    assert named == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
    assert (whole_type(named), slice_profile(named)) == ("NVIDIA-A100-SXM4-80GB", "1g.10gb")
    assert (whole_type("Tesla-T4"), slice_profile("Tesla-T4")) == ("Tesla-T4", "")


def test_a_slice_is_between_its_part_of_the_gpu_and_the_whole_gpu() -> None:
    whole = "NVIDIA-A100-SXM4-80GB"
    slices = [slice_type(whole, profile) for profile in ("1g.10gb", "2g.20gb", "3g.40gb")]
    speeds = relative_speeds([whole, *slices, "Tesla-T4"])
    assert [speeds[each].low for each in slices] == pytest.approx([1 / 7, 2 / 7, 3 / 7])
    assert {speeds[each].high for each in slices} == {1.0}
    assert [speeds[each].estimate for each in slices] == pytest.approx([(part / 7) ** 0.5 for part in (1, 2, 3)])
    assert relative_speeds([slices[0], "Tesla-T4"])[slices[0]].estimate == 1.0


def test_an_estimate_lies_in_its_interval_also_beside_slices_and_nothing_is_faster_than_the_fastest() -> None:
    whole = "NVIDIA-A100-SXM4-80GB"
    for profile in ("1g.10gb", "2g.20gb", "3g.40gb", "mps-2", "shared-4"):
        for other in ("Tesla-T4", "NVIDIA-H100-80GB-HBM3", slice_type("NVIDIA-H100-80GB-HBM3", "1g.10gb")):
            speeds = relative_speeds([slice_type(whole, profile), other])
            assert max(speed.estimate for speed in speeds.values()) == 1.0
            assert all(speed.low <= speed.estimate <= speed.high for speed in speeds.values())


def test_a_gpus_type_stands_for_its_slices_which_a_job_has_to_take() -> None:
    whole, part = "NVIDIA-A30", slice_type("NVIDIA-A30", "1g.6gb")
    assert may_use(part, (), ("1g.6gb",))
    assert may_use(part, (whole,), ("1g.6gb",))
    assert may_use(part, (part,), ("1g.6gb",))
    assert not may_use(part, (whole,), ())
    assert not may_use(part, ("Tesla-T4",), ("1g.6gb",))
    assert not may_use(whole, (part,), ("1g.6gb",))


def test_a_gpu_that_jobs_share_is_a_type_of_its_own_and_each_has_a_part_of_its_memory() -> None:
    whole = "Tesla-V100-SXM2-16GB"
    two, four = slice_type(whole, "mps-2"), slice_type(whole, "shared-4")
    assert (whole_type(two), slice_profile(two), whole_type(four)) == (whole, "mps-2", whole)
    assert (two, four) == (f"{whole}-mps-2", f"{whole}-shared-4")
    speeds = relative_speeds([whole, two, four])
    assert [speeds[each].low for each in (two, four)] == [0.5, 0.25]
    assert [speeds[each].estimate for each in (two, four)] == pytest.approx([0.5**0.5, 0.5])
    assert [share_of_memory(each) for each in (two, four)] == pytest.approx([0.45 * 16384, 0.225 * 16384])
    assert share_of_memory("Gaudi3-mps-2") == 0.0
    assert may_use(two, (whole,), (), 7000)
    assert not may_use(four, (whole,), (), 7000)
    assert not may_use(two, (), (), 0)


@pytest.mark.parametrize(
    ("name", "memory"), [("Tesla-T4", 16), ("NVIDIA-A100-SXM4-80GB", 80), ("NVIDIA-H100-NVL", 94), ("unknown", None)]
)
def test_memory_is_what_the_name_says_or_the_models(name: str, memory: int | None) -> None:
    assert gigabytes(name) == memory
