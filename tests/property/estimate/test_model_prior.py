"""Laws of the prediction from what owners say of models: it is a normal distribution given others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import ClassId
from charterer.domain.profile import ModelFacts
from charterer.estimate.priors import MeasuredModel, predicted_seconds

facts = st.builds(ModelFacts, st.sampled_from(["", "resnet", "bert"]), st.floats(1.0, 1e18))
types = st.sampled_from(["K80", "NVIDIA-A100-SXM4-40GB", "H100"])
measured = st.lists(
    st.builds(
        MeasuredModel,
        st.builds(ClassId, st.just("team"), st.sampled_from("abcd")),
        facts,
        types,
        st.floats(-20.0, 20.0),
        st.floats(1e-6, 10.0),
    ),
    max_size=8,
)
NEW = ClassId("team", "new")


@given(facts, types, measured)
def test_whatever_ran_narrows_the_prediction(model: ModelFacts, gpu_type: str, ran: list[MeasuredModel]) -> None:
    alone = predicted_seconds(NEW, model, gpu_type, ())
    found = predicted_seconds(NEW, model, gpu_type, ran)
    assert alone is not None
    assert found is not None
    assert 0.0 < found[1] <= alone[1] * (1.0 + 1e-9)


@given(facts, types, measured)
def test_the_order_of_what_ran_does_not_matter(model: ModelFacts, gpu_type: str, ran: list[MeasuredModel]) -> None:
    assert predicted_seconds(NEW, model, gpu_type, ran) == pytest.approx(
        predicted_seconds(NEW, model, gpu_type, ran[::-1]), rel=1e-6, abs=1e-6
    )
