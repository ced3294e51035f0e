"""What is learned survives being written down: the same predictions after, and nothing taken from what is corrupted."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from charterer.api import decode
from charterer.api.models import learned_record
from charterer.api.models.base import dump
from charterer.api.models.machine_state import packed
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms, PairSpeed, Profile
from charterer.domain.time import Instant
from charterer.estimate.cells import StepTimes
from charterer.estimate.class_state import ClassState
from charterer.estimate.learner import Learner, learned_pairs, remembered
from charterer.estimate.observation import Observation
from tests import lanes
from tests.unit.api import values
from tests.unit.estimate.trainers import NODE_GPUS, WIDTHS, Trainer

NAME = ClassId("team", "sft")


def learner(trainer: Trainer) -> Learner:
    return Learner({trainer.class_id: trainer.terms}, {"A": NODE_GPUS})


def taught(seed: int, widths: tuple[int, ...], reports: int, sizes: list[float]) -> Learner:
    trainer = Trainer(name=NAME.name)
    known = learner(trainer)
    for report in trainer.reports(widths, reports, seed):
        known.report(report)
    for size in sizes:
        known.completed(NAME, size)
    return known


def written(known: Learner) -> dict[str, Any]:
    """A status as it comes back from the API server."""
    state = known.state(NAME)
    learned = {
        **dump(learned_record.curves_record(known.profile(NAME, WIDTHS))),
        **dump(learned_record.class_record(state)),
    }
    machine_state, _ = packed(learned_record.class_statistics(state, Instant(1_000_000)))
    assert machine_state is not None
    status: dict[str, Any] = json.loads(json.dumps({"learned": learned, "machineState": dump(machine_state)}))
    return status


def rebuilt(status: dict[str, Any]) -> Learner:
    known = Learner({}, {"A": NODE_GPUS})
    record = SpeedupProfileRecord.model_validate(status)
    statistics = record.statistics()
    assert record.learned is not None
    assert statistics is not None
    known.restore(learned_record.class_state(NAME, record.learned, statistics))
    return known


def exactly(known: Learner) -> Learner:
    """The same statistics with nothing worked out of them, so that both have fitted the same number of times."""
    state, again = known.state(NAME), learner(Trainer(name=NAME.name))
    times = {
        name: StepTimes(times.largest_local, dict(times.cells), times.reports) for name, times in state.times.items()
    }
    again.restore(ClassState(state.class_id, state.terms, times, state.noise, state.sizes))
    return again


@settings(max_examples=lanes.examples(25), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.integers(0, 10**6),
    st.lists(st.sampled_from(WIDTHS), min_size=1, max_size=4, unique=True),
    st.integers(1, 200),
    st.lists(st.floats(1.0, 1e9), max_size=5),
)
@example(2149, [16], 143, [])
def test_a_learner_made_from_a_status_predicts_the_same_within_the_rounding(
    seed: int, widths: list[int], reports: int, sizes: list[float]
) -> None:
    known = taught(seed, tuple(widths), reports, sizes)
    again = rebuilt(written(known))
    expected, found = exactly(known).profile(NAME, WIDTHS), again.profile(NAME, WIDTHS)
    kept = [cell.count for times in known.state(NAME).times.values() for cell in times.cells.values()]
    assert found.reports == sum(kept) <= expected.reports  # the longest ago is forgotten of too many configurations
    assert len(found.learned_phases) == len(expected.learned_phases)
    for (_, one), (_, other) in zip(expected.entries, found.entries, strict=True):
        assert (other.gpu_type, other.gpus, other.source, other.reports) == (
            one.gpu_type,
            one.gpus,
            one.source,
            one.reports,
        )
        assert other.goodput == pytest.approx(one.goodput, rel=1e-3)
        if other.batch == one.batch:  # of two batch sizes that are equally good, the rounding may decide which is taken
            assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-3)
    assert again.work(NAME).value == pytest.approx(known.work(NAME).value, rel=1e-4)


def test_what_was_kept_beside_others_is_remembered_with_how_many_reports_say_so() -> None:
    known, pair = taught(1, WIDTHS[:1], 20, []), PairSpeed("A-mps-2", ClassId("team", "other"), 0.7123, 40)
    known.state(NAME).pairs = remembered([pair])
    again = rebuilt(written(known))
    (found,) = learned_pairs(again.state(NAME))
    assert (found.gpu_type, found.beside, found.reports) == (pair.gpu_type, pair.beside, 40)
    assert found.kept == pytest.approx(0.7123)


def read(status: dict[str, Any], **spec: Any) -> Profile:
    return decode.profile(values.raw("SpeedupProfile", spec, status=status))


def test_a_profile_is_read_with_what_was_learned() -> None:
    status = written(taught(0, (1, 2, 4), 100, [5e4]))
    profile = read(status)
    assert profile.reports == 100
    assert len(profile.phases) == len(status["learned"]["phases"])
    assert profile.phases[-1].until == 1.0
    reference = status["learned"]["phases"][0]["widths"][0]["goodput"]
    assert profile.mean_work == pytest.approx(5e4 / reference)
    assert profile.unreadable == ""


def test_a_status_stays_small() -> None:
    trainers = [Trainer(name=NAME.name, gpu_type=name) for name in "ABC"]
    known = learner(trainers[0])
    draw = random.Random(0)
    for trainer in trainers:
        for report in trainer.reports(WIDTHS, 1_000, draw.randrange(1000)):
            known.report(report)
    status = written(known)
    SpeedupProfileRecord.model_validate(status)
    assert len(json.dumps(status)) < 100_000


CURVES = [{"gpuType": "A", "power": {"exponent": 0.8, "value": 1.0}}]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("learned", "phases", 0, "widths", 0, "goodput"), 0, "status.learned.phases[0].widths[0].goodput"),
        (("learned", "phases", 0, "widths", 0, "source"), "Guessed", "status.learned.phases[0].widths[0].source"),
        (("learned", "batch"), None, "status.learned.batch"),
        (("learned", "batch", "own"), 10**6, "status.learned.batch"),
        (("learned", "phases", 0, "until"), 2.0, "status.learned.phases[0].until"),
        (("learned", "phases", 1, "until"), 1e-6, "status.learned.phases"),
        (("machineState", "version"), 2, "status.machineState.version: this operator reads version 1, not 2"),
        (("machineState", "data"), "???", "status.machineState.data"),
        (("machineState", "data"), "AAAA", "status.machineState.data"),
    ],
)
def test_a_corrupted_status_is_ignored_and_named(path: tuple[str | int, ...], value: object, field: str) -> None:
    status = written(taught(0, (1, 2, 4), 100, []))
    inner: Any = status
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    profile = read(status, curves=CURVES)
    assert profile.unreadable.startswith(field)
    assert profile.reports == 0
    assert profile.phases[0].curves == profile.declared


def test_a_batch_size_that_is_rounded_up_past_the_largest_is_written_as_the_largest() -> None:
    terms = BatchTerms(1_000_000_000, 1_000_000_000, 8)
    known = Learner({NAME: terms}, {"A": NODE_GPUS})
    known.report(Observation(NAME, "A", 2, 9, 1_000_000_000, 1.0, 0.5, Instant(0)))
    record = learned_record.curves_record(known.profile(NAME, (9,)))
    assert [width.batch for phase in record.phases for width in phase.widths] == [1_000_000_000] * len(record.phases)
