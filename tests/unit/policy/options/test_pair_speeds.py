"""What two classes are expected to keep beside each other, and what a class keeps where partners are chosen."""

from __future__ import annotations

from math import sqrt

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import PairSpeed, Phase, Profile
from charterer.incremental import directly
from charterer.policy.options.pair_speeds import OPTIMISM, chosen_parts, pair_speeds
from tests.worlds import World

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


def test_a_class_counts_on_each_partner_as_far_as_the_pair_saves_gpu_hours() -> None:
    """Of an hour of a beside b 0.4 are saved, beside c 0.1, beside d and beside itself less than nothing."""
    apart = {"b": 0.1, "c": 0.1, "d": 0.1}
    profiles = [
        profile(A, a=0.2, b=0.8, c=0.5, d=0.1),
        profile(B, a=0.6, **apart),
        profile(C, a=0.6, **apart),
        profile(D, a=0.7, **apart),
    ]
    found = pair_speeds(PLACE, profiles).with_chosen_partners()
    assert found == {A: pytest.approx((0.4 * 0.8 + 0.1 * 0.5) / (0.4 + 0.1)), B: pytest.approx(0.6), C: found[C]}
    assert found[C] == pytest.approx(0.6)


def test_a_class_that_had_a_bad_partner_hopes_for_others() -> None:
    hoped = pair_speeds(PLACE, [profile(A, b=0.4), profile(B, a=0.4, c=0.9), profile(C, b=0.9)])
    assert hoped.with_chosen_partners()[A] > 0.4


@pytest.mark.parametrize(("others", "known"), [((), True), ((4,), False)])
def test_what_a_class_keeps_follows_from_pairs_where_all_pools_of_the_type_choose(
    others: tuple[int, ...], known: bool
) -> None:
    world = World()
    for number, gpus in enumerate((1, 1, *others)):
        world.pool(f"pool{number}", gpus=gpus, gpu_type="V100", cut="mps-2")
    profiles = {each.id: each for each in (profile(A, a=0.2, b=0.8), profile(B, a=0.7, b=0.2))}
    expected = {A: {PLACE: pytest.approx(0.8)}, B: {PLACE: pytest.approx(0.7)}} if known else {}
    assert chosen_parts(profiles, world.pools.values(), directly) == expected
