"""``charterer explain`` says by what GPU types are compared that nobody has measured."""

from __future__ import annotations

import pytest

from charterer.gpu_types import RelativeSpeed, relative_speeds
from charterer.tools.commands.explain.document import assumed_speeds_sentence
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

T4, A100, NEW = "Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-R300"


def test_a_type_without_a_data_sheet_is_named_with_what_its_speed_is_guessed_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.budget(amount="20000")
    for name, gpu_type, price in (("t4", T4, "3.5"), ("a100", A100, "12.80"), ("new", NEW, "5")):
        world.pool(name, gpus=4, price=price, gpu_type=gpu_type)
    world.job("unknown", gpus=4)
    said = " ".join(charterer_over(world, monkeypatch)("explain", "unknown").stdout.split())
    assert (
        f"so data sheets compare GPU types with {A100}: {T4} is assumed to have 18% of its speed (16% to 100%)" in said
    )
    assert (
        f"of {NEW} Charterer knows no data sheet, so it is guessed from its price to have 32% of its speed (16% to "
        in said
    )


def test_if_no_type_has_a_data_sheet_it_says_that_they_count_as_equal() -> None:
    equal = dict.fromkeys((NEW, "Gaudi3"), RelativeSpeed(1.0, 0.0, 1.0))
    assert assumed_speeds_sentence(equal) == (
        f"Nothing is measured yet, and Charterer knows no data sheet of Gaudi3, {NEW}: "
        "whole GPUs count as equally fast."
    )


def test_nothing_is_said_of_one_type_or_of_equal_ones() -> None:
    assert assumed_speeds_sentence({NEW: RelativeSpeed(1.0, 0.0, 1.0)}) == ""
    assert assumed_speeds_sentence(relative_speeds([A100, "NVIDIA-A100-SXM4-40GB"])) == ""
    assert assumed_speeds_sentence({}) == ""
