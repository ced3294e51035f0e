"""What is known of a class's speed before its first job: from its model's FLOPs, and from alike classes that ran."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import NO_FACTS, BatchTerms, ModelFacts
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Configuration, Observation, Shape
from charterer.estimate.priors import MOST_MEASURED, MeasuredModel, predicted_seconds
from charterer.estimate.throughput import Normal

NEW = ClassId("team", "new")
RESNET = ModelFacts("resnet", 1.66e9)


def predicted(facts: ModelFacts, gpu_type: str, *measured: MeasuredModel) -> Normal:
    found = predicted_seconds(NEW, facts, gpu_type, measured)
    assert found is not None
    return found


def ran(name: str, facts: ModelFacts, gpu_type: str, seconds: float) -> MeasuredModel:
    return MeasuredModel(ClassId("team", name), facts, gpu_type, math.log(seconds), 1e-4)


def test_a_network_of_cm_dare_is_predicted_within_its_interval() -> None:
    """ResNet-32 on a K80: 218 ms for 128 samples."""
    mean, variance = predicted(RESNET, "K80")
    assert mean == pytest.approx(math.log(0.218 / 128), abs=0.3)
    assert 0.5 < math.sqrt(variance) < 0.8


def test_beyond_the_largest_measured_model_seconds_grow_with_flops() -> None:
    small, large = (predicted(ModelFacts("", flops), "A100")[0] for flops in (1e12, 1e13))
    assert large - small == pytest.approx(math.log(10.0))
    small, large = (predicted(ModelFacts("", flops), "A100")[0] for flops in (1e9, 1e10))
    assert large - small < 0.7 * math.log(10.0)


@pytest.mark.parametrize(("facts", "gpu_type"), [(NO_FACTS, "A100"), (RESNET, "Abacus"), (ModelFacts("x"), "A100")])
def test_nothing_is_predicted_without_flops_or_a_data_sheet(facts: ModelFacts, gpu_type: str) -> None:
    assert predicted_seconds(NEW, facts, gpu_type, ()) is None


def test_a_class_of_the_same_family_tells_most() -> None:
    alone = predicted(RESNET, "A100")
    slow = math.exp(alone[0] + 1.0)
    family = predicted(RESNET, "A100", ran("other", replace(RESNET, flops_per_sample=1.8e9), "A100", slow))
    stranger = predicted(RESNET, "A100", ran("other", ModelFacts("bert", 1.8e9), "A100", slow))
    assert alone[0] < stranger[0] < alone[0] + 0.3
    assert alone[0] + 0.7 < family[0] < alone[0] + 1.0
    assert family[1] < 0.2 * alone[1]
    assert 0.8 * alone[1] < stranger[1] < alone[1]


def test_classes_of_no_family_are_strangers() -> None:
    one = ran("other", ModelFacts("", 1.66e9), "A100", 1.0)
    assert predicted(ModelFacts("", 1.66e9), "A100", one) == predicted(RESNET, "A100", one)


def test_of_very_many_classes_the_family_is_asked_first() -> None:
    strangers = [ran(f"a{at}", ModelFacts("bert", 1e10), "A100", 1.0) for at in range(MOST_MEASURED)]
    family = ran("z", RESNET, "A100", 1e-4)
    mean, variance = predicted(RESNET, "A100", *strangers, family)
    assert mean == pytest.approx(math.log(1e-4), abs=0.2)
    assert math.sqrt(variance) < 0.3


def observation(gpus: int, seconds: float) -> Observation:
    return Observation(NEW, "A100", 1, gpus, 64, seconds, 0.0, Instant(0))


def test_the_first_report_outweighs_the_prior() -> None:
    """The model is four times as slow as its FLOPs say: after one report that is forgotten."""
    learner = Learner({NEW: BatchTerms(64, 64, 64)}, {"A100": 8})
    learner.describe(NEW, RESNET)
    where = Configuration(Shape(1, 1), 64, 1)
    before = learner.step_times(NEW, "A100").predict(where)
    assert before.mean == pytest.approx(predicted(RESNET, "A100")[0] + math.log(64), abs=0.01)
    true = math.exp(before.mean) * 4.0
    learner.report(observation(1, true))
    after = learner.step_times(NEW, "A100").predict(where)
    assert after.mean == pytest.approx(math.log(true), abs=0.03)
    assert after.variance < 0.02 * before.variance


def test_what_one_class_reported_is_known_of_the_next_of_its_family() -> None:
    other = ClassId("team", "other")
    learner = Learner({NEW: BatchTerms(64, 64, 64), other: BatchTerms(32, 32, 32)}, {"A100": 8})
    learner.describe(NEW, RESNET)
    prior = learner.step_times(NEW, "A100").predict(Configuration(Shape(1, 1), 64, 1)).mean
    learner.describe(other, RESNET)
    learner.report(replace(observation(1, math.exp(prior) * 4.0 / 2.0), class_id=other, batch=32))
    learner.profile(other, (1,))
    found = learner.step_times(NEW, "A100").predict(Configuration(Shape(1, 1), 64, 1))
    assert found.mean == pytest.approx(prior + math.log(4.0), abs=0.25)


def test_other_terms_of_a_class_keep_what_is_said_of_its_model() -> None:
    learner = Learner({NEW: BatchTerms(64, 64, 64)})
    learner.describe(NEW, RESNET)
    learner.declare(NEW, BatchTerms(32, 64, 64))
    assert learner.state(NEW).model == RESNET
