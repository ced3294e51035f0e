"""The best batch: throughput times statistical efficiency."""

from __future__ import annotations

import math
from functools import cache

import pytest

from charterer.domain.profile import BatchTerms
from charterer.estimate.cells import StepTimes
from charterer.estimate.fitting import refit
from charterer.estimate.learner import best_batch, candidates, configurations
from charterer.estimate.noise import Noise
from charterer.estimate.observation import Shape, split
from charterer.estimate.priors import BASE
from charterer.estimate.throughput import Misfit, StepTimeFit
from tests.unit.estimate.trainers import WIDTHS, Trainer, shape


@cache
def exact() -> StepTimeFit:
    """Of the time of steps, which the noise does not change."""
    trainer = Trainer()
    times = StepTimes(trainer.local)
    for gpus in WIDTHS:
        for where in configurations(trainer.terms, shape(gpus)):
            for _ in range(20):
                times.add(where, trainer.seconds(gpus, where.batch))
    return refit(times, BASE, Misfit())


def noise(value: float) -> Noise:
    return Noise(math.log(value), 0.0, 0.01, 0.0, 0.0, 10.0)


@pytest.mark.parametrize("gpus", WIDTHS)
def test_every_way_to_do_a_step_is_within_what_is_declared(gpus: int) -> None:
    terms = BatchTerms(64, 4096, 128, 4)
    found = configurations(terms, shape(gpus))
    assert found
    for where in found:
        assert 64 <= where.batch <= 4096
        assert 4 <= where.local <= 128
        assert split(terms, where.shape, where.batch) == where


def test_a_width_that_needs_a_larger_batch_than_allowed_has_no_way() -> None:
    assert configurations(BatchTerms(8, 64, 8, 4), shape(32)) == ()


@pytest.mark.parametrize("gpus", WIDTHS)
@pytest.mark.parametrize("value", [0.5, 10.0, 1000.0])
def test_the_chosen_batch_loses_less_than_two_percent(gpus: int, value: float) -> None:
    trainer = Trainer(noise=lambda _: value)
    fit = exact()
    choice = best_batch(fit, noise(value), candidates(fit, trainer.terms, shape(gpus)))
    assert choice is not None
    got = trainer.goodput(gpus, choice.where.batch, 0.5)
    steps = range(max(64, gpus), 4097 - gpus, 8)
    best = max(trainer.goodput(gpus, split(trainer.terms, shape(gpus), batch).batch, 0.5) for batch in steps)
    assert got > 0.98 * best


def test_several_passes_get_their_turn_where_only_single_ones_ran() -> None:
    trainer, times = Trainer(), StepTimes(128)
    for batch in (64, 512):
        for _ in range(30):
            times.add(split(trainer.terms, shape(4), batch), trainer.seconds(4, batch))
    fit = refit(times, BASE, Misfit())
    options = candidates(fit, trainer.terms, shape(4))
    expected, tried = (best_batch(fit, noise(260.0), options, optimism) for optimism in (0.0, 1.0))
    assert expected is not None
    assert tried is not None
    assert expected.where.passes == 1
    assert tried.where.passes > 1
    assert tried.log_goodput < expected.log_goodput, "the choice says what is expected of it"


def test_more_noise_makes_larger_batches_worth_while() -> None:
    trainer = Trainer()
    fit = exact()
    tried = candidates(fit, trainer.terms, shape(8))
    batches = [choice.where.batch for value in (0.1, 3.0, 100.0) if (choice := best_batch(fit, noise(value), tried))]
    assert batches == sorted(batches)
    assert batches[0] < batches[-1]


def test_the_largest_batch_is_offered_where_full_passes_would_be_too_many() -> None:
    """384 samples on 12 GPUs of at most 12 each: three passes of 10 are 360, of 11 already 396."""
    terms = BatchTerms(12, 384, 12, 4)
    found = configurations(terms, Shape(3, 12))
    assert max(where.batch for where in found) == 360
    assert all(where.batch <= 384 for where in found)
