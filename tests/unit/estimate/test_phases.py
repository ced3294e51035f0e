"""Phases: few, over the whole life, cut where the gain of large batches changes."""

from __future__ import annotations

import math
from itertools import pairwise

from charterer.estimate.curves import ALIKE, MOST_PHASES, phase_segments
from charterer.estimate.noise import BINS, Noise


def curve(levels: list[float]) -> list[Noise]:
    return [Noise(level, 0.0, 0.01, 0.0, 0.0, 5.0) for level in levels]


def test_noise_that_stays_is_one_phase() -> None:
    (only,) = phase_segments(curve([2.0] * BINS), 64.0)
    assert only[0] == 1.0
    assert only[1].level == 2.0


def test_a_jump_is_where_a_phase_ends() -> None:
    first, second = phase_segments(curve([1.0] * (BINS // 4) + [4.0] * (BINS - BINS // 4)), 64.0)
    assert (first[0], second[0]) == (0.25, 1.0)
    assert (first[1].level, second[1].level) == (1.0, 4.0)


def test_steady_growth_is_cut_into_a_dozen_at_most_that_end_at_one() -> None:
    found = phase_segments(curve([0.1 * at for at in range(BINS)]), 64.0)
    ends = [until for until, _ in found]
    assert 3 <= len(found) <= MOST_PHASES
    assert ends == sorted(set(ends))
    assert ends[-1] == 1.0


def test_noise_that_no_batch_can_feel_makes_no_phases() -> None:
    assert len(phase_segments(curve([20.0 + at for at in range(BINS)]), 64.0)) == 1
    assert len(phase_segments(curve([float(at) for at in range(BINS)]), 1.0)) == 1


def test_neighbours_that_are_left_differ_by_what_matters() -> None:
    found = phase_segments(curve([math.sin(at / 4.0) for at in range(BINS)]), 64.0)
    for (_, one), (_, two) in pairwise(found):
        assert abs(one.level - two.level) > ALIKE


def test_a_short_stretch_in_which_noise_grows_fast_is_not_joined_with_what_follows() -> None:
    """As detectors train: noise grows a hundredfold in the first tenth, then wavers by a half."""
    start = [0.0, 1.0, 2.0, 3.0]
    found = phase_segments(curve(start + [4.0 + 0.5 * (at // 5 % 2) for at in range(BINS - len(start))]), 64.0)
    early = [(until * BINS, noise.level) for until, noise in found[:4]]
    assert early == [(1.0, 0.0), (2.0, 1.0), (3.0, 2.0), (4.0, 3.0)]
