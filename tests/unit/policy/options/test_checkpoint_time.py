"""How long a checkpoint is taken to be before anybody said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.profile import ModelFacts, PowerLaw
from charterer.policy.options.market import DEFAULT_CHECKPOINT_SECONDS
from charterer.policy.options.sources import checkpoint_seconds
from tests.worlds import World


@pytest.mark.parametrize(
    ("parameters", "known", "seconds"),
    [
        (None, None, DEFAULT_CHECKPOINT_SECONDS),
        (26.2e6, None, pytest.approx(7.7, abs=0.2)),
        (7e9, None, DEFAULT_CHECKPOINT_SECONDS),
        (26.2e6, 21.5, 21.5),
    ],
)
def test_it_is_as_known_or_by_the_parameters_and_never_longer_than_assumed_without(
    parameters: float | None, known: float | None, seconds: float
) -> None:
    """The largest of CM-DARE's models has 26.2 million parameters, and its checkpoint took 7.7 s."""
    profile = replace(
        World().profile("sft", PowerLaw(0.8, 1.0)),
        model=ModelFacts(parameters=parameters),
        checkpoint_seconds=known,
    )
    assert checkpoint_seconds(profile) == seconds


def test_a_class_without_a_profile_has_the_usual_one() -> None:
    assert checkpoint_seconds(None) == DEFAULT_CHECKPOINT_SECONDS
