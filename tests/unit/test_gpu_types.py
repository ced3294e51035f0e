"""GPU types of which nothing is measured are compared by their data sheets."""

from __future__ import annotations

import pytest

from charterer.domain.plan import Rent
from charterer.gpu_types import DATA_SHEETS, data_sheet, relative_speeds
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
    ],
)
def test_a_model_is_a_word_of_the_names_that_clouds_and_device_plugins_give(name: str, model: str) -> None:
    assert data_sheet(name) is DATA_SHEETS[model]


def test_speeds_are_relative_to_the_fastest_and_lie_in_their_interval() -> None:
    speeds = relative_speeds(DATA_SHEETS)
    assert speeds["B200"].estimate == 1.0
    assert all(0.0 < speed.low <= speed.estimate <= speed.high <= 1.0 for speed in speeds.values())
    assert speeds["T4"].estimate < speeds["V100"].estimate < speeds["A100"].estimate < speeds["H100"].estimate


def test_types_are_equal_if_one_of_them_is_not_in_the_table() -> None:
    assert relative_speeds(["Tesla-T4", "MI300X"]) == {}


def test_a_job_of_unknown_speed_gets_the_type_that_does_the_most_work_for_a_dollar() -> None:
    """Four T4s at $2.12 an hour do about a fifth of what four A100s do at $12.80; as equals they would win."""
    world = World()
    world.budget(amount="20000")
    for name, gpu_type, price in (("t4", "Tesla-T4", "3.5"), ("a100", "NVIDIA-A100-SXM4-80GB", "12.80")):
        world.pool(name, gpus=4, price=price, gpu_type=gpu_type)
    world.job("unknown", gpus=4)
    assert [command.pool for command in plan(world.snapshot()).commands if isinstance(command, Rent)] == ["a100"]
