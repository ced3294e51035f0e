"""What one tenant reports and declares moves no other tenant's expectations beyond a bound."""

from __future__ import annotations

from math import exp, log

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms, ModelFacts
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation, Shape, split
from tests import lanes

TERMS = BatchTerms(32, 1024, 32)
TYPES = ("NVIDIA-A100-SXM4-40GB", "Tesla-T4")
FACTS = ModelFacts("resnet", 4e9, 25e6)
NEW = ClassId("victim", "new")
MOST_ON_ONE, MOST_ON_EIGHT = 3.0, 6.0
"""The factors by which another tenant's word may move the seconds of a step."""


def taught(name: ClassId, seconds: float, *, wide: float = 0.3, facts: ModelFacts = FACTS) -> list[Observation]:
    """Three reports on one GPU and on eight; ``wide``: the seconds there as a part of those on one."""
    return [
        Observation(name, gpu_type, 1, gpus, 32, seconds if gpus == 1 else seconds * wide, 0.5, Instant(0))
        for gpu_type in TYPES
        for gpus in (1, 8)
        for _ in range(3)
    ]


def expected(classes: dict[ClassId, tuple[ModelFacts, list[Observation]]], facts: ModelFacts) -> list[float]:
    """Log seconds of a step of the new class on one GPU and on eight."""
    learner = Learner({NEW: TERMS, **dict.fromkeys(classes, TERMS)}, dict.fromkeys(TYPES, 8))
    learner.describe(NEW, facts)
    for name, (known, reports) in classes.items():
        learner.describe(name, known)
        for report in reports:
            learner.report(report)
        learner.profile(name, (1, 8))
    times = learner.step_times(NEW, TYPES[0])
    return [times.predict(split(TERMS, Shape(1, gpus), 32)).mean for gpus in (1, 8)]


forged = st.tuples(st.sampled_from((1e-6, 1e-3, 1.0, 86_400.0)), st.sampled_from((1e-6, 1e-3, 1.0, 1e3, 1e6)))
honest = st.tuples(st.sampled_from(("a", "b", "c")), st.floats(0.03, 3.0), st.floats(0.15, 0.6))
families = st.sampled_from(("", "resnet"))
"""Of the new class; forged classes say that they are of its family."""


@pytest.mark.slow
@settings(max_examples=lanes.examples(150))
@given(st.lists(honest, max_size=6), st.lists(forged, min_size=1, max_size=6), families, st.booleans())
@example([], [(86_400.0, 1.0)] * 5, "resnet", True)
@example([], [(1e-6, 1.0)] * 5, "", False)
@example([("a", 0.2, 0.3)] * 6, [(1e-6, 1e6)] * 5, "", True)
@example([("a", 0.2, 0.3)] * 6, [(86_400.0, 1e-6)] * 5, "resnet", True)
def test_no_tenant_moves_what_is_expected_of_another_far(
    others: list[tuple[str, float, float]], lies: list[tuple[float, float]], family: str, described: bool
) -> None:
    facts = ModelFacts(family, 4e9, 25e6) if described else ModelFacts()
    truth = {
        ClassId(tenant, f"c{number}"): (FACTS, taught(ClassId(tenant, f"c{number}"), seconds, wide=wide))
        for number, (tenant, seconds, wide) in enumerate(others)
    }
    lying = {
        ClassId("evil", f"c{number}"): (FACTS, taught(ClassId("evil", f"c{number}"), seconds, wide=wide))
        for number, (seconds, wide) in enumerate(lies)
    }
    before, after = expected(truth, facts), expected({**truth, **lying}, facts)
    off = [exp(abs(two - one)) for one, two in zip(before, after, strict=True)]
    assert off[0] <= MOST_ON_ONE
    assert off[1] <= MOST_ON_EIGHT


def test_what_the_own_namespace_told_counts_in_full() -> None:
    mine = {ClassId("victim", f"c{n}"): (FACTS, taught(ClassId("victim", f"c{n}"), 20.0)) for n in range(6)}
    theirs = {ClassId("other", f"c{n}"): (FACTS, taught(ClassId("other", f"c{n}"), 20.0)) for n in range(6)}
    alone, with_mine, with_theirs = (expected(known, ModelFacts())[0] for known in ({}, mine, theirs))
    assert with_mine - alone > 1.5 * (with_theirs - alone) > 0.0
    assert abs(with_mine - log(20.0)) < abs(with_theirs - log(20.0))
