"""Seconds of a checkpoint of a class that has neither declared nor reported them.

A checkpoint takes a fixed time, and the time of its bytes. CM-DARE (Li, Walls and Guo, ICDCS 2020) measured 20 models;
``tests.bench.predict`` derives the two numbers again and says how well a model that is left out is predicted.
"""

from __future__ import annotations

from typing import Final

from charterer.domain.profile import Profile
from charterer.policy.options.interruptions import DEFAULT_CHECKPOINT_SECONDS

FIXED_SECONDS: Final = 3.71
SECONDS_PER_PARAMETER: Final = 1.53e-7
"""Eight bytes a parameter (32-bit weights and a momentum), to an object store."""


def checkpoint_seconds(profile: Profile | None) -> float:
    """As declared or reported; before that by the number of parameters, where the owner says it.

    At most ``DEFAULT_CHECKPOINT_SECONDS`` by the number of parameters: the largest measured model had 26 million, and
    nothing tells how the law goes on far beyond.
    """
    if profile is None:
        return DEFAULT_CHECKPOINT_SECONDS
    if profile.checkpoint_seconds is not None:
        return profile.checkpoint_seconds
    if profile.model.parameters is None:
        return DEFAULT_CHECKPOINT_SECONDS
    return min(FIXED_SECONDS + SECONDS_PER_PARAMETER * profile.model.parameters, DEFAULT_CHECKPOINT_SECONDS)
