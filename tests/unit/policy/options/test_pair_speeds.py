"""What two classes are expected to keep beside each other before they were measured."""

from __future__ import annotations

from math import sqrt

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import PairSpeed, Phase, Profile
from charterer.policy.options.pair_speeds import OPTIMISM, pair_speeds

A, B, C, D = (ClassId("team", name) for name in "abcd")
PLACE = "V100-mps-2"


def profile(own: ClassId, **kept: float) -> Profile:
    pairs = [PairSpeed(PLACE, ClassId("team", name), part, 7) for name, part in kept.items()]
    return Profile(own, 1, (Phase(1.0, ()),), None, None, 30.0, pairs=tuple(pairs))


def test_what_was_measured_is_believed() -> None:
    assert pair_speeds(PLACE, [profile(A, b=0.3)]).kept(A, B, 0.9) == (0.3, 7)


def test_nothing_is_believed_of_other_types_of_shared_gpus() -> None:
    found = pair_speeds("V100-shared-2", [profile(A, b=0.3)]).kept(A, B, 0.6)
    assert found.kept == pytest.approx(OPTIMISM * 0.6)
    assert found.reports == 0


def test_a_class_is_hoped_to_keep_somewhat_more_than_usual_and_never_more_than_all() -> None:
    speeds = pair_speeds(PLACE, [profile(A, b=0.5, c=0.3)])
    assert speeds.kept(A, D, 0.9).kept == pytest.approx(OPTIMISM * sqrt(0.5 * 0.3))
    assert speeds.kept(D, C, 0.95).kept == 1.0


def test_less_is_expected_beside_a_class_that_slowed_others_down() -> None:
    speeds = pair_speeds(PLACE, [profile(A, b=0.8, c=0.2), profile(B, a=0.8, c=0.2)])
    assert speeds.kept(D, C, 0.5).kept < OPTIMISM * 0.5 < speeds.kept(D, A, 0.5).kept
