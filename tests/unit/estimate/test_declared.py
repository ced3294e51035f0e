"""A declared curve is a prior: it holds where nothing is known, and gives way where something is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import ClassId
from charterer.domain.profile import CurveSource
from charterer.estimate.curves import Declared, with_declared
from charterer.estimate.learned import Entry, Learned, LearnedPhase


def entry(
    gpus: int, goodput: float, spread: float, source: CurveSource = CurveSource.MEASURED, gpu_type: str = "A"
) -> Entry:
    """``spread``: standard deviation of the logarithm."""
    off = math.exp(1.645 * spread)
    reports = 5 if source is CurveSource.MEASURED else 0
    return Entry(gpu_type, gpus, goodput, goodput / off, goodput * off, 64, 1.0, source, reports)


def learned(*entries: Entry) -> Learned:
    return Learned(ClassId("team", "resnet"), 64, 5, (LearnedPhase(1.0, 1.0, 0.5, 2.0, 0.0, entries),))


def linear(value: float = 1.0) -> Declared:
    return lambda gpu_type, gpus: value * gpus if gpu_type == "A" else None


def result(said: Learned, declared: Declared) -> dict[tuple[str, int], Entry]:
    return {(entry.gpu_type, entry.gpus): entry for _, entry in with_declared(said, declared).entries}


def test_where_little_was_measured_the_declared_shape_holds_at_the_measured_scale() -> None:
    found = result(learned(entry(8, 4.0, 0.01), entry(32, 9.0, 1.0, CurveSource.EXTRAPOLATED)), linear(100.0))
    assert found["A", 8].goodput == pytest.approx(4.0, rel=0.01)
    assert found["A", 32].goodput == pytest.approx(16.0, rel=0.05)
    assert found["A", 32].source is CurveSource.DECLARED


def test_what_was_measured_well_is_believed_whatever_was_declared() -> None:
    found = result(learned(entry(8, 4.0, 0.01), entry(32, 9.0, 0.01)), linear())
    assert found["A", 32].goodput == pytest.approx(9.0, rel=0.02)
    assert found["A", 32].source is CurveSource.MEASURED
    assert found["A", 32].reports == 5


def test_nothing_declared_changes_nothing() -> None:
    said = learned(entry(8, 4.0, 0.1), entry(32, 9.0, 0.5, CurveSource.EXTRAPOLATED))
    assert with_declared(said, lambda gpu_type, gpus: None) == said
    other = learned(entry(8, 4.0, 0.1), entry(8, 7.0, 0.5, CurveSource.EXTRAPOLATED, "B"))
    assert result(other, linear())["B", 8].goodput == 7.0


@given(
    st.lists(st.tuples(st.floats(0.01, 100.0), st.floats(0.001, 3.0)), min_size=1, max_size=6),
    st.floats(1e-6, 1e6),
)
def test_the_unit_of_what_was_declared_does_not_matter_and_nothing_becomes_less_certain(
    widths: list[tuple[float, float]], unit: float
) -> None:
    said = learned(*(entry(2**at, value, spread) for at, (value, spread) in enumerate(widths)))
    one, other = result(said, linear()), result(said, linear(unit))
    for (_, before), key in zip(said.entries, one, strict=True):
        assert other[key].goodput == pytest.approx(one[key].goodput)
        assert other[key].low <= other[key].goodput <= other[key].high
        assert one[key].high / one[key].low <= before.high / before.low * (1 + 1e-9)
