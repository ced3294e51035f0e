"""The step-time model: Pollux's equations, fitted with a prior, sure of what it saw and unsure of what it did not."""

from __future__ import annotations

import math

import pytest

from charterer.domain.profile import BatchTerms
from charterer.estimate.cells import CELL_RANGE, BatchCell, CellEffects, StepTimes
from charterer.estimate.fitting import refit
from charterer.estimate.observation import Configuration, Shape, split
from charterer.estimate.priors import BASE
from charterer.estimate.throughput import Misfit, StepTimeFit, Unknown
from tests.unit.estimate.trainers import UNKNOWNS, WIDTHS, Trainer, log_step, shape


def by_the_paper(where: Configuration, largest_local: int) -> float:
    """Seconds per step with α, β and γ as Pollux writes them."""
    compute, fixed, local, local_growth, node, node_growth, overlap, _ = (math.exp(log_value) for log_value in UNKNOWNS)
    beta = compute / largest_local
    grad = fixed * compute + beta * where.local
    gamma = 1.0 + overlap
    if where.shape.gpus == 1:
        sync = 0.0
    elif where.shape.nodes == 1:
        sync = local * compute + local * local_growth * compute * (where.shape.gpus - 2)
    else:
        sync = node * compute + node * node_growth * compute * (where.shape.gpus - 2)
    return (where.passes - 1) * grad + math.pow(math.pow(grad, gamma) + math.pow(sync, gamma), 1.0 / gamma)


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 64])
@pytest.mark.parametrize("passes", [1, 3])
def test_a_step_takes_as_long_as_the_paper_says(gpus: int, passes: int) -> None:
    where = Configuration(shape(gpus), 48, passes)
    assert math.exp(log_step(UNKNOWNS, where, 128)) == pytest.approx(by_the_paper(where, 128), rel=1e-12)


def fitted(trainer: Trainer, widths: tuple[int, ...], number: int) -> StepTimeFit:
    times = StepTimes(trainer.local)
    for report in trainer.reports(widths, number):
        times.add(split(trainer.terms, report.shape, report.batch), report.step_seconds)
    return refit(times, BASE, Misfit())


def test_a_batch_is_done_in_the_fewest_equal_passes_that_fit() -> None:
    terms = BatchTerms(64, 4096, 128)
    assert split(terms, Shape(1, 2), 600) == Configuration(Shape(1, 2), 100, 3)
    assert split(terms, Shape(1, 2), 256) == Configuration(Shape(1, 2), 128, 1)


def test_widths_that_ran_are_predicted_within_four_percent() -> None:
    trainer = Trainer()
    fit = fitted(trainer, WIDTHS, 600)
    for gpus in WIDTHS:
        for batch in (64, 256, 1024):
            where = split(trainer.terms, shape(gpus), batch)
            assert fit.predict(where).mean == pytest.approx(math.log(trainer.seconds(gpus, where.batch)), abs=0.04)


def test_a_width_between_two_that_ran_is_predicted_within_five_percent() -> None:
    trainer = Trainer()
    fit = fitted(trainer, (1, 2, 4, 8, 32), 600)
    where = split(trainer.terms, shape(16), 1024)
    assert fit.predict(where).mean == pytest.approx(math.log(trainer.seconds(16, where.batch)), abs=0.05)


def test_what_never_ran_is_less_sure_than_what_did_and_the_network_least() -> None:
    trainer = Trainer()
    fit = fitted(trainer, (1, 2), 60)
    variance = {gpus: fit.predict(split(trainer.terms, shape(gpus), 256)).variance for gpus in (2, 4, 8)}
    assert variance[2] < variance[4] < variance[8]


def test_one_stalled_step_hardly_moves_a_known_configuration() -> None:
    cell = BatchCell()
    for at in range(40):
        cell.add(0.05 * (-1) ** at, 0.05)
    cell.add(math.log(100.0), 0.05)
    assert abs(cell.mean) < 0.01


def test_a_configuration_whose_code_became_faster_is_followed() -> None:
    cell = BatchCell()
    for _ in range(1000):
        cell.add(0.0, 0.05)
    for _ in range(300):
        cell.add(-0.3, 0.05)
    assert cell.mean == pytest.approx(-0.3, abs=0.03)


def test_a_quirk_of_one_width_stays_there() -> None:
    trainer = Trainer()
    times = StepTimes(trainer.local)
    for report in trainer.reports(WIDTHS, 600):
        slow = 1.3 if report.gpus == 8 else 1.0
        times.add(split(trainer.terms, report.shape, report.batch), report.step_seconds * slow)
    fit = refit(times, BASE, Misfit())
    for gpus, slow in ((4, 1.0), (8, 1.3), (16, 1.0)):
        where = split(trainer.terms, shape(gpus), 1024)
        truth = math.log(trainer.seconds(gpus, where.batch) * slow)
        assert fit.predict(where).mean == pytest.approx(truth, abs=0.03)


def test_what_a_further_pass_costs_is_unsure_until_one_ran_and_then_known_at_every_width() -> None:
    """Synchronising that hides looks like computing in single passes; further ones here take three quarters of that."""
    trainer = Trainer(unknowns=(*UNKNOWNS[:-1], math.log(0.75)))
    told = StepTimes(trainer.local)

    def run(gpus: int, batch: int) -> None:
        where = split(trainer.terms, shape(gpus), batch)
        for _ in range(30):
            told.add(where, math.exp(log_step(trainer.unknowns, where, trainer.local)))

    for gpus in WIDTHS:
        for local in (32, 64, 128):
            run(gpus, gpus * local)
    passes = split(trainer.terms, shape(8), 8 * 128 * 4)
    truth = log_step(trainer.unknowns, passes, trainer.local)
    before = refit(told, BASE, Misfit()).predict(passes)
    run(16, 16 * 128 * 2)
    after = refit(told, BASE, Misfit()).predict(passes)
    assert before.mean - truth > 0.15
    assert math.sqrt(before.variance) > 0.1
    assert abs(after.mean - truth) < 0.08
    assert after.variance < before.variance / 2.0


def test_slow_synchronisation_of_a_width_is_not_taken_for_slow_computation() -> None:
    """On 8 GPUs it takes three times as long, which is seen at small batches alone; many passes hardly notice."""
    trainer = Trainer()
    told = StepTimes(trainer.local)

    def slow(where: Configuration) -> float:
        off = math.log(3.0) if where.shape.gpus == 8 else 0.0
        return log_step(UNKNOWNS, where, trainer.local, off)

    for gpus in WIDTHS:
        for batch in (64, 128, 2048) if gpus < 8 else (64, 128):
            where = split(trainer.terms, shape(gpus), batch)
            for _ in range(30):
                told.add(where, math.exp(slow(where)))
    fit = refit(told, BASE, Misfit())
    where = split(trainer.terms, shape(8), 4096)
    assert fit.predict(where).mean == pytest.approx(slow(where), abs=0.03)


def test_a_fit_is_done_anew_for_a_new_configuration_and_for_much_new_evidence_only() -> None:
    trainer = Trainer()
    times = StepTimes(trainer.local)
    where = split(trainer.terms, shape(1), 64)
    for _ in range(20):
        times.add(where, 0.3)
    refit(times, BASE, Misfit())
    assert not times.outgrown
    times.add(where, 0.3)
    assert not times.outgrown
    times.add(split(trainer.terms, shape(2), 64), 0.2)
    assert times.outgrown
    refit(times, BASE, Misfit())
    for _ in range(7):
        times.add(where, 0.3)
    assert times.outgrown


def test_a_new_width_is_fitted_by_its_own_reports_however_often_others_ran() -> None:
    trainer = Trainer()
    times = StepTimes(trainer.local)
    often, new = split(trainer.terms, shape(1), 64), split(trainer.terms, shape(2), 64)
    for _ in range(400):
        times.add(often, 0.3)
    for _ in range(8):
        times.add(new, 0.2)
    refit(times, BASE, Misfit())
    for _ in range(20):
        times.add(often, 0.3)
    assert not times.outgrown
    for _ in range(3):
        times.add(new, 0.2)
    assert times.outgrown
    assert refit(times, BASE, Misfit()).effects[shape(2)].count == 11


def test_how_much_reports_say_is_told_for_each_unknown() -> None:
    fit = fitted(Trainer(), (1,), 50)
    assert fit.informed[Unknown.COMPUTE] > 0.9
    assert fit.informed[Unknown.NODE_SYNC] == pytest.approx(0.0, abs=1e-9)


def test_a_batch_size_that_is_slower_than_the_model_says_makes_its_neighbours_slower_too() -> None:
    ran, near, far = (Configuration(Shape(1, 4), local, 1) for local in (32, 34, 128))
    effects = CellEffects(0.05**2)
    effects.learn([ran], [0.1], [1e-6])
    beside, beyond = effects.of([near, far])
    assert beside.mean == pytest.approx(0.1 * math.exp(-math.log(34 / 32) / CELL_RANGE), abs=0.001)
    assert beyond.mean < 0.01
    assert beside.deviation < 0.03 < beyond.deviation
