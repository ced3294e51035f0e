"""What a class keeps beside others, from reports of both."""

from __future__ import annotations

import random

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import MOST_PAIRS, BatchTerms, PairSpeed
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner, learn_pair, learned_pairs, remembered
from charterer.estimate.observation import Observation

OWN, OTHER = ClassId("team", "own"), ClassId("team", "other")
V100, PLACE = "V100", "V100-mps-2"


def taught(*steps: tuple[float, ClassId | None], number: int = 30) -> Learner:
    """A class that trains ``number`` reports with each of these seconds a step, alone or beside another class."""
    learner, noise = Learner({OWN: BatchTerms(32, 32, 32)}, {V100: 1, PLACE: 2}), random.Random(1)
    for seconds, beside in steps:
        for _ in range(number):
            where = V100 if beside is None else PLACE
            step = seconds * noise.lognormvariate(0.0, 0.05)
            report = Observation(OWN, where, 1, 1, 32, step, 0.5, Instant(0))
            learner.report(report)
            if beside is not None:
                learn_pair(learner, report, beside)
    return learner


def test_a_pair_keeps_the_part_of_the_speed_alone() -> None:
    third = ClassId("team", "third")
    pairs = learned_pairs(taught((0.1, None), (0.2, OTHER), (0.125, third)).state(OWN))
    assert [(pair.gpu_type, pair.beside, pair.reports) for pair in pairs] == [(PLACE, OTHER, 30), (PLACE, third, 30)]
    assert [pair.kept for pair in pairs] == [pytest.approx(0.5, rel=0.05), pytest.approx(0.8, rel=0.05)]


def test_the_first_reports_already_tell_a_pair_that_loses_from_one_that_gains() -> None:
    (lost,) = learned_pairs(taught((0.1, None), (0.25, OTHER), number=3).state(OWN))
    (gained,) = learned_pairs(taught((0.1, None), (0.12, OTHER), number=3).state(OWN))
    assert lost.kept < 0.5 < 0.7 < gained.kept


def test_what_was_wrong_is_forgotten_when_reports_say_otherwise() -> None:
    (pair,) = learned_pairs(taught((0.1, None), (0.2, OTHER), *[(0.125, OTHER)] * 12).state(OWN))
    assert pair.kept == pytest.approx(0.8, rel=0.05)


def test_a_job_keeps_no_more_than_all_of_its_speed() -> None:
    (pair,) = learned_pairs(taught((0.1, None), (0.09, OTHER)).state(OWN))
    assert pair.kept == 1.0


def test_a_bounded_number_of_pairs_is_remembered_and_the_latest_stay() -> None:
    others = [ClassId("team", f"c{number}") for number in range(MOST_PAIRS + 3)]
    pairs = learned_pairs(taught((0.1, None), *[(0.2, each) for each in others], number=1).state(OWN))
    assert [pair.beside for pair in pairs] == others[3:]


def test_pairs_that_were_recorded_go_on_being_learned() -> None:
    learner = taught((0.1, None))
    learner.state(OWN).pairs = remembered([PairSpeed(PLACE, OTHER, 0.5, 3)])
    report = Observation(OWN, PLACE, 1, 1, 32, 0.1, 0.5, Instant(0))
    learner.report(report)
    learn_pair(learner, report, OTHER)
    (pair,) = learned_pairs(learner.state(OWN))
    assert pair.reports == 4
    assert 0.5 < pair.kept < 0.7
