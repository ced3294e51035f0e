"""Estimates against applications that were really measured; skipped where the data is absent."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path
from random import Random

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner, configurations
from charterer.estimate.observation import Configuration, Observation, Shape
from charterer.tools.simulator.model.ground_truth import GPU_TYPE
from tests.measured import EPOCHS, GPUS_PER_NODE, Tables, read_tables

DATA = Path(os.environ.get("CHARTERER_DATA_DIR") or Path(__file__).resolve().parents[4] / "shared" / "data")
TRACES = DATA / "pollux" / "traces"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the measured data is not here: {TRACES}")

SEEN = (1, 2, 4, 8)
HELD_OUT = (16, 32)
LOSS = {"bert": 0.02, "cifar10": 0.04, "deepspeech2": 0.05, "imagenet": 0.04, "ncf": 0.02, "yolov3": 0.05}
"""Mean goodput that the chosen batch may lose: yolov3's step times jump between batch sizes, deepspeech2's noise."""


@cache
def table(name: str) -> Tables:
    folder = TRACES / name
    texts = {int(path.stem.removeprefix("validation-")): path.read_text() for path in folder.glob("validation-*.csv")}
    return read_tables(name, texts, (folder / "placements.csv").read_text(), (folder / "scalability.csv").read_text())


def shape(gpus: int) -> Shape:
    return Shape(-(-gpus // GPUS_PER_NODE), gpus)


def terms(name: str) -> BatchTerms:
    one = table(name)
    return BatchTerms(one.own_batch, one.batches[-1], one.largest_local, one.smallest_local)


def tell(known: Learner, name: str, widths: tuple[int, ...], number: int) -> None:
    """Reports with 5 % scatter at those widths, any batch size and any epoch."""
    one, draw = table(name), Random(name)
    for _ in range(number):
        gpus, epoch = draw.choice(widths), draw.randrange(EPOCHS[name])
        batch = draw.choice(configurations(terms(name), shape(gpus))).batch
        measurement = one.measurement(epoch, gpus, batch)
        if measurement is not None:
            known.report(
                Observation(
                    ClassId("team", name),
                    "T4",
                    shape(gpus).nodes,
                    gpus,
                    measurement.batch,
                    measurement.step_seconds * math.exp(draw.gauss(0.0, 0.05)),
                    (one.ends[epoch] - 1e-6) / one.ends[-1],
                    Instant(0),
                    measurement.grad_sqr,
                    measurement.grad_var * math.exp(draw.gauss(0.0, 0.05)),
                )
            )


@cache
def learned(name: str) -> Learner:
    """All applications known at all widths but one, which ran on 1 to 8 GPUs."""
    known = Learner({ClassId("team", name): terms(name) for name in EPOCHS}, {"T4": GPUS_PER_NODE})
    for other in EPOCHS:
        if other != name:
            tell(known, other, (*SEEN, *HELD_OUT), 100)
            known.profile(ClassId("team", other), (*SEEN, *HELD_OUT))
    tell(known, name, SEEN, 100)
    return known


def step_errors(name: str, widths: tuple[int, ...]) -> list[float]:
    known, found = learned(name), []
    fit = known.step_times(ClassId("team", name), "T4")
    for gpus in widths:
        for where in configurations(terms(name), shape(gpus)):
            truth = true_seconds(name, where)
            if truth is not None:
                found.append(abs(fit.predict(where).mean - math.log(truth)))
    return sorted(found)


def true_seconds(name: str, where: Configuration) -> float | None:
    return table(name).seconds(where.shape.gpus, where.local, where.passes)


@pytest.mark.parametrize("name", sorted(EPOCHS))
def test_step_times_of_widths_that_ran_are_known_to_a_few_percent(name: str) -> None:
    errors = step_errors(name, SEEN)
    assert errors[len(errors) // 2] < 0.06


@pytest.mark.parametrize("name", sorted(set(EPOCHS) - {"bert"}))
def test_step_times_of_wider_ones_are_extrapolated_usefully(name: str) -> None:
    errors = step_errors(name, HELD_OUT)
    assert errors[len(errors) // 2] < 0.3


@pytest.mark.parametrize("name", sorted(EPOCHS))
def test_the_chosen_batch_has_nearly_the_best_goodput(name: str) -> None:
    one, profile = table(name), learned(name).profile(ClassId("team", name), SEEN)
    best, lost = one.application(SEEN), []
    for epoch, end in enumerate(best.ends):
        for gpus in SEEN:
            got = one.rate(epoch, gpus, profile.batch(profile.phase(end - 1e-6), gpus))
            assert got is not None
            lost.append(1.0 - got / best.rates[GPU_TYPE][epoch][gpus])
    assert sum(lost) / len(lost) < LOSS[name]
